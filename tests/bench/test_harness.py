"""The harness measures what it claims: right answers count, wrong ones do not, and the server sends what is expected."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from bench.peers import translation
from bench.peers.field import Contestant, Measured, field, measure
from bench.peers.groups import TOOL, conversation, server_speed
from bench.quick import best_of, servers, worse
from bench.replies import EXPECTED, KINDS, PROVIDERS, address

from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing import validate

WORKER = Path(__file__).parents[2] / "bench" / "peers" / "worker.py"
CONTENDER = """
class Contender:
    providers = ("openai-chat",)
    def __init__(self, provider, base, model):
        self.base = base
    async def text(self):
        if self.base == "raises":
            raise OSError("no such server")
        for piece in ("good ", "answer"):
            yield piece
"""


@pytest.fixture(scope="module")
def urls() -> Generator[dict[str, str]]:
    with servers() as found:
        yield found


@pytest.fixture(scope="module")
def both() -> Generator[list[Contestant]]:
    with field(["ours", "limit"], peers=False) as contestants:
        yield contestants


def job(do: str, provider: str, base: str, **more: Any) -> dict[str, Any]:
    model = ROWS[provider].default_model
    return {"do": do, "provider": provider, "base": base, "model": model} | more


def right(found: dict[str, Measured]) -> bool:
    assert {one.failure for one in found.values()} == {""}
    return all((one.cpu or 0) > 0 and (one.wall or 0) > 0 for one in found.values())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "burst"])
def test_ours_and_the_limit_read_the_same_answer(
    kind: str, provider: str, urls: dict[str, str], both: list[Contestant]
) -> None:
    do = "text" if isinstance(EXPECTED[kind], str) else "calls"
    base = address(urls["fast"], kind, provider)
    assert right(measure(both, job(do, provider, base, expected=EXPECTED[kind]), rounds=0))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_events_one_by_one_are_the_same_answer(
    provider: str, urls: dict[str, str], both: list[Contestant]
) -> None:
    base = address(urls["paced"], "burst", provider)
    assert right(measure(both, job("text", provider, base, expected=EXPECTED["burst"]), rounds=0))


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_both_run_all_rounds_of_tools(
    provider: str, urls: dict[str, str], both: list[Contestant]
) -> None:
    asked = job("agent", provider, address(urls["agent"], "", provider), tool="wait", seconds=0)
    assert right(measure(both, asked | {"expected": "Done after 8 results."}, rounds=0))


def test_an_answer_that_differs_has_no_figure(urls: dict[str, str], both: list[Contestant]) -> None:
    base = address(urls["fast"], "short", "openai-chat")
    found = measure(both, job("text", "openai-chat", base, expected="something else"), rounds=1)
    assert all(one.failure.startswith("wrong") and one.cpu is None for one in found.values())


@pytest.mark.parametrize("turns", [1, 5, 100])
def test_the_conversations_of_the_request_group_are_legal_as_they_are(turns: int) -> None:
    made = conversation(turns)
    assert len(made) <= turns
    body = {
        "model": "gpt-4.1",
        "messages": translation.chat(made),
        "tools": [translation.chat_tool(TOOL)],
    }
    assert validate("openai-chat", body) == []
    claude = {
        "model": "claude-sonnet-5", "max_tokens": 4096,
        "messages": translation.anthropic(made)[1], "tools": [translation.anthropic_tool(TOOL)],
    }  # fmt: skip
    assert validate("anthropic", claude) == []
    gemini = {
        "contents": translation.gemini(made)[1],
        "tools": [{"functionDeclarations": [translation.gemini_tool(TOOL)]}],
    }
    assert validate("gemini", gemini, model="gemini-3.7-flash") == []


def test_the_fast_path_is_measured_without_reading_what_it_says(urls: dict[str, str]) -> None:
    assert 0 < server_speed(urls) < 1e-3


def test_a_worker_reports_what_is_missing_wrong_or_broken(tmp_path: Path) -> None:
    script = tmp_path / "contender.py"
    script.write_text(CONTENDER, encoding="utf-8")
    lines = [
        job("text", "openai-chat", "works", expected="good answer"),
        job("text", "openai-chat", "works", expected="another"),
        job("text", "openai-chat", "raises", expected="good answer"),
        job("calls", "openai-chat", "works", expected=[]),
        job("text", "anthropic", "works", expected="good answer"),
    ]
    done = subprocess.run(
        [sys.executable, "-P", WORKER, script],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    ready, *answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ready == {"ready": True}
    assert "cpu" in answers[0]
    assert [next(iter(answer)) for answer in answers[1:]] == [
        "wrong",
        "error",
        "missing",
        "missing",
    ]
    assert "no such server" in answers[2]["error"]


def test_a_ratio_may_be_a_little_worse_than_the_recorded_one_and_no_more() -> None:
    recorded = {"a": 1.0, "b": 2.0, "gone": 3.0}
    problems = worse({"a": 1.29, "b": 2.61, "new": 1.0}, recorded)
    assert [line.split(" ")[0].rstrip(":") for line in problems] == ["b", "new", "gone"]
    assert worse(recorded, recorded) == []


def test_a_bad_reading_is_taken_again_and_a_good_one_is_not() -> None:
    readings = iter([2.0, 1.2, 9.9])
    assert best_of(lambda: next(readings), 1.3) == 1.2
    assert next(readings) == 9.9
    assert best_of(iter([3.0, 2.0, 2.5]).__next__, 1.3) == 2.0
