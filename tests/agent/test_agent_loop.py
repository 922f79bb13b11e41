"""The loop alone: scripted outcomes in, effects out."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat import render
from multi_llm_chat.agent.agent_loop import LoopEnd, agent_loop, final_text
from multi_llm_chat.agent.effects import (
    CallModel,
    Cancelled,
    Effect,
    ModelAnswered,
    ModelFailed,
    Outcome,
    RunTools,
    ToolsRan,
)
from multi_llm_chat.agent.limits import LoopLimits, ThinkingBudget
from multi_llm_chat.errors import Overloaded
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Native, Origin, Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.request import Options
from multi_llm_chat.testing.validators import validate

ASKED = (Turn("user", (Text("What is the weather?"),)),)


def says(text: str) -> ModelAnswered:
    return ModelAnswered(Turn("claude", (Text(text),)), "stop", Usage(10, 5))


def calls(*identifiers: str, name: str = "get_weather", city: str | None = None) -> ModelAnswered:
    parts = tuple(
        ToolCall(name, {"city": city or identifier}, identifier) for identifier in identifiers
    )
    return ModelAnswered(Turn("claude", parts), "tool_calls", Usage(10, 5))


def ran(*identifiers: str, text: str = "sunny", elapsed: float = 0.0) -> ToolsRan:
    return ToolsRan(
        tuple(ToolResult("get_weather", text, identifier) for identifier in identifiers), elapsed
    )


def play(
    outcomes: Sequence[Outcome], limits: LoopLimits | None = None, options: Options | None = None
) -> tuple[list[Effect], LoopEnd]:
    """Run the loop against these outcomes; it must request exactly as many."""
    loop = agent_loop(ASKED, limits=limits or LoopLimits(), options=options or Options())
    effects: list[Effect] = [next(loop)]
    script = list(outcomes)
    while True:
        try:
            effects.append(loop.send(script.pop(0)))
        except StopIteration as stop:
            assert script == [], "the loop ended early"
            return effects, stop.value


def test_an_answer_without_calls_ends_the_run():
    effects, end = play([says("Sunny.")])
    assert effects == [CallModel(ASKED, True, Options(), 1)]
    assert (end.reason, end.iterations, final_text(end.delta)) == ("answered", 1, "Sunny.")


def pauses() -> ModelAnswered:
    """A reply that Anthropic paused between steps of its own tools (ANT-47)."""
    search: dict[str, object] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }
    item = Native("server_tool_use", "searched", Origin("anthropic"), search)
    return ModelAnswered(Turn("claude", (item,)), "paused", Usage(10, 5))


def test_ant_47_a_paused_turn_is_sent_back_and_the_model_asked_again():
    effects, end = play([pauses(), says("Sunny.")])
    second = effects[1]
    assert isinstance(second, CallModel)
    assert second.history == (*ASKED, pauses().turn)
    assert (end.reason, end.iterations) == ("answered", 2)


def test_ant_47_a_model_that_always_pauses_reaches_the_limit_of_iterations():
    _, end = play([pauses()] * 3, LoopLimits(iterations=3))
    assert (end.reason, end.iterations) == ("iterations", 3)


def test_the_third_request_contains_both_rounds():
    effects, end = play([calls("a"), ran("a"), calls("b"), ran("b"), says("Done.")])
    third = effects[4]
    assert isinstance(third, CallModel)
    spoken = [turn.role for turn in third.history]
    assert spoken == ["user", "claude", "tool", "claude", "tool"]
    assert end.usage == Usage(30, 15)


def test_results_come_in_the_order_of_the_calls_and_each_call_has_one():
    late = ToolsRan(
        tuple(ToolResult("get_weather", identifier, identifier) for identifier in "cax")
    )
    _, end = play([calls("a", "b", "c"), late, says("Done.")])
    results = [part for part in end.delta[1].parts if isinstance(part, ToolResult)]
    assert [result.tool_call_id for result in results] == ["a", "b", "c"]
    assert [result.synthetic for result in results] == [False, True, False]


def test_at_the_iteration_limit_the_model_is_asked_once_more_without_tools():
    effects, end = play(
        [calls("a"), ran("a"), calls("b"), ran("b"), says("So far so good.")],
        LoopLimits(iterations=2),
    )
    last = effects[-1]
    assert isinstance(last, CallModel)
    assert not last.offer_tools
    assert (end.reason, end.iterations) == ("iterations", 2)
    assert final_text(end.delta) == "So far so good."


def test_the_limit_of_tokens_ends_with_an_answer_too():
    _, end = play([calls("a"), ran("a", elapsed=6), says("Done.")], LoopLimits(tokens=12))
    assert (end.reason, final_text(end.delta)) == ("tokens", "Done.")


def test_at_the_limit_of_time_the_run_ends_with_what_was_said():
    effects, end = play([calls("a"), ran("a", elapsed=6)], LoopLimits(seconds=5))
    assert (end.reason, len(effects)) == ("time", 2)
    assert [turn.role for turn in end.delta] == ["claude", "tool"]
    speaking = Cancelled(Turn("claude", (Text("It is"),)), reason="time")
    _, end = play([calls("a"), ran("a"), speaking], LoopLimits(seconds=5))
    assert (end.reason, final_text(end.delta)) == ("time", "It is")
    _, end = play([calls("a", "b"), Cancelled(reason="time")], LoopLimits(seconds=5))
    results = [part for part in end.delta[1].parts if isinstance(part, ToolResult)]
    assert end.reason == "time"
    assert ["time" in result.content for result in results] == [True, True]


def test_a_model_that_repeats_itself_gets_a_remark_and_is_then_stopped():
    effects, end = play(
        [
            calls("a", city="x"),
            ran("a"),
            calls("b", city="x"),
            ran("b"),
            calls("c", city="x"),
            ran("c"),
            says("Well."),
        ]
    )
    results = [part for turn in end.delta for part in turn.parts if isinstance(part, ToolResult)]
    assert results[0].content == "sunny"
    assert "same call with the same result" in results[1].content
    assert end.reason == "repetition"
    assert isinstance(effects[-1], CallModel)


def test_results_that_differ_in_their_pictures_are_no_repetition():
    def shown(identifier: str, data: str) -> ToolsRan:
        picture = {"type": "media", "mime": "image/png", "data": data}
        content = [{"type": "text", "content": "the screen"}, picture]
        return ToolsRan((ToolResult("get_weather", content, identifier),))

    outcomes: list[Outcome] = []
    for number in range(5):
        outcomes += [calls(f"c{number}", city="x"), shown(f"c{number}", f"AAA{number}")]
    _, end = play([*outcomes, says("Well.")])
    assert (end.reason, final_text(end.delta)) == ("answered", "Well.")


def test_a_cancel_among_tools_keeps_finished_results_and_answers_the_rest():
    done = Cancelled(results=(ToolResult("get_weather", "sunny", "b"),))
    _, end = play([calls("a", "b"), done])
    results = [part for part in end.delta[1].parts if isinstance(part, ToolResult)]
    assert end.reason == "cancelled"
    assert "cancelled" in results[0].content
    assert results[1].content == "sunny"


def test_a_failure_keeps_the_partial_text():
    error = Overloaded("busy")
    _, end = play([calls("a"), ran("a"), ModelFailed(error, Turn("claude", (Text("It is"),)))])
    assert (end.reason, end.error, final_text(end.delta)) == ("error", error, "It is")


def test_a_call_with_bad_arguments_is_answered_not_lost():
    bad = ToolCall("f", {}, "a", raw_arguments="{", error="it is cut off")
    _, end = play(
        [ModelAnswered(Turn("claude", (bad,)), "tool_calls"), ToolsRan(()), says("Sorry.")]
    )
    result = end.delta[1].parts[0]
    assert isinstance(result, ToolResult)
    assert "it is cut off" in result.content


def test_a_refusal_runs_no_tools():
    refused = ModelAnswered(Turn("claude", (Text("No."), ToolCall("f", {}, "a"))), "refusal")
    _, end = play([refused])
    assert end.reason == "refusal"


def test_thinking_stops_when_thoughts_circle_or_the_budget_is_spent():
    def thinks(identifier: str, thought: str) -> ModelAnswered:
        thinking = Thinking(thought, Origin("anthropic", "", "m"), {"signature": "s"})
        call = ToolCall("f", {"n": identifier}, identifier)
        return ModelAnswered(
            Turn("claude", (thinking, call)), "tool_calls", Usage(1, 1, thinking_tokens=40)
        )

    outcomes = [
        thinks("a", "look at the map"),
        ran("a"),
        thinks("b", "look at the map again"),
        ran("b"),
        says("Done."),
    ]
    effects, _ = play(outcomes, options=Options(thinking=5000))
    wanted = [effect.options.thinking for effect in effects if isinstance(effect, CallModel)]
    assert wanted == [5000, 5000, False]
    budget = ThinkingBudget(tokens=100, tokens_a_call=60, overlap=1.0)
    effects, _ = play(outcomes, LoopLimits(thinking=budget), Options(thinking=5000))
    wanted = [effect.options.thinking for effect in effects if isinstance(effect, CallModel)]
    assert wanted == [60, 60, 20]


@st.composite
def outcome_makers(draw: st.DrawFn) -> list[Callable[[Effect], Outcome]]:
    """Generate outcomes for any effects: calls, texts, failures, missing and duplicate results, cancellations."""
    makers: list[Callable[[Effect], Outcome]] = []
    for number in range(draw(st.integers(1, 8))):
        count, fault = draw(st.integers(0, 3)), draw(st.integers(0, 12))

        def make(
            effect: Effect, number: int = number, count: int = count, fault: int = fault
        ) -> Outcome:
            if fault == 0:
                return Cancelled(Turn("claude", (Text("half"), ToolCall("f", {}, f"p{number}"))))
            if isinstance(effect, RunTools):
                kept = effect.calls[: len(effect.calls) - (fault == 1)]
                return ToolsRan(
                    tuple(ToolResult(call.name, "x", call.tool_call_id) for call in kept)
                    * (1 + (fault == 2))
                )
            if fault == 3:
                return ModelFailed(Overloaded("busy"), Turn("claude", ()))
            parts = (Text("hm"), *(ToolCall("f", {"n": slot}, f"c{slot}") for slot in range(count)))
            return ModelAnswered(Turn("claude", parts), "tool_calls" if count else "stop")

        makers.append(make)
    return makers


@given(outcome_makers(), st.integers(1, 4))
def test_every_run_ends_and_its_history_is_legal_for_every_provider(
    makers: list[Callable[[Effect], Outcome]], iterations: int
):
    loop = agent_loop(ASKED, limits=LoopLimits(iterations=iterations))
    effect = next(loop)
    steps = 0
    while True:
        make = makers[steps % len(makers)]
        steps += 1
        assert steps <= 2 * (iterations + 1), "the loop does not end"
        try:
            effect = loop.send(make(effect))
        except StopIteration as stop:
            end: LoopEnd = stop.value
            break
    for place, turn in enumerate(end.delta):
        made = [part.tool_call_id for part in turn.parts if isinstance(part, ToolCall)]
        if made:
            behind = end.delta[place + 1]
            assert [
                part.tool_call_id for part in behind.parts if isinstance(part, ToolResult)
            ] == made
    for provider in sorted(ROWS):
        rendered = render([*ASKED, *end.delta], provider)
        assert validate(provider, rendered.body, model=rendered.model) == []
