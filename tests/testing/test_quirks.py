"""Every quirk of the rule catalogue, from every server that may have it, is read as intended."""

import pytest
from tests.testing.simulator_clients import ALL_ROWS, ask

from multi_llm_chat.errors import Overloaded, ProviderError, StreamBroken, UsageError
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import Call, Quirk, Say, Simulator
from multi_llm_chat.testing.simulator.quirks.registry import QUIRKS, has_effect

CALLS = [Call("get_weather", {"city": f"City {number}"}) for number in range(3)]
SAY = Say("Let me see.", thinking="Three cities.", calls=CALLS, delta_size=5)

#: Quirks that lose or break something: they have their own tests.
BREAKING = {
    ("STR-09", "middle"),
    ("STR-10", "no_arguments"),
    ("STR-14", "truncated"),
    ("STR-15", "malformed"),
    ("STR-15", "unexpected"),
    ("STR-15", "too_many"),
    ("STR-16", "signed"),
    ("STR-17", "neither"),
}
CASES = [
    (provider, rule, variant)
    for rule, variants in QUIRKS.items()
    for variant in variants
    for provider in ALL_ROWS
    if has_effect(Quirk(rule, variant), ROWS[provider].dialect)
]
#: This server ends calls with an empty finish reason: without the end marker such a stream has no end.
ENDLESS = ("xai", "STR-17", "no_done")
HARMLESS = [case for case in CASES if case[1:] not in BREAKING and case != ENDLESS]


def _providers(rule: str, variant: str) -> list[str]:
    return [case[0] for case in CASES if case[1:] == (rule, variant)]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("provider", "rule", "variant"), HARMLESS)
def test_a_quirk_changes_nothing_of_what_is_read(
    provider: str, rule: str, variant: str, stream: bool
) -> None:
    with Simulator([SAY.having(faults=[Quirk(rule, variant)])]) as simulator:
        outcome = ask(simulator, provider, stream=stream)
    assert outcome.error is None
    assert outcome.text == SAY.text
    assert [(call.name, call.arguments) for call in outcome.calls] == [
        (call.name, call.arguments) for call in CALLS
    ]
    assert [call.error for call in outcome.calls] == [None] * 3
    assert len({call.tool_call_id for call in outcome.calls} - {""}) == 3
    assert outcome.finish is not None
    assert outcome.finish.reason == "tool_calls"


@pytest.mark.parametrize("provider", _providers("STR-06", "tool_calls"))
def test_a_reason_without_calls_is_an_ordinary_end(provider: str) -> None:
    say = Say("Nothing to call.", faults=[Quirk("STR-06", "tool_calls")])
    with Simulator([say]) as simulator:
        outcome = ask(simulator, provider)
    assert outcome.text == say.text
    assert outcome.finish is not None
    assert outcome.finish.reason == "stop"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_call_without_arguments_is_a_call(provider: str, stream: bool) -> None:
    with Simulator([SAY.having(faults=[Quirk("STR-10")])]) as simulator:
        outcome = ask(simulator, provider, stream=stream)
    assert outcome.error is None
    assert [(call.name, call.arguments, call.error) for call in outcome.calls] == [
        ("get_weather", {}, None)
    ] * 3


@pytest.mark.parametrize("provider", _providers("STR-12", "null"))
def test_null_arguments_are_none(provider: str) -> None:
    with Simulator([Say(calls=[Call("now")], faults=[Quirk("STR-12", "null")])]) as simulator:
        outcome = ask(simulator, provider)
    assert [(call.name, call.arguments, call.error) for call in outcome.calls] == [
        ("now", {}, None)
    ]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_call_cut_off_by_the_length_limit_is_never_run(provider: str, stream: bool) -> None:
    with Simulator([SAY.having(faults=[Quirk("STR-14")])]) as simulator:
        outcome = ask(simulator, provider, stream=stream)
    assert outcome.text == SAY.text
    runnable = [call for call in outcome.calls if call.error is None]
    assert [call.arguments for call in runnable] == [call.arguments for call in CALLS[:2]]
    assert outcome.finish is not None
    assert outcome.finish.raw in {"length", "max_tokens", "MAX_TOKENS", "max_output_tokens"}


@pytest.mark.parametrize("variant", ["malformed", "unexpected", "too_many"])
def test_a_call_that_failed_inside_gemini_leaves_the_text(variant: str) -> None:
    with Simulator([SAY.having(faults=[Quirk("STR-15", variant)])]) as simulator:
        outcome = ask(simulator, "gemini")
    assert outcome.text == SAY.text
    assert outcome.calls == []


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_an_error_in_the_middle_keeps_the_text_and_no_open_call(provider: str) -> None:
    say = Say("A rather long answer that is never finished.", faults=[Quirk("STR-09")])
    with Simulator([say]) as simulator:
        outcome = ask(simulator, provider)
    assert isinstance(outcome.error, Overloaded)
    assert outcome.text
    assert say.text.startswith(outcome.text)
    assert outcome.calls == []
    assert outcome.finish is None


def test_thinking_that_was_cut_off_keeps_no_signature() -> None:
    say = Say("Yes.", thinking="A long and winding thought.", faults=[Quirk("STR-16")])
    with Simulator([say]) as simulator:
        outcome = ask(simulator, "anthropic")
    assert isinstance(outcome.error, StreamBroken)
    assert "signature" not in str(outcome.turn)


@pytest.mark.parametrize("provider", _providers("STR-17", "neither"))
def test_a_stream_without_any_end_is_broken(provider: str) -> None:
    with Simulator([Say("Half an", faults=[Quirk("STR-17", "neither")])]) as simulator:
        outcome = ask(simulator, provider)
    assert isinstance(outcome.error, ProviderError)
    assert outcome.text == "Half an"


@pytest.mark.parametrize("quirk", [Quirk("STR-99"), Quirk("STR-04", "blue")])
def test_a_quirk_that_does_not_exist_is_the_fault_of_the_test(quirk: Quirk) -> None:
    with (
        pytest.raises(UsageError, match=r"Unknown quirk|no variant"),
        Simulator([Say("x", faults=[quirk])]) as simulator,
    ):
        ask(simulator, "openai-chat")
