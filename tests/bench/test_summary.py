"""Summaries contain what the page needs, are merged into earlier ones, and stay small."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.where import PAGE

from bench import page, summary


def outcome(case: str, target: str, kind: str, rule: str = "", lost: int = 0) -> dict[str, Any]:
    texts = [f"text {number}" for number in range(lost)]
    words = f"the provider's\nwords for {rule}" if rule else ""
    return {"case": case, "target": target, "outcome": kind, "rule": rule, "words": words, "lost": texts}  # fmt: skip


def compared(**outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "where": {"date": "2026-11-15"},
        "targets": [{"label": "A"}, {"label": "B"}],
        "cases": [{"name": "one", "rules": []}, {"name": "two", "rules": ["OAI-01"]}],
        "outcomes": outcomes,
    }


def measured(**cells: dict[str, Any]) -> dict[str, Any]:
    column = {"group": "burst", "title": "openai-chat", "unit": "µs", "figure": "cpu"}
    return {"server": {"µs a delta": 0.5}, "columns": [column | {"cells": cells}]}


OURS = [outcome(case, target, "accepted") for case in ("one", "two") for target in ("A", "B")]
PEER = [
    outcome("one", "A", "accepted", lost=2),
    outcome("one", "B", "refused", "OAI-01", lost=1),
    outcome("two", "A", "crashed", lost=3),
]


def test_an_outcome_is_a_word_for_each_target():
    found = summary.of_comparison(compared(ours=OURS, peer=PEER, absent=[]))
    first, second = found["cases"]
    assert first["outcomes"] == {"ours": "ok ok", "peer": "ok/2 OAI-01/1"}
    assert second == {"name": "two", "rules": ["OAI-01"], "outcomes": {"ours": "ok ok", "peer": "crash -"}}  # fmt: skip
    assert found["words"] == {"OAI-01": "the provider's words for OAI-01"}
    assert "outcomes" not in found


def test_the_page_counts_what_a_summary_says():
    outcomes = page.outcomes_of(summary.of_comparison(compared(ours=OURS, peer=PEER)))
    assert outcomes["ours"].accepted == 100
    assert outcomes["ours"].rules == "nothing"
    peer = outcomes["peer"]
    assert peer.accepted == pytest.approx(100 / 3)
    assert peer.at(0).accepted == 50
    assert peer.rules == "OAI-01 (1)"
    assert sum(lost for _, lost in peer.sent) == 3
    assert (peer.marks("one"), peer.marks("two")) == ("lost OAI-01", "crash -")


def test_contenders_that_were_not_asked_keep_their_outcomes():
    before = summary.of_comparison(compared(ours=[], peer=PEER))
    now = summary.of_comparison(compared(ours=OURS), before)
    assert now == summary.of_comparison(compared(peer=PEER, ours=OURS))


def test_outcomes_at_other_targets_are_not_kept():
    before = summary.of_comparison(compared(peer=PEER))
    asked = compared(ours=OURS) | {"targets": [{"label": "A"}, {"label": "C"}]}
    now = summary.of_comparison(asked, before)
    assert [list(case["outcomes"]) for case in now["cases"]] == [["ours"], ["ours"]]


def test_figures_are_rounded_and_others_kept():
    before = summary.of_peers(measured(ours={"value": 9.0}, peer={"value": 20.0, "noise": None}))
    raw = measured(
        ours={"value": 4.20308466, "noise": 1.43253724},
        third={"failure": "missing: does not speak it"},
        fourth={"failure": "wrong:\n| no"},
    )
    now = summary.of_peers(raw, before)
    (column,) = now["columns"]
    assert column["cells"] == {
        "ours": {"value": 4.203085, "noise": 1.433},
        "peer": {"value": 20.0},
        "third": {"failure": "missing"},
        "fourth": {"failure": "wrong: / no"},
    }
    assert now["server"]["times faster than the fastest"] == 8.40617


def test_a_summary_is_written_with_one_line_for_each_item(tmp_path: Path):
    file = tmp_path / "new" / "compare.json"
    found = summary.of_comparison(compared(ours=OURS, peer=PEER))
    summary.write(file, found)
    assert summary.read(file) == found
    lines = file.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith(' {"name"') for line in lines) == len(found["cases"])
    assert summary.read(tmp_path / "none.json") is None


@pytest.mark.parametrize("name", ["compare.json", "peers.json"])
def test_the_summaries_of_the_page_are_small(name: str):
    text = (PAGE / name).read_text(encoding="utf-8")
    assert json.loads(text)
    assert len(text.splitlines()) < 300


def test_the_page_and_its_pictures_are_those_of_the_summaries(tmp_path: Path):
    page.write(tmp_path)
    made = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    kept = {name: (PAGE / name).read_text(encoding="utf-8") for name in made}
    assert made == kept
    assert {file.name for file in PAGE.glob("*.svg")} <= set(made)
