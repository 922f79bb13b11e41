"""The comparison is fair: every contender's plain requests are accepted, and every refusal is one of the provider."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from bench.compare.__main__ import KNOWN, TARGETS, Target, judge
from bench.compare.cases import CASES, Case
from bench.peers import translation
from bench.plots import bars

from bench import page
from multi_llm_chat import render
from multi_llm_chat.testing import validate

CONTROLS = [case for case in CASES if "(control)" in case.name]


def plain_body(provider: str, model: str, case: Case) -> dict[str, Any]:
    """Return what the vendor's own SDK would send."""
    history, tools = case.history, case.tools
    if provider == "openai-chat":
        offered = [translation.chat_tool(tool) for tool in tools]
        return {"model": model, "messages": translation.chat(history), "tools": offered}
    if provider == "openai":
        offered = [translation.responses_tool(tool) for tool in tools]
        return {"model": model, "input": translation.responses(history), "tools": offered}
    if provider == "anthropic":
        offered = [translation.anthropic_tool(tool) for tool in tools]
        _, messages = translation.anthropic(history)
        return {"model": model, "max_tokens": 4096, "messages": messages, "tools": offered}
    offered = [translation.gemini_tool(tool) for tool in tools]
    return {
        "contents": translation.gemini(history)[1],
        "tools": [{"functionDeclarations": offered}],
    }


@pytest.mark.parametrize("case", CONTROLS, ids=lambda case: case.name)
@pytest.mark.parametrize("target", TARGETS[:4], ids=lambda target: target.label)
def test_the_plain_translation_of_a_sound_conversation_is_accepted(
    case: Case, target: Target
) -> None:
    body = plain_body(target.provider, target.model, case)
    assert validate(target.provider, body, model=target.model) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_is_accepted_and_loses_no_word(case: Case) -> None:
    for target in TARGETS:
        rendered = render(case.history, target.provider, model=target.model, tools=case.tools)
        assert validate(target.provider, rendered.body, model=target.model) == []
        said = json.dumps(rendered.body, ensure_ascii=False)
        assert [
            text for text in case.texts if json.dumps(text, ensure_ascii=False)[1:-1] not in said
        ] == []


def test_every_case_names_rules_that_exist() -> None:
    assert {rule for case in CASES for rule in case.rules} <= KNOWN
    assert len({case.name for case in CASES}) == len(CASES)


def test_nothing_sent_is_a_crash_and_every_word_of_it_lost() -> None:
    case, target = CONTROLS[0], TARGETS[0]
    outcome = judge(case, target, {"error": "TypeError: no"}, None)
    assert (outcome.outcome, outcome.words) == ("crashed", "TypeError: no")
    assert outcome.lost == list(case.texts)


def test_a_plot_is_well_formed_and_has_a_bar_for_each() -> None:
    root = ET.fromstring(bars("A <title>", "µs", {"ours": 1.5, "a & b": 150.0}))
    assert len([node for node in root.iter() if node.tag.endswith("rect")]) == 2


def test_the_page_is_made_of_the_files_beside_it(tmp_path: Path) -> None:
    page.write(tmp_path)
    first = (tmp_path / "README.md").read_text(encoding="utf-8")
    page.write(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == first
    assert first.startswith("# Benchmarks")


def test_a_peer_that_is_ahead_is_named_and_one_that_is_level_is_listed_separately():
    cells = {"ours": {"value": 100.0}, "limit": {"value": 1.0}, "first": {"value": 90.0}}
    cells |= {"level": {"value": 98.0}, "behind": {"value": 101.0}, "failed": {"failure": "no"}}
    columns = [{"group": "store", "title": "append", "unit": "ms", "cells": cells}]
    (named,) = page.ahead(columns)
    assert named.startswith("first in *store: append*")
    (level,) = page.ahead(columns, level=True)
    assert level.startswith("level in *store: append*")
