"""Names and ids: legal, distinct where the originals are distinct, and reversible."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repair.test_pairing import bot, call, outline, repaired, result, rules, tool
from tests.strategies.histories import IDS, NAMES

from multi_llm_chat import ToolCall, ToolResult, Turn
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.repair import repair
from multi_llm_chat.repair.identifiers import NameMap, position_id
from multi_llm_chat.repair.policy import Target

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("get_weather", "get_weather"), ("fs.read", "fs_read"), ("a b!", "a_b_"), ("7up", "7up"), ("検索", "tool_1b6b1a6f"),
        ("", "tool_e3b0c442"), ("...", "tool_ab5df625"), ("tool", "tool"),
    ],
)  # fmt: skip
def test_a_name_is_kept_or_spelled_with_legal_characters(name: str, sent: str):
    assert NameMap([name], LEGAL).sent(name) == sent


def test_a_long_name_is_cut_and_marked():
    names = NameMap(["n" * 70, "n" * 69 + "m"], LEGAL)
    sent = [names.sent("n" * 70), names.sent("n" * 69 + "m")]
    assert len(set(sent)) == 2
    assert all(len(name) == 64 for name in sent)


def test_a_legal_name_is_never_taken_away():
    names = NameMap(["fs.read", "fs:read", "fs_read"], LEGAL)
    assert names.sent("fs_read") == "fs_read"
    assert len({names.sent(name) for name in ("fs.read", "fs:read", "fs_read")}) == 3


@settings(max_examples=200)
@given(names=st.lists(NAMES, max_size=8), row=st.sampled_from(sorted(ROWS)))
def test_names_are_legal_different_and_lead_back(names: list[str], row: str):
    pattern = ROWS[row].name_pattern
    made = NameMap(names, pattern)
    sent = {name: made.sent(name) for name in names}
    assert len(set(sent.values())) == len(sent)
    assert all(pattern.fullmatch(name) for name in sent.values())
    assert {made.originals[spelling]: spelling for spelling in sent.values()} == sent
    assert made.changed == {name: spelling for name, spelling in sent.items() if name != spelling}


def test_a_name_is_spelled_alike_whatever_stands_beside_it():
    alone = NameMap(["n" * 70], LEGAL).sent("n" * 70)
    assert NameMap(["a", "n" * 70, "n.n"], LEGAL).sent("n" * 70) == alone


def test_ids_by_position_are_nine_letters_and_digits():
    made = [position_id(number) for number in (0, 1, 35, 36, 36**5 - 1)]
    assert made == ["call00000", "call00001", "call0000z", "call00010", "callzzzzz"]
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", identifier) for identifier in made)


@settings(max_examples=200)
@given(identifiers=st.lists(IDS, max_size=8), row=st.sampled_from(sorted(ROWS)))
def test_ids_are_legal_different_and_lead_back(identifiers: list[str], row: str):
    pattern = ROWS[row].id_pattern
    turns = read_history([bot(*[call(one) for one in identifiers])])
    before = [part.tool_call_id for part in turns[0].parts if isinstance(part, ToolCall)]
    made = repair(turns, Target("bot", id_pattern=pattern))
    parts = [part for turn in made.turns for part in turn.parts]
    sent = [part.tool_call_id for part in parts if isinstance(part, ToolCall)]
    assert len(set(sent)) == len(sent) == len(before)
    assert all(pattern.fullmatch(one) for one in sent)
    assert sent == [part.tool_call_id for part in parts if isinstance(part, ToolResult)]
    # An earlier step removes lone surrogates.
    assert [made.ids[one] for one in sent] == [
        one.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
        for one in before
    ]
    for new, old in zip(sent, before, strict=True):
        assert new == old or not pattern.fullmatch(old) or before.count(old) > 1


@given(
    st.lists(IDS | st.sampled_from(["abcdefghi\njklmnopqr", "a\n", "\na"]), unique=True, min_size=1)
)
def test_ids_are_legal_together_where_each_of_them_is(identifiers: list[str]):
    calls = [ToolCall("f", {}, identifier) for identifier in identifiers]
    for row in ROWS.values():
        target = Target("bot", id_pattern=row.id_pattern)
        turns = [turn for call in calls for turn in (Turn("bot", (call,)), _answer(call))]
        sent = set(repair(turns, target).ids)
        legal = {each for each in identifiers if row.id_pattern.fullmatch(each)}
        assert sent & set(identifiers) == legal


def _answer(call: ToolCall) -> Turn:
    return Turn("tool", (ToolResult(call.name, "ok", call.tool_call_id),))


def test_a_made_id_does_not_take_one_that_is_there():
    made = repaired(
        bot(call("x y"), call("call00000")), tool(result("x y", "1"), result("call00000", "2"))
    )
    assert outline(made) == ["?call00002", "?call00000", "call00002=1", "call00000=2"]
    assert rules(made) == [("ANT-05", 0)]
