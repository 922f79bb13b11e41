"""Which parts of a history compression leaves out, and which it never does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.conversations import conversations
from tests.protocol.test_never_a_400 import TARGETS
from tests.strategies.histories import Marked, marked_histories, nasty_histories

from multi_llm_chat import render
from multi_llm_chat.agent.window._compression import compress, exchanges
from multi_llm_chat.agent.window.compression_notes import WHOLE, is_note
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.testing import validate

SHARES = st.floats(0, 1.1)
COUNTER = Counter()


def budget_of(turns: tuple[Turn, ...], share: float) -> int:
    return int(COUNTER.turns(turns) * share)


def says(role: str, text: str) -> Turn:
    return Turn(role, (Text(text),))


def kept_positions(turns: tuple[Turn, ...], left_out: tuple[int, ...]) -> list[int]:
    gone = set(left_out)
    return [at for at in range(len(turns)) if at not in gone]


@given(conversations(), SHARES)
def test_order_stays_and_whatever_the_note_does_not_name_is_the_same_turn(
    turns: tuple[Turn, ...], share: float
):
    view, note = compress(turns, budget_of(turns, share), COUNTER)
    if note is None:
        assert view == turns
        return
    kept = kept_positions(turns, note.left_out)
    sent = [turn for turn in view if not is_note(turn)]
    assert len(sent) == len(kept)
    for at, turn in zip(kept, sent, strict=True):
        assert turn.id == turns[at].id
        assert (turn is turns[at]) == (at not in note.shortened)
    assert sum(map(is_note, view)) == bool(note.left_out or note.shortened)
    touched = sorted({*note.left_out, *note.shortened})
    assert note.turn_ids == tuple(turns[at].id for at in touched)


@given(marked_histories(), SHARES)
def test_a_call_and_its_result_stay_or_go_together(marked: Marked, share: float):
    turns = read_history(marked.history)
    view, _ = compress(turns, budget_of(turns, share), COUNTER)
    parts = [part for turn in view for part in turn.parts]
    calls = {part.arguments.get("mark") for part in parts if isinstance(part, ToolCall)}
    results = {part.content for part in parts if isinstance(part, ToolResult)}
    for _, call, result in marked.pairs:
        assert (call in calls) == (result in results)


@given(conversations(), SHARES)
def test_the_newest_exchange_survives(turns: tuple[Turn, ...], share: float):
    view, note = compress(turns, budget_of(turns, share), COUNTER)
    newest = turns[exchanges(turns)[-1].start :]
    sent = view[len(view) - len(newest) :]
    assert [turn.id for turn in sent] == [turn.id for turn in newest]
    if note is None or note.cut.results is None:
        assert sent == newest
    for turn, original in zip(sent, newest, strict=True):
        assert len(turn.parts) == len(original.parts)
        assert turn == original or turn.role == "tool"


@given(conversations(), SHARES)
def test_it_fits_or_nothing_is_left_that_could_go(turns: tuple[Turn, ...], share: float):
    budget = budget_of(turns, share)
    view, note = compress(turns, budget, COUNTER)
    tokens = COUNTER.turns(view)
    if note is None:
        assert tokens <= budget
        return
    assert (tokens <= budget) == note.fits
    assert (note.tokens_after, note.budget) == (tokens, budget)
    if not note.fits:
        newest = exchanges(turns)[-1].start
        assert all(
            turns[at].role == "system" for at in kept_positions(turns[:newest], note.left_out)
        )
        assert note.cut.results == 1024


@given(conversations(), SHARES)
def test_thinking_is_never_changed(turns: tuple[Turn, ...], share: float):
    view, _ = compress(turns, budget_of(turns, share), COUNTER)
    thoughts = {id(part) for turn in turns for part in turn.parts if isinstance(part, Thinking)}
    originals = {id(turn) for turn in turns}
    for turn in view:
        if any(isinstance(part, Thinking) for part in turn.parts):
            assert id(turn) in originals
        assert all(id(part) in thoughts for part in turn.parts if isinstance(part, Thinking))


@given(conversations(), SHARES)
def test_user_words_go_last(turns: tuple[Turn, ...], share: float):
    view, note = compress(turns, budget_of(turns, share), COUNTER)
    if note is None or not note.exchanges_gone:
        return
    newest = exchanges(turns)[-1].start
    old = {turn.id for turn in turns[:newest]}
    assert {turn.role for turn in view if turn.id in old} <= {"user", "system"}


@given(conversations(), SHARES)
def test_compressing_again_changes_nothing(turns: tuple[Turn, ...], share: float):
    budget = budget_of(turns, share)
    view, note = compress(turns, budget, COUNTER)
    assert compress(view, budget, COUNTER)[0] == view
    assert compress(turns, budget, COUNTER) == (view, note)
    if note is not None:
        assert compress(turns, budget, COUNTER, cut=note.cut)[0] == view


@given(conversations(), conversations(), SHARES)
def test_a_cut_only_moves_forward_and_between_cuts_the_beginning_stays(
    turns: tuple[Turn, ...], more: tuple[Turn, ...], share: float
):
    budget = budget_of(turns, share)
    view, note = compress(turns, budget, COUNTER)
    cut = WHOLE if note is None else note.cut
    longer, later = compress((*turns, *more), budget, COUNTER, cut=cut)
    reached = WHOLE if later is None else later.cut
    assert reached.talk >= cut.talk
    assert reached.words >= cut.words
    assert reached.gone >= cut.gone
    if reached == cut and cut.results is None:
        assert longer[: len(view)] == view


@pytest.mark.sample(12)
@pytest.mark.parametrize(("provider", "model"), TARGETS)
@given(st.one_of(nasty_histories, marked_histories().map(lambda marked: marked.history)), SHARES)
def test_every_provider_accepts_what_is_left(
    provider: str, model: str, history: list[object], share: float
):
    turns = read_history(history)
    view, _ = compress(turns, budget_of(turns, share), COUNTER)
    body = render(view, provider, model=model).body
    assert validate(provider, body, model=model) == []


def test_tools_go_first_then_answers_then_questions():
    exchange = [
        says("user", "question " * 40),
        Turn("claude", (Text("Let me see."), ToolCall("look", {"at": "x" * 400}, "c1"))),
        Turn("tool", (ToolResult("look", "found " * 400, "c1"),)),
        says("claude", "answer " * 40),
    ]
    turns = (*exchange, *exchange, says("user", "And now?"))
    stages = {
        1900: ["user", "claude", "tool", "claude", "user", "claude", "tool", "claude", "user"],
        1800: ["user", "claude", "user", "claude", "tool", "claude", "user"],
        900: ["user", "claude", "user", "claude", "user"],
        700: ["user", "user", "claude", "user"],
        550: ["user", "user", "user"],
        450: ["user", "user"],
        200: ["user"],
    }
    for budget, roles in stages.items():
        view, _ = compress(turns, budget, COUNTER)
        assert [turn.role for turn in view if not is_note(turn)] == roles, budget


def test_the_note_says_what_went_to_people_and_to_the_model():
    turns = tuple(
        Turn(
            role,
            (Text(f"{role} {number} " * 100),),
            id=f"{role}{number}",
            created_at=f"day {number}",
        )
        for number in range(5)
        for role in ("user", "claude")
    )
    view, note = compress(turns, 400, COUNTER)
    assert note is not None
    assert note.exchanges_gone == 4
    assert (note.first, note.last) == ("day 0", "day 3")
    assert note.text.startswith("History shortened to fit the window")
    first = view[0].parts[0]
    assert isinstance(first, Text)
    assert "4 earlier exchanges (day 0 to day 3)" in first.content
    assert view[0].role == "user"


def test_a_newest_exchange_that_is_too_long_has_its_results_cut_with_a_mark():
    turns = (
        says("user", "Read it."),
        Turn("claude", (ToolCall("read", {}, "c1"), ToolCall("read", {}, "c2"))),
        Turn("tool", (ToolResult("read", "a" * 200_000, "c1"), ToolResult("read", "short", "c2"))),
    )
    view, note = compress(turns, 10_000, COUNTER)
    assert note is not None
    assert note.fits
    assert note.results_cut == 1
    long, short = view[-1].parts
    assert isinstance(long, ToolResult)
    assert len(str(long.content)) == 32_768
    assert "characters left out to fit the context window" in str(long.content)
    assert short is turns[2].parts[1]


def test_words_that_do_not_fit_are_left_whole_and_the_note_says_so():
    turns = (says("user", "old " * 100), says("claude", "yes"), says("user", "new " * 1000))
    view, note = compress(turns, 500, COUNTER)
    assert note is not None
    assert not note.fits
    assert view[-1] is turns[-1]
    assert "still too long" in note.text


def test_a_summary_stands_in_the_place_of_what_is_gone():
    turns = tuple(says(role, "word " * 200) for _ in range(6) for role in ("user", "claude"))
    _, note = compress(turns, 1500, COUNTER, summarise=True)
    assert note is not None
    assert (note.exchanges_as_words, note.exchanges_without_tools) == (0, 0)
    cut = type(note.cut)(gone=note.cut.gone, summary="They said word.")
    view, note = compress(turns, 1500, COUNTER, cut=cut, summarise=True)
    assert note is not None
    assert note.summary == "They said word."
    assert "They said word." in str(view[0])
    assert COUNTER.turns(view) <= 1500


def test_exchanges_that_a_late_result_connects_are_one():
    turns = (
        says("user", "one"),
        Turn("claude", (ToolCall("look", {}, "c1"),)),
        says("user", "two"),
        Turn("tool", (ToolResult("look", "late", "c1"),)),
        says("user", "three"),
    )
    assert [(span.start, span.stop) for span in exchanges(turns)] == [(0, 4), (4, 5)]
    assert exchanges(()) == []
