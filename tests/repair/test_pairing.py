"""Every result finds its call: the rules at the head of ``repair/pairing.py``, one by one."""

from typing import Any

import pytest

from multi_llm_chat import RepairPolicy
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.repair import Repaired, repair
from multi_llm_chat.repair.policy import Target

TARGET = Target("bot")


def call(identifier: str, name: str = "f") -> dict[str, Any]:
    return {
        "type": "tool_call",
        "content": {"name": name, "arguments": {}, "tool_call_id": identifier},
    }


def result(identifier: str, content: str, name: str = "f", **extra: Any) -> dict[str, Any]:
    part = {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}
    return part | extra


def bot(*parts: Any, role: str = "bot") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def tool(*results: Any, **extra: Any) -> dict[str, Any]:
    return {"role": "tool", "content": list(results), **extra}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def repaired(*turns: Any, **policy: Any) -> Repaired:
    chosen: dict[str, Any] = {"foreign": "adopt"} | policy
    return repair(read_history(turns), TARGET, RepairPolicy(**chosen))


def outline(made: Repaired) -> list[str]:
    """Return the turns in shorthand: texts, ``?id`` for calls, ``id=content`` for results."""
    shorthand: list[str] = []
    for turn in write_history(made.turns):
        for part in turn["content"]:
            match part["type"]:
                case "tool_call":
                    shorthand.append(f"?{part['content']['tool_call_id']}")
                case "tool_result":
                    shorthand.append(f"{part['tool_call_id']}={part['content']}")
                case _:
                    shorthand.append(part["content"])
    return shorthand


def rules(made: Repaired) -> list[tuple[str, int | None]]:
    return [(note.rule, note.turn) for note in made.notes]


def test_a_pair_in_its_place_stays_as_it_is():
    made = repaired(user("hi"), bot(call("a")), tool(result("a", "1")))
    assert outline(made) == ["hi", "?a", "a=1"]
    assert made.notes == ()


def test_a_late_result_moves_up_and_what_stood_between_behind_it():
    made = repaired(bot(call("a")), user("one"), user("two"), tool(result("a", "1")))
    assert outline(made) == ["?a", "a=1", "one", "two"]
    assert rules(made) == [("OAI-03", 1), ("OAI-03", 2)]


def test_an_early_result_moves_behind_its_call():
    made = repaired(tool(result("a", "1")), user("hi"), bot(call("a")))
    assert outline(made) == ["hi", "?a", "a=1"]
    assert rules(made) == [("OAI-03", 0)]


def test_results_stand_in_the_order_of_their_calls():
    made = repaired(
        bot(call("a"), call("b"), call("c")),
        tool(result("c", "3"), result("a", "1")),
        tool(result("b", "2")),
    )
    assert outline(made) == ["?a", "?b", "?c", "a=1", "b=2", "c=3"]


def test_a_reused_id_belongs_to_the_nearest_earlier_unanswered_call():
    made = repaired(bot(call("x")), tool(result("x", "1")), bot(call("x")), tool(result("x", "2")))
    assert outline(made) == ["?x", "x=1", "?call00001", "call00001=2"]
    assert made.ids == {"x": "x", "call00001": "x"}


def test_with_both_open_the_nearest_turn_is_answered_first():
    made = repaired(
        bot(call("x")), bot(call("x")), tool(result("x", "near")), tool(result("x", "far"))
    )
    assert outline(made) == ["?x", "x=far", "?call00001", "call00001=near"]


def test_a_reused_id_in_a_turn_just_behind_answers_the_later_turn():
    """Two turns of one speaker are merged only if the results answer both (GEM-20)."""
    made = repaired(
        bot(call("a", "search")),
        bot(call("a", "search"), call("b", "search")),
        tool(result("a", "SECOND", "search"), result("b", "THIRD", "search")),
    )
    missing = "[no result: the call was interrupted]"
    assert [each.partition("=")[2] for each in outline(made) if "=" in each] == [
        missing,
        "SECOND",
        "THIRD",
    ]


def test_the_same_id_twice_in_one_turn_is_answered_in_order():
    made = repaired(bot(call("x"), call("x")), tool(result("x", "1"), result("x", "2")))
    assert outline(made) == ["?x", "?call00001", "x=1", "call00001=2"]


def test_without_an_id_the_name_decides():
    made = repaired(
        bot(call("a", "f"), call("b", "g")), tool(result("", "G", "g"), result("", "F", "f"))
    )
    assert outline(made) == ["?a", "?b", "a=F", "b=G"]


def test_without_an_id_the_name_decides_also_later():
    made = repaired(bot(call("a", "f")), user("hm"), tool(result("", "F", "f")))
    assert outline(made) == ["?a", "a=F", "hm"]


def test_with_neither_the_next_open_call_of_the_turn_before_is_answered():
    made = repaired(bot(call("a"), call("b")), {"role": "tool", "content": ["first", "second"]})
    assert outline(made) == ["?a", "?b", "a=first", "b=second"]


def test_with_neither_and_words_between_it_is_an_orphan():
    made = repaired(bot(call("a")), user("hm"), {"role": "tool", "content": "lost"})
    assert outline(made) == [
        "?a",
        "a=[no result: the call was interrupted]",
        "hm",
        "[result of a tool, called earlier: lost]",
    ]


def test_a_result_that_says_whose_call_it_answers_belongs_to_that_speaker():
    made = repaired(
        bot(call("x"), role="gemini"), bot(call("x"), role="claude"),
        tool(result("x", "for gemini"), meta={"speaker": "gemini"}), tool(result("x", "for claude"), meta={"speaker": "claude"}),
    )  # fmt: skip
    assert outline(made) == ["?x", "x=for gemini", "?call00001", "call00001=for claude"]


def test_a_result_for_one_speaker_answers_no_other_speaker():
    made = repaired(
        bot(call("x"), role="gemini"),
        tool(result("x", "1"), meta={"speaker": "claude"}),
        unanswered="drop",
        orphans="drop",
    )
    assert outline(made) == []


def test_the_last_of_several_results_wins():
    made = repaired(
        bot(call("a")), tool(result("a", "1")), tool(result("a", "2")), tool(result("a", "3"))
    )
    assert outline(made) == ["?a", "a=3"]
    assert rules(made) == [("ANT-04", 2), ("ANT-04", 3)]


def test_a_made_up_result_gives_way_to_a_real_one_and_never_replaces_it():
    made_up = result("a", "made up", synthetic=True)
    assert outline(repaired(bot(call("a")), tool(made_up), tool(result("a", "real")))) == [
        "?a",
        "a=real",
    ]
    assert outline(repaired(bot(call("a")), tool(result("a", "real")), tool(made_up))) == [
        "?a",
        "a=real",
    ]


@pytest.mark.parametrize("early", [True, False])
def test_an_orphan_becomes_text_or_is_dropped(early: bool):
    turns = [user("hi"), tool(result("zz", "lost", "g"))]
    turns = turns[::-1] if early else turns
    note = repaired(*turns)
    assert "[result of g, called earlier: lost]" in outline(note)
    assert rules(note) == [("OAI-01", 0 if early else 1)]
    assert outline(repaired(*turns, orphans="drop")) == ["hi"]


def test_results_in_a_models_own_turn_are_found():
    made = repaired(
        bot(
            {"type": "text", "content": "so"},
            call("a"),
            result("a", "1"),
            {"type": "text", "content": "done"},
        )
    )
    assert outline(made) == ["so", "?a", "a=1", "done"]
    assert rules(made) == [("GEM-10", 0)]


def test_a_result_takes_the_name_and_id_of_its_call():
    made = repaired(bot(call("a", "f")), tool(result("a", "1", "wrong")))
    (_, turn) = write_history(made.turns)
    assert turn["content"] == [result("a", "1", "f")]


# Ambiguous ids: the tool's name and the order decide.


def named_outline(made: Repaired) -> list[str]:
    """Return calls as ``?name``, results as ``name=content``, in order."""
    shorthand: list[str] = []
    for turn in write_history(made.turns):
        for part in turn["content"]:
            if part["type"] == "tool_call":
                shorthand.append(f"?{part['content']['name']}")
            elif part["type"] == "tool_result":
                shorthand.append(f"{part['name']}={part['content']}")
    return shorthand


def test_a_reused_id_is_answered_by_name():
    made = repaired(
        bot(call("call_0", "search")),
        user("and?"),
        bot(call("call_0", "delete")),
        tool(result("call_0", "FOUND", "search")),
        tool(result("call_0", "FILE DELETED", "delete")),
    )
    assert named_outline(made) == ["?search", "search=FOUND", "?delete", "delete=FILE DELETED"]


def test_a_result_under_another_name_does_not_answer_a_call_with_a_reused_id():
    made = repaired(
        bot(call("call_0", "search")),
        user("and?"),
        bot(call("call_0", "delete")),
        tool(result("call_0", "FILE DELETED", "delete")),
    )
    assert named_outline(made) == [
        "?search",
        "search=[no result: the call was interrupted]",
        "?delete",
        "delete=FILE DELETED",
    ]


def test_two_calls_of_a_turn_that_share_an_id_get_the_results_under_their_names():
    made = repaired(
        bot(call("x", "search"), call("x", "delete")),
        tool(result("x", "GONE", "delete"), result("x", "FOUND", "search")),
    )
    assert named_outline(made) == ["?search", "?delete", "search=FOUND", "delete=GONE"]


@pytest.mark.parametrize("identifier", ["", "call_of_another_system", "search"])
def test_a_result_whose_id_no_call_has_answers_the_call_of_its_name(identifier: str):
    made = repaired(
        bot(call("", "search"), call("", "delete")),
        tool(result(identifier, "FOUND", "search"), result("delete", "GONE", "")),
    )
    assert named_outline(made) == ["?search", "?delete", "search=FOUND", "delete=GONE"]


def test_a_result_without_a_name_whose_id_no_call_has_answers_the_next_open_call():
    made = repaired(bot(call("", "search")), tool(result("elsewhere_7", "FOUND", "")))
    assert named_outline(made) == ["?search", "search=FOUND"]


def test_ids_on_both_sides_that_differ_do_not_belong_together():
    made = repaired(bot(call("c1", "search")), tool(result("c9", "FOUND", "search")))
    assert named_outline(made) == ["?search", "search=[no result: the call was interrupted]"]
    assert outline(made)[-1] == "[result of search, called earlier: FOUND]"


def test_a_further_result_under_another_name_replaces_nothing():
    made = repaired(
        bot(call("a", "search")),
        tool(result("a", "FOUND", "search")),
        tool(result("a", "GONE", "delete")),
    )
    assert named_outline(made) == ["?search", "search=FOUND"]
    assert outline(made)[-1] == "[result of delete, called earlier: GONE]"


def test_a_unique_id_decides_whatever_the_result_is_called():
    made = repaired(bot(call("a", "files.search")), tool(result("a", "FOUND", "files_search")))
    assert named_outline(made)[-1].endswith("=FOUND")


def test_a_call_whose_id_a_later_result_has_is_left_to_that_result():
    made = repaired(
        bot(call("a", "search"), call("b", "search")),
        tool(result("", "SECOND", "search")),
        tool(result("a", "FIRST", "search")),
    )
    assert outline(made) == ["?a", "?b", "a=FIRST", "b=SECOND"]


@pytest.mark.parametrize("name", ["f", ""])
def test_a_result_of_no_call_takes_no_call_whose_own_result_follows(name: str):
    """The ids look like those that the reader generates; both results are sent."""
    made = repaired(
        user("go"),
        bot(call("call_1_0"), call("call_1_1")),
        tool(result("call_9_2", "strange", name)),
        tool(result("call_1_0", "0"), result("call_1_1", "1")),
    )
    said = " ".join(outline(made))
    assert "call_1_0=0" in said
    assert "call_1_1=1" in said
    assert "strange" in said


def test_an_early_result_needs_the_name_of_its_call():
    made = repaired(
        tool(result("call_0", "GONE", "delete")),
        user("hi"),
        bot(call("call_0", "search")),
        bot(call("call_0", "delete")),
    )
    assert named_outline(made) == [
        "?search",
        "search=[no result: the call was interrupted]",
        "?delete",
        "delete=GONE",
    ]
