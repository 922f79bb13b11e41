"""Requests and answers as events, between components that share only the events' names.

Rules:
1. ``emit`` calls the handlers of a name in the order of subscription; an exception of a handler is logged and does not stop the others. An
   ``async`` handler runs in the background loop.
2. A request has a unique id, which its answer repeats. The first answer counts; later ones, and answers after the end of the request, are
   discarded.
3. A request always ends: with an answer, with an error answer (a handler raised, or there is none), or with ``NoAnswer`` after its timeout.
   Then ``request_abandoned`` informs the handlers that still work on it.
4. Each handler of a request runs in its own thread, so none can block the caller.
5. An answer emitted by the handler itself needs no id, because its request is known.
6. Any thread and any event loop may use it.
"""

import asyncio
import concurrent.futures
import contextvars
import inspect
import itertools
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct

from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.background_loop import submit

#: Called with an event's payload; may be ``async``. Its return value is ignored.
EventHandler: TypeAlias = Callable[[JsonObject], object]

GET_TOOLS: Final = "get_enabled_tools_request"
EXECUTE_TOOL: Final = "execute_tool_request"
REVIEW: Final = "review_tool_results_request"
ABANDONED: Final = "request_abandoned"

#: The name of the answer to each kind of request.
ANSWERS: Final[Mapping[str, str]] = {
    GET_TOOLS: "enabled_tools_response",
    EXECUTE_TOOL: "tool_execution_response",
    REVIEW: "tool_results_reviewed",
}

#: The timeout of an answer in seconds, as in seed 004.
DEFAULT_TIMEOUT: Final = 30.0

_LOGGER = logging.getLogger(__name__)
_answering: contextvars.ContextVar[str] = contextvars.ContextVar("_answering", default="")


class NoAnswer(ToolError):
    """A request was not answered in time."""


class _Pending(Struct, frozen=True):
    """A request that waits for its answer."""

    id: str
    name: str
    answer_name: str
    answer: "concurrent.futures.Future[JsonObject]"


class EventSystem:
    """Handlers by event name, and the pending requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[str, tuple[EventHandler, ...]] = {}
        self._answer_names = set(ANSWERS.values())
        self._pending: dict[str, _Pending] = {}
        self._numbers = itertools.count(1)

    def subscribe(self, name: str, handler: EventHandler) -> Callable[[], None]:
        """Call the handler for every event of the name; the returned function ends the subscription."""
        with self._lock:
            self._handlers[name] = (*self._handlers.get(name, ()), handler)

        def unsubscribe() -> None:
            with self._lock:
                others = [other for other in self._handlers[name] if other is not handler]
                self._handlers[name] = tuple(others)

        return unsubscribe

    def emit(self, name: str, payload: Mapping[str, Any] | None = None) -> None:
        """Call every subscriber; an answer also ends the request that waits for it."""
        event = dict(payload or {})
        if name in self._answer_names:
            event.setdefault("request_id", _answering.get())
            if not self._answered(name, event):
                _LOGGER.debug("discarded a %s: no request waits for %r", name, event["request_id"])
                return
        for handler in self._handlers_of(name):
            self._call(handler, name, event)

    #: Seed 004's name for ``emit``.
    emit_event = emit

    def request(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        answer_name: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> JsonObject:
        """Send a request and wait for the answer; ``{"success": False, "error": …}`` if a handler failed.

        Args:
            name: The name of the request's event.
            payload: The request; ``request_id`` is added.
            answer_name: The name of the answer's event; defaults exist for the requests of ``ANSWERS``.
            timeout: Seconds to wait; ``None`` waits without limit.

        Raises:
            NoAnswer: No answer arrived in time.
        """
        pending = self._ask(name, payload, answer_name)
        try:
            return pending.answer.result(timeout)
        except concurrent.futures.TimeoutError:
            raise NoAnswer(_late(name, timeout)) from None
        finally:
            self._abandon(pending)

    async def arequest(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        answer_name: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,  # noqa: ASYNC109  the same as without async
    ) -> JsonObject:
        """Like ``request``, to be awaited."""
        pending = self._ask(name, payload, answer_name)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(pending.answer)
        except TimeoutError:
            raise NoAnswer(_late(name, timeout)) from None
        finally:
            self._abandon(pending)

    def _ask(
        self, name: str, payload: Mapping[str, Any] | None, answer_name: str | None
    ) -> _Pending:
        answered_by = answer_name or ANSWERS.get(name)
        if answered_by is None:
            raise UsageError(f"Say which event answers {name!r}: pass answer_name")
        event = dict(payload or {})
        if "request_id" in event:
            raise UsageError("The event system gives requests their ids: leave out request_id")
        answer: concurrent.futures.Future[JsonObject] = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()  # all handlers have started: from here on only an answer ends the request
        pending = _Pending(f"request-{next(self._numbers)}", name, answered_by, answer)
        event["request_id"] = pending.id
        with self._lock:
            is_new = answered_by not in self._answer_names
            self._pending[pending.id] = pending
        if is_new:
            self._take_answers(answered_by)
        handlers = self._handlers_of(name)
        if not handlers:
            self._fail(pending, f"No answer to {name!r}: no handler has subscribed to it.")
        for handler in handlers:
            self._dispatch(handler, pending, event)
        return pending

    def _take_answers(self, name: str) -> None:
        with self._lock:
            self._answer_names.add(name)

    def _dispatch(self, handler: EventHandler, pending: _Pending, event: JsonObject) -> None:
        context = contextvars.copy_context()
        context.run(_answering.set, pending.id)
        work = (self._call, handler, pending.name, event, pending)
        name = f"event {pending.name}"
        threading.Thread(target=context.run, args=work, name=name, daemon=True).start()

    def _handlers_of(self, name: str) -> tuple[EventHandler, ...]:
        with self._lock:
            return self._handlers.get(name, ())

    def _call(
        self, handler: EventHandler, name: str, event: JsonObject, asked: _Pending | None = None
    ) -> None:
        try:
            value = handler(dict(event))
        except BaseException as error:
            # A request has its own thread, so exceptions that would end the thread are reported as well.
            if asked is None and not isinstance(error, Exception):
                raise
            self._failed(name, error, asked)
            return
        if inspect.iscoroutine(value):
            coroutine = cast("Coroutine[Any, Any, object]", value)
            submit(self._finish(coroutine, name, asked))

    async def _finish(
        self, work: "Coroutine[Any, Any, object]", name: str, asked: _Pending | None
    ) -> None:
        try:
            await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see _call
            self._failed(name, error, asked)

    def _failed(self, name: str, error: BaseException, asked: _Pending | None) -> None:
        _LOGGER.warning("a handler of %s failed", name, exc_info=error)
        if asked is not None:
            self._fail(asked, f"A handler of {name!r} failed: {type(error).__name__}: {error}")

    def _fail(self, asked: _Pending, error: str) -> None:
        failure = {"request_id": asked.id, "success": False, "error": error}
        self.emit(asked.answer_name, failure)

    def _answered(self, name: str, event: JsonObject) -> bool:
        """Pass an answer to the request that waits for it; return whether there is one."""
        request_id = event["request_id"]
        with self._lock:
            pending = self._pending.get(request_id) if isinstance(request_id, str) else None
            if pending is None or pending.answer_name != name:
                return False
            del self._pending[pending.id]
        pending.answer.set_result(dict(event))
        return True

    def _abandon(self, pending: _Pending) -> None:
        with self._lock:
            unanswered = self._pending.pop(pending.id, None) is not None
        if unanswered:
            self.emit(ABANDONED, {"request_id": pending.id, "name": pending.name})


class ForeignEvents(EventSystem):
    """An event system on an application's own bus, which has ``subscribe``, and ``emit_event``, ``publish`` or ``emit``.

    Requests are sent on the bus, with a ``request_id``, and their answers are received from it. An answer without an id belongs to the
    request whose handler emits it, or else to the request of its kind that has waited longest. A bus does not report whether there are
    listeners, so a request without an answer ends with its timeout.
    """

    def __init__(self, bus: Any) -> None:
        super().__init__()
        self._bus = bus
        names = ("emit_event", "publish", "emit")
        self._send = next(
            (found for name in names if callable(found := getattr(bus, name, None))), None
        )
        if self._send is None or not callable(getattr(bus, "subscribe", None)):
            raise UsageError(
                f"{type(bus).__name__} is no event system: it needs subscribe, and emit_event or publish"
            )
        for name in ANSWERS.values():
            self._take_answers(name)

    def subscribe(self, name: str, handler: EventHandler) -> Callable[[], None]:
        """Call the handler for every event of the name on the bus; the returned function ends the subscription."""
        is_open = True

        def receive(payload: Any = None) -> None:
            if is_open:
                self._call(handler, name, dict(payload or {}))

        end: object = self._bus.subscribe(name, receive)

        def unsubscribe() -> None:
            nonlocal is_open
            is_open = False
            if callable(end):
                end()

        return unsubscribe

    def emit(self, name: str, payload: Mapping[str, Any] | None = None) -> None:
        """Send an event over the bus; exceptions of the bus are logged."""
        event = dict(payload or {})
        if name in self._answer_names:
            event.setdefault("request_id", _answering.get())
        assert self._send is not None
        try:
            value = self._send(name, event)
        except Exception:
            _LOGGER.warning("the event bus failed to send %s", name, exc_info=True)
            return
        if inspect.iscoroutine(value):
            submit(self._finish(cast("Coroutine[Any, Any, object]", value), name, None))

    emit_event = emit

    def _take_answers(self, name: str) -> None:
        self._answer_names.add(name)

        def receive(payload: Any = None) -> None:
            self._receive_answer(name, dict(payload or {}))

        self._bus.subscribe(name, receive)

    def _receive_answer(self, name: str, event: JsonObject) -> None:
        event["request_id"] = (
            event.get("request_id") or _answering.get() or self._waiting_longest(name)
        )
        if not self._answered(name, event):
            _LOGGER.debug("discarded a %s: no request waits for %r", name, event["request_id"])

    def _waiting_longest(self, name: str) -> str:
        with self._lock:
            return next(
                (each.id for each in self._pending.values() if each.answer_name == name), ""
            )

    def _handlers_of(self, name: str) -> tuple[EventHandler, ...]:
        return (lambda event: self.emit(name, event),)

    def _fail(self, asked: _Pending, error: str) -> None:
        self._receive_answer(
            asked.answer_name, {"request_id": asked.id, "success": False, "error": error}
        )


def event_system_of(events: object) -> EventSystem:
    """The event system itself, or one on an application's own bus.

    Raises:
        UsageError: It is neither.
    """
    return events if isinstance(events, EventSystem) else ForeignEvents(events)


def _late(name: str, seconds: float | None) -> str:
    return f"No answer to {name!r} within {seconds:g} seconds." if seconds is not None else ""
