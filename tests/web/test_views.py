"""Values of the page: tables, hues, the order of answers, windows of exchanges, the source of an answer."""

import json

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Placed
from multi_llm_chat.web.exchange_groups import (
    EXCHANGES_PER_PAGE,
    answer_source,
    choose_window,
    group_exchanges,
)
from multi_llm_chat.web.history_view import in_order
from multi_llm_chat.web.views import PageAnswer, hue_of, read_table

cells = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
names = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=5, unique=True)


@given(columns=names, data=st.data())
def test_flat_objects_with_the_same_names_are_a_table(columns: list[str], data: st.DataObject):
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, cells)), min_size=1))
    table = read_table(json.dumps(rows))
    assert table is not None
    assert set(table.columns) == set(columns)
    assert table.count == len(rows)
    assert len(table.rows) == min(len(rows), 200)
    assert len(table.numeric) == len(columns)


@given(st.recursive(cells, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_every_other_result_is_no_table_or_a_whole_one(value: object):
    table = read_table(json.dumps(value))
    assert table is None or all(len(row) == len(table.columns) for row in table.rows)
    assert read_table(str(value)) is None or isinstance(value, list)


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=4))
def test_the_first_speakers_have_hues_and_signs_of_their_own(others: list[str]):
    known = ["gemini", "chatgpt", "claude"]
    speakers = [*known, *(name for name in others if name not in {*known, "local", "ollama"})]
    hues = [hue_of(name, speakers) for name in speakers]
    assert len(set(hues)) == len(hues)
    assert hues == list(range(len(hues)))
    assert hue_of("local", [*speakers, "local"]) == 7


@given(addressed=st.permutations(["a", "b", "c", "d"]), arrived=st.permutations(["a", "b", "c"]))
def test_answers_keep_the_order_of_the_addressees(addressed: list[str], arrived: list[str]):
    answers = [PageAnswer(f"run-{name}", name, 0) for name in arrived]
    verdict = PageAnswer("verdict", addressed[0], 0, is_council=True)
    shown = [answer.speaker for answer in in_order([verdict, *answers], addressed)]
    assert shown[:-1] == [name for name in addressed if name != "d"]
    assert shown[-1] == addressed[0]


def branch(exchanges: int) -> list[Placed]:
    turns = [
        Turn(role, (Text(f"**{role}** {number}"),), f"{role}-{number}")
        for number in range(exchanges)
        for role in ("user", "claude", "gemini")
    ]
    return [Placed(turn, None, None, 0) for turn in turns]


@given(count=st.integers(0, 200), data=st.data())
def test_a_window_is_at_most_one_page_and_contains_its_turn(count: int, data: st.DataObject):
    groups = group_exchanges(branch(count))
    assert len(groups) == count
    first, last = choose_window(groups, None, None, None)
    assert last == count
    assert 0 <= first <= last <= first + EXCHANGES_PER_PAGE
    if count == 0:
        return
    number = data.draw(st.integers(0, count - 1))
    first, last = choose_window(groups, None, None, f"gemini-{number}")
    assert first <= number < last <= first + EXCHANGES_PER_PAGE
    first, last = choose_window(groups, f"user-{number}", None, None)
    assert last == number
    first, last = choose_window(groups, None, f"user-{number}", None)
    assert first == number + 1


@given(st.integers(1, 30))
def test_windows_one_after_the_other_are_the_whole_branch(pages: int):
    groups = group_exchanges(branch(pages * 7))
    first, _ = choose_window(groups, None, None, None)
    seen = list(range(first, len(groups)))
    while first > 0:
        first, last = choose_window(groups, f"user-{first}", None, None)
        seen = [*range(first, last), *seen]
    assert seen == list(range(len(groups)))


def test_the_source_of_an_answer_is_its_markdown():
    placed = branch(3)
    assert answer_source(placed, "claude-1") == "**claude** 1"
    assert answer_source(placed, "user-2") == "**user** 2"
    assert answer_source(placed, "missing") is None
