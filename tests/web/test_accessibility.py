"""The page by the rules of axe-core, which is taken from npm for the test and is no part of the repository."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.web.conftest import Watched
from tests.web.house import House

from multi_llm_chat.testing.simulator import Call, Say

ANSWER = "# T\n\n[link](http://x.example) `code`\n\n```python\ndef f(): return 'a'  # c\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- [x] t\n\n$x$"


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine")
    folder = tmp_path_factory.mktemp("axe")
    command = [
        npm,
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        "axe-core@4",
    ]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if done.returncode or not script.exists():
        pytest.skip("axe-core cannot be taken from npm here")
    return script.read_text(encoding="utf-8")


def findings(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    report = page.evaluate("() => axe.run()")
    return [
        f"{found['id']}: {found['nodes'][0]['html']}"
        for found in report["violations"]
        if found["impact"] in {"serious", "critical"}
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    home: House, visit: Callable[..., Watched], axe: str, scheme: str
):
    @home.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    del get_weather
    # The rules must be let into the page, which the policy would forbid.
    page = visit(color_scheme=scheme, bypass_csp=True).open("/")
    assert findings(page, axe) == []
    home.says("gemini", Say(ANSWER, thinking="hm"))
    home.says("claude", Say(calls=[Call("get_weather", {"city": "Rome"})]))
    page.locator("#text").fill("@gemini @claude x")
    page.keyboard.press("Enter")
    page.locator(".tool.waiting").wait_for()
    page.locator(".answer:not(.live)").wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Control+,")
    page.locator("#settings[open] .keys").wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    assert findings(page, axe) == []


def test_landmarks_and_live_regions_are_there(home: House, page: Page):
    for role in ("navigation", "main", "complementary", "log", "form"):
        assert page.get_by_role(role).count() == 1
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"
    home.says("gemini", Say("Heard by all."))
    page.locator("#text").fill("@gemini hi")
    page.keyboard.press("Enter")
    page.locator("#spoken", has_text="gemini: Heard by all.").wait_for(state="attached")


def test_nothing_moves_for_those_who_want_no_motion(
    home: House, visit: Callable[..., Watched], tmp_path: Path
):
    page = visit(reduced_motion="reduce").open("/")
    style = page.locator("body").evaluate("body => getComputedStyle(body).animationName")
    assert style == "none"
