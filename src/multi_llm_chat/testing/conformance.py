"""The kit for authors of providers: does a provider do what conversations, chains and runs rely on?

    >>> assert conform(MyProvider()) == []

Rules:
1. Every check asks the provider through its public methods, as a run or a conversation does; it may cost requests.
2. What a model says does not matter: only the form of its replies is judged. A model may call the offered tool, or not.
3. A ``ProviderError`` in answer to an awkward history is no deviation, unless it is a ``BadRequest``; any other exception is one.
4. A check that fails does not stop the others.
"""

import asyncio
import copy
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.providers import as_provider, create_provider
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import BadRequest, ProviderError
from multi_llm_chat.events import Event, Finish, TextDelta, ToolCallEnd, ToolCallStart, Usage
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn

_HELLO: Final[list[JsonObject]] = [
    {"role": "user", "content": [{"type": "text", "content": "Say hello."}]}
]
_TOOL: Final = {
    "name": "get_weather",
    "description": "The weather in a city",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def _call(identifier: str | None, name: str = "get_weather") -> JsonObject:
    content: JsonObject = {"name": name, "arguments": {"city": "Oslo"}}
    return {"type": "tool_call", "content": content | ({"tool_call_id": identifier} if identifier else {})}  # fmt: skip


def _result(identifier: str) -> JsonObject:
    return {"type": "tool_result", "name": "get_weather", "content": "cold", "tool_call_id": identifier}  # fmt: skip


_USER: Final[JsonObject] = {"role": "user", "content": "And now?"}

#: Histories as they are found: each must be answered, or be refused with an error that says why.
_AWKWARD: Final[dict[str, list[JsonObject]]] = {
    "words of another speaker": [*_HELLO, {"role": "somebody", "content": "Hello."}, _USER],
    "an unanswered call": [*_HELLO, {"role": "{speaker}", "content": [_call("a")]}, _USER],
    "a result without a call": [*_HELLO, {"role": "tool", "content": [_result("b")]}, _USER],
    "a call without an id": [*_HELLO, {"role": "{speaker}", "content": [_call(None)]}, {"role": "tool", "content": [_result("")]}, _USER],
    "empty turns": [*_HELLO, {"role": "{speaker}", "content": ""}, {"role": "user", "content": None}, _USER],
    "odd characters": [{"role": "user", "content": "a\u0000b \ud800 \u202e 🙂 東京"}],
    "a picture": [{"role": "user", "content": [{"type": "text", "content": "What is this?"}, {"type": "media", "mime": "image/png", "data": "iVBORw0KGgo="}]}],
    "a system turn in between": [*_HELLO, {"role": "system", "content": "Be brief."}, _USER],
}  # fmt: skip


class ConformanceFailure(Struct, frozen=True):
    """A check that a provider does not pass, and what happened instead."""

    check: str
    message: str


def conform(provider: object, *, name: str = "provider") -> list[ConformanceFailure]:
    """Ask a provider in every way; the checks that it does not pass.

    Args:
        provider: An ``LLMProvider``, an object with ``ask`` or ``call_api``, a class or function that makes one, or the
            name of one that is registered or installed.
        name: How to call an object that has no name.
    """
    made = _made(provider, name)
    found: list[ConformanceFailure] = []

    def run() -> None:
        with asyncio.Runner() as runner:  # one loop: connections live in theirs
            run_checks(_Checks(made, runner))

    def run_checks(checks: _Checks) -> None:
        for check in (each for each in dir(checks) if each.startswith("check_")):
            title = check.removeprefix("check_").replace("_", " ")
            try:
                found.extend(
                    ConformanceFailure(title, message) for message in getattr(checks, check)()
                )
            except Exception as error:  # noqa: BLE001 - whatever the provider's code raises is the finding
                found.append(ConformanceFailure(title, f"{type(error).__name__}: {error}"))

    # In a thread: the checks with ``async`` need a loop of their own, also where one runs already.
    thread = threading.Thread(target=run, name="multi_llm_chat conform")
    thread.start()
    thread.join()
    return found


def _made(provider: object, name: str) -> LLMProvider:
    if isinstance(provider, str):
        return create_provider(provider)
    if isinstance(provider, type) or (callable(provider) and not hasattr(provider, "call_api")):
        made: Any = provider
        provider = made()
    return as_provider(provider, name)


class _Checks:
    """Each method is a check: it yields what is wrong."""

    def __init__(self, provider: LLMProvider, runner: asyncio.Runner) -> None:
        self._provider = provider
        self._run = runner.run

    def check_a_name_a_speaker_and_a_model(self) -> Iterator[str]:
        for attribute in ("name", "speaker", "model"):
            value = getattr(self._provider, attribute)
            if not isinstance(value, str) or not value.strip():
                yield f"{attribute} is {value!r}"

    def check_a_stream_without_async(self) -> Iterator[str]:
        with self._provider.stream(_HELLO) as stream:
            events = list(stream)
            yield from self._wrong(events, stream.reply)

    def check_a_stream_with_async(self) -> Iterator[str]:
        async def read() -> tuple[list[Event], Reply]:
            async with self._provider.astream(_HELLO) as stream:
                return [event async for event in stream], stream.reply

        yield from self._wrong(*self._run(read()))

    def check_a_whole_reply(self) -> Iterator[str]:
        for reply in (self._provider.complete(_HELLO), self._run(self._provider.acomplete(_HELLO))):  # fmt: skip
            yield from self._wrong_turn(reply.turn)

    def check_chunks(self) -> Iterator[str]:
        async def read() -> list[Any]:
            chunks: Any = self._provider.acall_api(_HELLO)
            return [chunk async for chunk in chunks]

        direct: Any = self._provider.call_api(_HELLO)
        plain = self._run(_all(direct)) if hasattr(direct, "__aiter__") else list(direct)
        for chunk in [*plain, *self._run(read())]:
            known = isinstance(chunk, str) or (isinstance(chunk, dict) and "type" in chunk)
            if not known and not isinstance(chunk, Struct):
                yield f"call_api yields {chunk!r}: neither text nor a part nor an event"

    def check_that_the_history_is_not_changed(self) -> Iterator[str]:
        history = [*copy.deepcopy(_AWKWARD["an unanswered call"])]
        before = copy.deepcopy(history)
        tools = [copy.deepcopy(_TOOL)]
        self._ask(history, tools)
        if history != before or tools != [_TOOL]:
            yield "the history or the tools that were given are changed"

    def check_a_tool(self) -> Iterator[str]:
        reply = self._provider.complete(_HELLO, tools=[_TOOL])
        calls = reply.tool_calls
        if len({call.tool_call_id for call in calls}) != len(calls):
            yield "two calls have the same id"
        results = tuple(ToolResult(call.name, "cold", call.tool_call_id) for call in calls)
        if results:
            again = self._provider.complete(
                [*_HELLO, reply.turn, Turn("tool", results)], tools=[_TOOL]
            )
            yield from self._wrong_turn(again.turn)

    def check_awkward_histories(self) -> Iterator[str]:
        for title, history in _AWKWARD.items():
            own = [
                turn | {"role": turn["role"].format(speaker=self._provider.speaker)}
                for turn in history
            ]
            try:
                self._ask(own, [_TOOL])
            except BadRequest as error:
                yield f"{title}: it is refused: {error}"
            except ProviderError:
                continue
            except Exception as error:  # noqa: BLE001 - the finding
                yield f"{title}: {type(error).__name__}: {error}"

    def check_that_a_reader_may_leave(self) -> Iterator[str]:
        with self._provider.stream(_HELLO) as stream:
            next(iter(stream), None)

        async def leave() -> None:
            async with self._provider.astream(_HELLO) as stream:
                async for _ in stream:
                    break

        self._run(leave())
        yield from self._wrong_turn(self._provider.complete(_HELLO).turn)

    def check_several_requests_at_once(self) -> Iterator[str]:
        async def ask() -> list[Reply]:
            return await asyncio.gather(*(self._provider.acomplete(_HELLO) for _ in range(3)))

        for reply in self._run(ask()):
            yield from self._wrong_turn(reply.turn)

    def check_tokens_messages_and_models(self) -> Iterator[str]:
        if not {"input_tokens", "max_tokens"} <= set(self._provider.get_token_info("Hello")):
            yield "get_token_info gives no input_tokens and max_tokens"
        if not self._provider.format_history(_HELLO):
            yield "format_history gives no messages"
        self._provider.list_models()

    def check_z_that_it_can_be_closed_twice(self) -> Iterator[str]:
        self._run(self._provider.aclose())
        self._provider.close()
        return iter(())

    def _ask(self, history: Sequence[Any], tools: Sequence[Any]) -> Reply:
        return self._provider.complete(history, "Be kind.", tools)

    def _wrong(self, events: Sequence[Event], reply: Reply) -> Iterator[str]:
        kinds = [type(event) for event in events]
        if kinds.count(Finish) != 1 or kinds[-1] is not Finish:
            yield f"a reply ends with one Finish; this one has {kinds.count(Finish)}"
        if kinds.count(Usage) > 1:
            yield "a reply has at most one Usage"
        said = "".join(event.text for event in events if isinstance(event, TextDelta))
        if said != reply.text:
            yield f"the deltas say {said!r}, the turn says {reply.text!r}"
        begun = [event.index for event in events if isinstance(event, ToolCallStart)]
        ended = [event.index for event in events if isinstance(event, ToolCallEnd)]
        if sorted(begun) != sorted(ended):
            yield "a call begins that does not end, or ends without a beginning"
        yield from self._wrong_turn(reply.turn)

    def _wrong_turn(self, turn: Turn) -> Iterator[str]:
        if turn.role != self._provider.speaker:
            yield f"the turn is {turn.role!r}'s, not {self._provider.speaker!r}'s"
        if any(isinstance(part, ToolCall) and not part.tool_call_id for part in turn.parts):
            yield "a call has no id"


async def _all(chunks: AsyncIterator[Any]) -> list[Any]:
    return [chunk async for chunk in chunks]
