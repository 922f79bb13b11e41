"""The first real path: two speakers, one tool, the embedded model."""

from pathlib import Path

import pytest

from multi_llm_chat.local import DEFAULT_MODEL
from multi_llm_chat.local.demo import calculate, main
from multi_llm_chat.local.locations import VARIABLE


@pytest.mark.judge
def test_the_demo_holds_a_conversation(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(models / f"{DEFAULT_MODEL}.gguf"))
    assert main() == 0
    printed = capsys.readouterr().out
    assert "ada  > " in printed
    assert "ben  > " in printed
    assert '[calculate {"expression":"12 * 34"} -> 408]' in printed
    assert "408" in printed.split("-> 408]")[1]


@pytest.mark.parametrize(
    ("expression", "value"), [("2 * (3 + 4)", "14"), ("-7 / 2", "-3.5"), ("1/0", "cannot")]
)
def test_the_demos_tool_really_calculates(expression: str, value: str) -> None:
    assert calculate(expression).startswith(value)
