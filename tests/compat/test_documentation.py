"""The examples of ``docs/handlers.md`` run as they are written."""

import re
from pathlib import Path
from typing import Any

import pytest

from multi_llm_chat.testing.simulator import Call, Say, Simulator

PAGE = Path(__file__).parents[2] / "docs" / "handlers.md"


def test_the_examples_run_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    space: dict[str, Any] = {}
    looks = Say(calls=[Call("get_weather", {"location": "Paris"})])
    with Simulator([looks, Say("It is sunny in Paris.")]) as simulator:
        monkeypatch.setenv("OPENAI_BASE_URL", simulator.base_url("openai-chat"))
        for block in blocks:
            # The key stands for the reader's own.
            exec(compile(block.replace("Bearer …", "Bearer key"), str(PAGE), "exec"), space)
    assert capsys.readouterr().out == "True It is sunny in Paris. answered\n"
    assert "It is sunny in Paris." in str(space["response"])
    assert space["answer"]["result"] == "sunny in Oslo"
    assert [tool.name for tool in space["tools"].definitions()] == ["get_weather"]
