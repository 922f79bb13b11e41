"""``Tool``, and the values that pass between a tool and its runner.

Rules:
1. A ``Tool`` is data and one coroutine function; it has no reference to its registry.
2. ``run`` returns any value, or a ``ToolOutput`` to mark the value as an error.
3. ``progress``, ``request_form``, ``hold`` and ``release`` may be called from any thread, at any time; they never raise
   and never wait, and they do nothing once the call has been answered.
4. Time in which a tool waits for a person does not count towards its time limit.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from multi_llm_chat.errors import ToolError
from multi_llm_chat.events import FormRequested
from multi_llm_chat.history.values import JsonObject, ToolCall

if TYPE_CHECKING:
    import typing_extensions

    Deps = typing_extensions.TypeVar("Deps", default=Any)
else:
    Deps = TypeVar("Deps")

#: Run without asking, ask each time, or never run.
Approval: TypeAlias = Literal["always", "ask", "never"]

#: What to do with an interrupted call when its run is resumed.
Resume: TypeAlias = Literal["retry", "ask", "never"]

#: A server's annotation of its tool: only reads, changes something, deletes something, reaches the internet.
ToolHint: TypeAlias = Literal["reads", "writes", "deletes", "internet"]

#: The idempotency key of the current call, the same in every attempt.
IDEMPOTENCY_KEY: ContextVar[str | None] = ContextVar("IDEMPOTENCY_KEY", default=None)

#: Receives every form that the server of this call's tool shows to the user.
FORM_OBSERVER: ContextVar[Callable[[FormRequested], None] | None] = ContextVar(
    "FORM_OBSERVER", default=None
)

#: The caller's own object for the tools of a run: ``ToolContext.deps``.
DEPS: ContextVar[Any] = ContextVar("DEPS", default=None)

_LOGGER = logging.getLogger(__name__)


class NotRun(ToolError):
    """The tool did not run or gave no output; the text is the result for the model."""


class ToolProgress(Struct, frozen=True):
    """A running tool reports its progress."""

    tool_call_id: str
    name: str
    progress: float
    total: float | None = None
    message: str = ""
    request_id: str | None = None
    conversation: str | None = None


ProgressCallback: TypeAlias = Callable[[ToolProgress], object]


class ToolOutput(Struct, frozen=True):
    """A tool's output with its error flag.

    ``content`` is a string, JSON, ``Media``, or a list of strings, ``Text`` and ``Media``.
    """

    content: Any
    is_error: bool = False


class CallClock:
    """The time limit of one call; the clock is stopped while a person is asked."""

    __slots__ = ("_left", "_loop", "_timer", "ended")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._left = seconds
        self._timer: asyncio.TimerHandle | None = None
        #: Resolves when the tool has ended or its time is up: to whether it ended in time.
        self.ended: asyncio.Future[bool] = loop.create_future()
        self.release()

    def hold(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self.stop()

    def release(self) -> None:
        """Continue the clock."""
        if self._timer is None and not self.ended.done():
            self._timer = self._loop.call_later(self._left, self._time_up)

    def end(self, *, in_time: bool) -> None:
        """The tool has ended, or its time is up."""
        if not self.ended.done():
            self.ended.set_result(in_time)

    def stop(self) -> None:
        """Stop the clock for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_up(self) -> None:
        self.end(in_time=False)


class ToolContext(Generic[Deps]):
    """The context of a call; a function with a parameter of this type receives it.

    ``idempotency_key`` is the same if an interrupted call is repeated: pass it to the service that should do the work only once. It is None
    if the run is not stored. ``deps`` is the object that the caller gave the run: ``ToolContext[MyDeps]``.
    """

    def __init__(
        self,
        call: ToolCall,
        *,
        conversation: str | None = None,
        request_id: str | None = None,
        on_progress: ProgressCallback | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.call = call
        self.conversation = conversation
        self.request_id = request_id
        self.idempotency_key = IDEMPOTENCY_KEY.get()
        self.deps: Deps = DEPS.get()
        self._on_progress = on_progress
        self._on_form = FORM_OBSERVER.get()
        self._loop = loop
        self._clock: CallClock | None = None
        self._holds = 0

    @property
    def wants_progress(self) -> bool:
        """Whether there is a listener."""
        return self._on_progress is not None

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report the progress of the work."""
        if self._on_progress is None or self._loop is None:
            return
        event = ToolProgress(
            self.call.tool_call_id,
            self.call.name,
            progress,
            total,
            message,
            self.request_id,
            self.conversation,
        )
        self._soon(lambda: self._deliver(event))

    def request_form(self, form: FormRequested) -> None:
        """Report that the server of the tool asks the user something."""
        self._soon(lambda: None if self._on_form is None else self._on_form(form))

    def hold(self) -> None:
        """Stop the clock until ``release``, while a person is asked."""
        self._soon(lambda: self._held(1))

    def release(self) -> None:
        """Continue the clock, after the person has answered."""
        self._soon(lambda: self._held(-1))

    def limited_by(self, clock: CallClock) -> None:
        """Set the clock of this call."""
        self._clock = clock

    def close(self) -> None:
        """Report nothing more: the call is answered."""
        self._on_progress = self._on_form = None
        self._clock = None

    def _soon(self, action: Callable[[], None]) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            return  # the loop has ended, and with it the listener

    def _held(self, change: int) -> None:
        self._holds += change
        if self._clock is not None:
            (self._clock.hold if self._holds else self._clock.release)()

    def _deliver(self, event: ToolProgress) -> None:
        if self._on_progress is None:
            return
        try:
            self._on_progress(event)
        except Exception:  # a listener's error must not affect the tool
            _LOGGER.warning("a progress callback failed", exc_info=True)


ToolRun: TypeAlias = Callable[[JsonObject, ToolContext[Any]], Awaitable[object]]


class Tool(Struct, frozen=True):
    """A tool that a model can call.

    Attributes:
        name: The name that its source uses.
        run: Called with the validated arguments and the context.
        description: The description that the model reads.
        schema: JSON Schema of its arguments.
        source: The server it comes from; empty for a function of this program.
        timeout: Time limit in seconds; the registry's if ``None``.
        approval: Whether the user is asked first.
        resume: What happens to an interrupted call.
        max_output: Characters of text; the registry's limit if ``None``.
        stoppable: Whether cancelling it stops it; a thread cannot be stopped.
        hints: Its server's annotations, shown to the person who approves a call.
    """

    name: str
    run: ToolRun
    description: str = ""
    schema: JsonObject = {}
    source: str = ""
    timeout: float | None = None
    approval: Approval = "always"
    resume: Resume = "ask"
    max_output: int | None = None
    stoppable: bool = True
    hints: tuple[ToolHint, ...] = ()
