"""Requests of a server to this program, answered by the user's callbacks or refused; and the client that receives them.

Rules:
1. Without a callback, an elicitation is declined, and sampling is neither offered nor done.
2. If a callback fails, the request is refused as well; the server is not told why.
3. While a person is asked, the clocks of the calls in flight are stopped.
4. A URL that is no web address is declined without asking.
5. The questions of a server that asks too much do not reach the user: above ``MOST_QUESTIONS`` in one call, above ``MOST_OPEN`` at a time,
   and after ``MOST_REFUSALS`` refusals in one call they are declined without asking, which is reported once.
6. Roots are the folders that the program names, and no others.
7. Capabilities that the program does not allow are not offered to the server either.
8. Results are not checked against the server's output schema: its patterns would run in our process, and a model can read a result that
   does not fit.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import mcp_types
from mcp.client import Client, ClientRequestContext
from mcp.client.session import MessageHandlerFnT
from msgspec.structs import replace
from pydantic import ValidationError

from multi_llm_chat.events import FormRequested
from multi_llm_chat.tools.mcp.server_messages import (
    Elicitation,
    ElicitationAnswer,
    ElicitationCallback,
    EventCallback,
    SamplingAnswer,
    SamplingCallback,
    SamplingRequest,
    ServerEvent,
    ServerLogged,
    WaitingCallback,
)
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.threads import in_thread
from multi_llm_chat.tools.tool import ToolContext

# Requests.

_LOGGER = logging.getLogger(__name__)
_Question = TypeVar("_Question")
_DECLINED = ElicitationAnswer("decline")

#: The most questions of one call, the most open questions at one time, and the most refusals of one call.
MOST_QUESTIONS: Final = 20
MOST_OPEN: Final = 3
MOST_REFUSALS: Final = 3
#: The most calls whose questions are counted.
_MOST_COUNTED: Final = 200

#: The call in whose task a question is asked: servers of the newer protocol send questions in the answer to a call.
CURRENT_CALL: ContextVar[ToolContext[Any] | None] = ContextVar("CURRENT_CALL", default=None)


class Clock(Protocol):
    """A clock that is stopped while a person is asked."""

    def hold(self) -> None:
        """Stop the clock."""
        ...

    def release(self) -> None:
        """Continue the clock."""
        ...


class StartClock:
    """Suspends the time limit of a start while the user signs in; after the start it does nothing."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._left = 0.0

    def hold(self) -> None:
        """Stop the clock."""
        deadline = self._limit.when()
        if deadline is not None:
            self._left = deadline - asyncio.get_running_loop().time()
            self._move(None)

    def release(self) -> None:
        """Continue the clock."""
        if self._limit.when() is None:
            self._move(self._left)

    def end(self) -> None:
        """Let the time be up."""
        self._move(0.0)

    def _move(self, seconds: float | None) -> None:
        now = asyncio.get_running_loop().time()
        with suppress(RuntimeError):  # the start is over
            self._limit.reschedule(None if seconds is None else now + seconds)


class Callbacks:
    """The user's callbacks, shared by all servers."""

    def __init__(
        self,
        *,
        elicit: ElicitationCallback | None = None,
        sample: SamplingCallback | None = None,
        on_event: EventCallback | None = None,
        on_waiting: WaitingCallback | None = None,
        roots: Sequence[Path] = (),
    ) -> None:
        self.elicit = elicit
        self.sample = sample
        self.on_event = on_event
        self.on_waiting = on_waiting
        self.roots = tuple(roots)

    def emit(self, event: ServerEvent) -> None:
        """Pass an event to the listener; log its exceptions."""
        if self.on_event is not None:
            _notify(self.on_event, event)

    def waiting(self, servers: tuple[str, ...]) -> None:
        """Report which servers are still starting."""
        if self.on_waiting is not None:
            _notify(self.on_waiting, servers)


class Answers:
    """Answers the questions of one server."""

    def __init__(
        self,
        settings: ServerSettings,
        callbacks: Callbacks,
        asking: Callable[[], AbstractContextManager[None]],
        calls: Callable[[], Sequence[ToolContext[Any]]],
    ) -> None:
        self._settings = settings
        self._callbacks = callbacks
        self._asking = asking
        self._calls = calls
        self._asked: dict[object, tuple[int, int]] = {}  # questions and refusals by call
        self._open = 0
        self._reported = False

    @property
    def may_sample(self) -> bool:
        """Whether both the program and the settings of this server allow it."""
        return self._settings.sampling and self._callbacks.sample is not None

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer an elicitation in the protocol's form."""
        del context
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            question = Elicitation(self._settings.name, params.message, "url", url=params.url)
        else:
            question = Elicitation(
                self._settings.name, params.message, "form", params.requested_schema
            )
        answer = await self.ask(question)
        content = answer.content if answer.action == "accept" and question.mode == "form" else None
        try:
            return mcp_types.ElicitResult(action=answer.action, content=content)
        except ValidationError:
            _LOGGER.warning("the answer to an elicitation has fields that no form can have")
            return mcp_types.ElicitResult(action="cancel")

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """The user's answer; declined if there is no callback."""
        callback = self._callbacks.elicit
        if callback is None or (question.mode == "url" and not _is_web_address(question.url)):
            return _DECLINED
        calls = self._concerned()
        key = calls[-1].call.tool_call_id if calls else None
        if self._is_flood(key):
            return _DECLINED
        question = self._with_call(question, calls)
        self._open += 1
        try:
            with self._asking():
                given = await _asked(callback, question)
        finally:
            self._open -= 1
        answer = given if isinstance(given, ElicitationAnswer) else _DECLINED
        if answer.action != "accept":
            asked, refused = self._asked.get(key, (0, 0))
            self._asked[key] = (asked, refused + 1)
        return answer

    def reset(self) -> None:
        """Forget the counts, because the user restarts the server."""
        self._asked.clear()
        self._reported = False

    def _is_flood(self, key: object) -> bool:
        """Count a question; return whether it exceeds a limit."""
        asked, refused = self._asked.pop(key, (0, 0))
        while len(self._asked) >= _MOST_COUNTED:
            self._asked.pop(next(iter(self._asked)))
        self._asked[key] = (asked + 1, refused)
        flood = asked >= MOST_QUESTIONS or refused >= MOST_REFUSALS or self._open >= MOST_OPEN
        if flood and not self._reported:
            self._reported = True
            self._callbacks.emit(
                ServerLogged(
                    self._settings.name, "warning", "its questions are declined: there are too many"
                )
            )
        return flood

    def _concerned(self) -> Sequence[ToolContext[Any]]:
        current = CURRENT_CALL.get()
        return self._calls() if current is None else (current,)

    def _with_call(self, question: Elicitation, calls: Sequence[ToolContext[Any]]) -> Elicitation:
        """The question with its call; the run of that call reports it."""
        conversations = tuple(dict.fromkeys(context.conversation for context in calls))
        if len(conversations) != 1:
            return replace(question, conversations=conversations)
        latest = calls[-1]
        latest.request_form(
            FormRequested(
                latest.call,
                question.server,
                question.message,
                question.mode,
                question.schema,
                question.url,
            )
        )
        return replace(question, call=latest.call, conversations=conversations)

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Let a model answer for the server (sampling), if that is allowed."""
        del context
        callback = self._callbacks.sample
        if callback is None or not self._settings.sampling:
            return _refused("sampling is not allowed")
        plain = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        with self._asking():
            answer = await _asked(callback, SamplingRequest(self._settings.name, plain))
        if not isinstance(answer, SamplingAnswer):
            return _refused("sampling was refused")
        return mcp_types.CreateMessageResult(
            role="assistant",
            content=mcp_types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason=answer.stop_reason,
        )

    async def roots(
        self, context: ClientRequestContext
    ) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """The folders that the program names."""
        del context
        folders = [
            mcp_types.Root.model_validate({"uri": path.resolve().as_uri(), "name": path.name})
            for path in self._callbacks.roots
        ]
        return mcp_types.ListRootsResult(roots=folders)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Pass on a log message of the server."""
        self._callbacks.emit(
            ServerLogged(self._settings.name, params.level, params.data, params.logger)
        )


@contextmanager
def holding(clocks: Sequence["Clock"]) -> Generator[None]:
    """Stop these clocks while the block runs."""
    for clock in clocks:
        clock.hold()
    try:
        yield
    finally:
        for clock in clocks:
            clock.release()


async def _asked(callback: Callable[[_Question], object], question: _Question) -> object:
    """The answer of the callback; None if it failed."""
    try:
        if inspect.iscoroutinefunction(callback):
            return cast("object", await callback(question))
        answer = await in_thread(lambda: callback(question), "question")
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
    except Exception:  # fail closed
        _LOGGER.warning("a callback for a server's question failed", exc_info=True)
        return None


def _notify(callback: Callable[[_Question], object], value: _Question) -> None:
    """Call a callback; log its exceptions, which must not affect the server."""
    try:
        callback(value)
    except Exception:
        _LOGGER.warning("a callback for MCP servers failed", exc_info=True)


def _is_web_address(url: str | None) -> bool:
    """Whether the URL may be shown as a link: ``javascript:`` and ``file:`` URLs may not."""
    try:
        return urlsplit(url or "").scheme in {"http", "https"}
    except ValueError:
        return False


def _refused(words: str) -> mcp_types.ErrorData:
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=words)


# The client.

_LOG_LEVEL: Final = "info"
_PROGRAM: Final = "multi_llm_chat"


def new_client(
    transport: Any, answers: Answers, callbacks: Callbacks, on_message: MessageHandlerFnT
) -> Client:
    """Make a client; it is not connected yet."""
    listens = callbacks.on_event is not None
    return Client(
        transport,
        client_info=mcp_types.Implementation(name=_PROGRAM, version=version(_PROGRAM)),
        elicitation_callback=answers.elicit if callbacks.elicit is not None else _decline,
        sampling_callback=answers.sample if answers.may_sample else None,
        list_roots_callback=answers.roots if callbacks.roots else None,
        logging_callback=answers.log if listens else None,
        log_level=_LOG_LEVEL if listens else None,
        message_handler=on_message,
        cache=None,
    )


async def trust_results(client: Client) -> None:
    """Switch off the client's check of results (rule 8)."""
    client.session.validate_tool_result = _unchecked


async def _unchecked(name: str, result: mcp_types.CallToolResult) -> None:
    del name, result


async def _decline(
    context: ClientRequestContext, params: mcp_types.ElicitRequestParams
) -> mcp_types.ElicitResult | mcp_types.ErrorData:
    """Decline an elicitation, because there is no callback; servers handle that better than an error."""
    del context, params
    return mcp_types.ElicitResult(action="decline")
