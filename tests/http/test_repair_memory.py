"""What a refusal teaches is remembered: no conversation is refused twice for the same reason (SPEC 2.8, ANT-30)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import BadRequest
from multi_llm_chat.events import RunFailed, TextDelta
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Media, Origin, Turn
from multi_llm_chat.history.writer import write_turn
from multi_llm_chat.protocol._repair_ladder import recall_repairs, repair_mark
from multi_llm_chat.protocol.request_settings import read_request
from multi_llm_chat.testing.simulator import RecordedRequest, Reply, Say, Simulator, Status
from multi_llm_chat.testing.simulator.prefix_binding import PrefixBinding

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {"type": "media", "mime": "image/png", "data": PNG, "name": "map.png"}
HISTORY: list[Any] = [
    {"role": "user", "content": [{"type": "text", "content": "Where is it?"}, PICTURE]},
    {
        "role": "assistant",
        "content": [
            {
                "type": "tool_call",
                "content": {"name": "look", "arguments": {"at": 1}, "tool_call_id": "call_1234567"},
            }
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool_result",
                "name": "look",
                "content": "Rome",
                "tool_call_id": "call_1234567",
            }
        ],
    },
    {"role": "assistant", "content": "Rome."},
    {"role": "user", "content": "And Paris?"},
]
TOOLS = [{"name": "look", "inputSchema": {"type": "object", "properties": {"at": {"type": "integer", "minimum": 0}}}}]  # fmt: skip


def refusing(message: str, contains: bytes) -> Callable[[RecordedRequest], Reply]:
    """A server that refuses every request with these bytes in its body."""
    return lambda request: (
        Status(400, message) if contains in request.content else Say("Certainly.")
    )


def ask(provider: LLMProvider, history: list[Any]) -> list[Any]:
    """The history with the answer, saved and read again as a store does it."""
    reply = provider.complete(history, tools=TOOLS, options={"temperature": 0.5})
    return [*history, write_turn(reply.turn)]


def chat(simulator: Simulator, row: str = "openai-chat") -> LLMProvider:
    return create_provider(row, base_url=simulator.base_url(row), api_key="k")


@pytest.mark.parametrize(
    ("message", "contains"),
    [
        ("image input is not supported", b"image_url"),
        ("Invalid 'tool_calls[0].id': string too long", b"call_1234567"),
        (
            "Invalid 'tools[0].function.name': string does not match pattern",
            b'"name":"look"',
        ),
        ("Invalid schema for function 'look'", b"minimum"),
        ("Unsupported parameter: 'temperature' is not supported", b"temperature"),
        ("An assistant message with 'tool_calls' must be followed by tool messages", b'"tool_calls"'),
        # Not in the catalogue: the repair of its kind, then the next rungs.
        ("The picture smells funny", b"image_url"),
        ("This tool exchange cannot be read", b'"tool_calls"'),
        ("Something about reasoning is wrong", b"Where is it?"),
    ],
)  # fmt: skip
def test_a_conversation_is_refused_once(message: str, contains: bytes) -> None:
    with Simulator(refusing(message, contains)) as simulator, chat(simulator) as provider:
        history = ask(provider, HISTORY)
        first = len(simulator.requests)
        assert first > 1
        for _ in range(3):
            history = ask(provider, [*history, {"role": "user", "content": "And now?"}])
        assert [request.status for request in simulator.requests][first - 1 :] == [200] * 4


@pytest.mark.parametrize(
    "text", ["Container container_1 has expired", "container_expired: make a new one"]
)
def test_a_container_that_expired_is_given_up_and_a_later_one_is_used(text: str) -> None:
    """ANT-48."""
    rule = refusing(text, b"container_1")
    options: dict[str, Any] = {"server_tools": ["code_execution"]}
    with Simulator(rule) as simulator, chat(simulator, "anthropic") as provider:
        place = {"provider": "anthropic", "endpoint": f"127.0.0.1:{simulator.port}"}

        def run(number: int) -> dict[str, Any]:
            kept = {"id": f"container_{number}", **place}
            return {"role": "claude", "content": "Done.", "meta": {"container": kept}}

        history: list[Any] = [{"role": "user", "content": "Run it."}, run(1), {"role": "user", "content": "Again."}]  # fmt: skip
        answer = write_turn(provider.complete(history, options=options).turn)
        assert [request.status for request in simulator.requests] == [400, 200]
        history = [*history, answer, {"role": "user", "content": "Again."}]
        provider.complete(history, options=options)
        history = [*history, run(2), {"role": "user", "content": "Again."}]
        provider.complete(history, options=options)
        assert [request.status for request in simulator.requests] == [400, 200, 200, 200]
        assert b"container_2" in simulator.requests[-1].content


def test_another_endpoint_or_model_is_asked_as_if_nothing_had_happened() -> None:
    rule = refusing("image input is not supported", b"image_url")
    with Simulator(rule) as simulator, chat(simulator) as provider:
        history = ask(provider, HISTORY)
    question: list[Any] = [*history, {"role": "user", "content": "And now?"}]
    for model in ("gpt-4o", "gpt-4.1"):
        request = read_request(question, "openai-chat", model=model)
        origin = Origin("openai-chat", "b.example", model)
        assert recall_repairs(request, origin).request == request


def test_a_refused_picture_is_described_and_a_later_one_is_sent() -> None:
    asked: list[int] = []

    def judge(request: RecordedRequest) -> Reply:
        asked.append(request.content.count(b"image_url"))
        refused = asked[-1] and b"other" not in request.content
        return Status(400, "messages.0: image exceeds 10 MB maximum") if refused else Say("Yes.")

    with Simulator(judge) as simulator, chat(simulator) as provider:
        history = ask(provider, HISTORY)
        other = {"role": "user", "content": [{"type": "text", "content": "other"}, PICTURE]}
        ask(provider, [*history, other])
    assert asked[0] > 0
    assert asked[1] == 0
    assert asked[2] == asked[0]  # the new one only
    assert len(asked) == 3


def test_the_ladder_ends_with_the_newest_turns_and_says_so() -> None:
    rule = refusing("Something about reasoning is wrong", b"Where is it?")
    with Simulator(rule) as simulator, chat(simulator) as provider:
        reply = provider.complete(HISTORY, tools=TOOLS)
        assert 2 <= len(simulator.requests) <= 5
    assert "only the newest turns" in reply.turn.meta["compressed"]
    assert [note.message for note in reply.notes][-1] == "asked again with newest_turns"


def test_each_rung_is_tried_once_and_no_more_than_four() -> None:
    with (
        Simulator(lambda _: Status(400, "nothing about images or tools pleases me")) as simulator,
        chat(simulator) as provider,
    ):
        with pytest.raises(BadRequest):
            provider.complete(HISTORY, tools=TOOLS)
        bodies = [request.content for request in simulator.requests]
    assert len(set(bodies)) == len(bodies) <= 5


def test_a_refusal_of_no_known_kind_is_not_asked_again() -> None:
    with (
        Simulator(lambda _: Status(400, "no such model")) as simulator,
        chat(simulator) as provider,
    ):
        with pytest.raises(BadRequest):
            provider.complete(HISTORY, tools=TOOLS)
        assert len(simulator.requests) == 1


def test_deltas_are_shown_once() -> None:
    rule = refusing("image input is not supported", b"image_url")
    with Simulator(rule) as simulator, chat(simulator) as provider:
        with provider.stream(HISTORY, tools=TOOLS) as stream:
            text = "".join(event.text for event in stream if isinstance(event, TextDelta))
        assert text == "Certainly."


def test_unknown_marks_are_passed_over() -> None:
    origin = Origin("openai-chat", "api.openai.com", "gpt-4.1")
    marks: list[Any] = [
        {"repairs": "x"},
        {"repairs": {"provider": 1}},
        repair_mark(origin, {"format_disk": "OAI-01"}),
        {"repairs": {"provider": "openai-chat", "endpoint": "api.openai.com", "model": "gpt-4.1"}},
    ]
    turns = [Turn("user", read_history(["hi"])[0].parts, meta=mark) for mark in marks]
    request = read_request(turns, "openai-chat", model="gpt-4.1")
    assert recall_repairs(request, origin).request == request


def test_a_stored_conversation_remembers(tmp_path: Path) -> None:
    rule = refusing("image input is not supported", b"image_url")
    picture = Media("image/png", data=PNG)
    conversation: str | None = None
    with Simulator(rule) as simulator:
        for media in ((picture,), ()):  # another program each time
            providers, place = [chat(simulator)], tmp_path / "chats.db"
            with ChatService(providers, store=place, conversation=conversation) as service:
                events = list(service.process_message("Where is it?", media=media))
                conversation = service.conversation
            assert not any(isinstance(event, RunFailed) for event in events)
        assert [request.status for request in simulator.requests] == [400, 200, 200]


MODEL = "claude-opus-5-5"


def test_ant_30_a_block_behind_another_prefix_is_dropped_by_the_server() -> None:
    claude = PrefixBinding([Say(f"answer {number}") for number in range(6)])
    with Simulator(claude) as simulator:
        settings: dict[str, Any] = {"base_url": simulator.base_url("anthropic"), "model": MODEL}
        with create_provider("anthropic", api_key="k", **settings) as provider:
            history: list[Any] = []
            for number in range(4):
                history.append({"role": "user", "content": f"question {number}"})
                prompt = "Be brief." if number < 2 else "Be long."
                turn = provider.complete(history, prompt).turn
                kept = {name: value for name, value in turn.meta.items() if name != "binding"}
                history.append(replace(turn, meta=kept))  # as in an imported history
        requests = list(simulator.requests)
    assert claude.refused == 1
    assert [request.status for request in requests] == [200, 200, 400, 200, 200]
    for request in requests[-2:]:
        binding = {"prefix_mismatch_behavior": "drop_block"}
        assert request.body["thinking"] == {"type": "adaptive", "block_binding": binding}
        assert "thinking-binding-controls-2026-08-01" in request.headers["anthropic-beta"]


def test_ant_30_the_setting_is_not_sent_to_older_models() -> None:
    turns = read_history([{"role": "user", "content": "hi"}])
    mark = repair_mark(
        Origin("anthropic", "api.anthropic.com", "claude-sonnet-5"), {"drop_block": "ANT-28"}
    )
    request = read_request(
        [*turns, Turn("claude", turns[0].parts, meta=mark)], "anthropic", model="claude-sonnet-5"
    )
    origin = Origin("anthropic", "api.anthropic.com", "claude-sonnet-5")
    assert recall_repairs(request, origin).request.options.extra == {}
