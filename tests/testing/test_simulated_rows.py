"""Every reply, from every provider, streamed and not, is read back as intended."""

import msgspec
import pytest
from tests.testing.simulator_clients import ALL_ROWS, Outcome, ask

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import Media, Text, Thinking, ToolCall
from multi_llm_chat.testing.simulator import Call, Say, Simulator

#: Providers that cannot show their reasoning.
SILENT_THINKERS = {"openai-chat", "azure"}
PAINTERS = {"openai", "gemini", "openrouter"}

USAGE = Usage(input_tokens=120, output_tokens=45, cache_read_tokens=20, thinking_tokens=12)
EIGHT = [Call("get_weather", {"city": f"City {number} – 東京"}) for number in range(8)]
PICTURE = Media("image/png", data="iVBORw0KGgo=")

SAYS: dict[str, Say] = {
    "text": Say("Sunny, 25 °C in Rome – 晴れ ☀️\nBring a hat."),
    "one letter": Say("x", delta_size=1),
    "thinking": Say("Four.", thinking="Two and two.\n\nThat is four."),
    "one call": Say(calls=[Call("get_weather", {"city": "Rome"})]),
    "text and call": Say("I look.", calls=[Call("get_weather", {"city": "Rome"}, id="abcDEF123")]),
    "thinking and call": Say(thinking="Look it up.", calls=[Call("get_weather", {"city": "Rome"})]),
    "no arguments": Say(calls=[Call("now"), Call("get_weather", {"city": "Rome"})]),
    "eight calls": Say(calls=EIGHT, delta_size=3),
    "eight interleaved calls": Say("All.", calls=EIGHT, delta_size=3, interleave=True),
    "usage": Say("Yes.", thinking="Hm.", usage=USAGE),
    "length": Say("And then", finish="length"),
    "picture": Say("Look:", media=[PICTURE]),
    "nothing": Say(""),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_reply_is_read_back_as_it_was_said(provider: str, name: str, stream: bool) -> None:
    say = SAYS[name]
    with Simulator([say]) as simulator:
        outcome = ask(simulator, provider, stream=stream)
        assert simulator.requests[0].violations == ()
    assert outcome.error is None
    assert outcome.text == say.text
    assert outcome.thinking == ("" if provider in SILENT_THINKERS else say.thinking)
    assert [(call.name, call.arguments) for call in outcome.calls] == [
        (call.name, call.arguments) for call in say.calls
    ]
    assert [call.error for call in outcome.calls] == [None] * len(say.calls)
    media = [msgspec.structs.replace(each, extras=None) for each in outcome.media]
    assert media == (list(say.media) if provider in PAINTERS else [])
    assert outcome.finish is not None
    assert outcome.finish.reason == say.reason
    assert outcome.usage is not None
    assert outcome.usage.output_tokens > 0
    assert outcome.usage == (say.usage or outcome.usage)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("provider", "finish", "read"),
    [
        ("openai", "refusal", "refusal"),
        ("openai", "safety", "safety"),
        ("openai-chat", "refusal", "refusal"),
        ("openai-chat", "safety", "safety"),
        ("azure", "refusal", "refusal"),
        ("anthropic", "refusal", "refusal"),
        ("anthropic", "safety", "refusal"),  # it has one finish reason for both
        ("gemini", "refusal", "safety"),  # and so has this one
        ("gemini", "safety", "safety"),
        ("gemini", "other", "other"),
    ],
)
def test_a_refusal_is_read_back_as_one(
    provider: str, finish: FinishReason, read: str, stream: bool
) -> None:
    with Simulator([Say("I would rather not.", finish=finish)]) as simulator:
        outcome = ask(simulator, provider, stream=stream)
    assert outcome.text == "I would rather not."
    assert outcome.finish is not None
    assert outcome.finish.reason == read


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_an_answered_call_is_accepted_by_the_same_provider(provider: str, stream: bool) -> None:
    first = Say("I look.", thinking="Hm.", calls=[Call("get_weather", {"city": "Rome"})])
    with Simulator([first, Say("Sunny.")]) as simulator:
        said = ask(simulator, provider, stream=stream)
        call = said.calls[0]
        result = {
            "role": "tool",
            "content": [
                {
                    "type": "tool_result",
                    "name": call.name,
                    "content": "sunny",
                    "tool_call_id": call.tool_call_id,
                }
            ],
        }
        history = [*_question(), said.turn, result]
        outcome = ask(simulator, provider, stream=stream, history=history)
        assert simulator.requests[1].conversation.results == ("sunny",)
        assert simulator.requests[1].conversation.question == "What is the weather in Rome?"
    assert outcome.error is None
    assert outcome.text == "Sunny."


def _question() -> list[object]:
    return [
        {"role": "user", "content": [{"type": "text", "content": "What is the weather in Rome?"}]}
    ]


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_streamed_and_whole_replies_have_the_same_parts(provider: str) -> None:
    say = Say("Text.", thinking="Thought.", calls=EIGHT[:2])
    outcomes: list[Outcome] = []
    for stream in (True, False):
        with Simulator([say]) as simulator:
            outcomes.append(ask(simulator, provider, stream=stream))
    streamed, whole = ([_bare(part) for part in outcome.turn.parts] for outcome in outcomes)
    assert streamed == whole


def _bare(part: object) -> object:
    """Return a part without its server's address, and without the original text of arguments."""
    if isinstance(part, Thinking):
        return (part.content, part.opaque)
    if isinstance(part, ToolCall):
        return (part.name, part.arguments, part.tool_call_id, part.error)
    if isinstance(part, Text):
        return (part.content, None if part.extras is None else part.extras.fields)
    return part


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_the_same_request_gets_the_same_bytes(provider: str) -> None:
    say = Say("Text.", thinking="Thought.", calls=EIGHT[:2])
    turns: list[object] = []
    for _ in range(2):
        with Simulator([say]) as simulator:
            turns.append([call.tool_call_id for call in ask(simulator, provider).calls])
    assert turns[0] == turns[1]
