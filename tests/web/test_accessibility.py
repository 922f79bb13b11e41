"""Checks the page with axe-core, which the test installs from npm."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page
from tests.web.conftest import Visitor
from tests.web.page_actions import spend
from tests.web.server_process import RunningServer, install_npm_package

from multi_llm_chat.testing.simulator import Call, Say

ANSWER = "# T\n\n[link](http://x.example) `code`\n\n```python\ndef f(): return 'a'  # c\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- [x] t\n\n$x$"


#: Which rules are checked in which colour scheme; None for all.
SCHEMES: tuple[tuple[Literal["light", "dark"], list[str] | None], ...] = (
    ("light", None),
    ("dark", ["color-contrast"]),
)


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config) -> str:
    script = install_npm_package(pytestconfig, "axe-core@4") / "axe-core" / "axe.min.js"
    return script.read_text(encoding="utf-8")


def findings(page: Page, axe: str) -> list[str]:
    """All serious violations in light colours, and those of contrast in dark colours."""
    page.evaluate(axe)
    found: list[str] = []
    for scheme, rules in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        report = page.evaluate("rules => axe.run(rules ? { runOnly: rules } : {})", rules)
        found += [
            f"{scheme} {violation['id']}: {violation['nodes'][0]['html']}"
            for violation in report["violations"]
            if violation["impact"] in {"serious", "critical"}
        ]
    return found


@pytest.mark.judge
def test_axe_finds_nothing_serious(
    server: RunningServer, new_visitor: Callable[..., Visitor], axe: str
):
    @server.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    del get_weather
    # The content security policy would forbid to inject the rules.
    page = new_visitor(bypass_csp=True, reduced_motion="reduce").open("/")
    assert findings(page, axe) == []
    server.add_replies("gemini", Say(ANSWER, thinking="hm"))
    server.add_replies("claude", Say(calls=[Call("get_weather", {"city": "Rome"})]))
    page.locator("#text").fill("@gemini @claude x")
    page.keyboard.press("Enter")
    page.locator(".tool.waiting").wait_for()
    page.locator(".answer:not(.live)").wait_for()
    assert findings(page, axe) == []
    card = page.locator(".tool.waiting")
    card.get_by_role("button", name="Edit").click()
    card.get_by_role("textbox", name="Arguments as JSON").fill("{")
    card.get_by_role("button", name="Allow once").click()
    card.locator(".problem:not([hidden])").wait_for()
    assert findings(page, axe) == []
    page.locator("#text").focus()
    page.keyboard.press("Control+k")
    page.locator("#search").fill("link")
    page.locator("#hits mark").first.wait_for()
    page.locator("#hits a").first.hover()
    page.locator("#preview mark").first.wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tools").click()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Model of claude").click()
    page.locator(".model-row").first.wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Instructions and parameters").click()
    page.locator("#parameters").wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More: gemini").click()
    page.get_by_role("menuitem", name="Copy as Markdown").wait_for()
    assert findings(page, axe) == []


@pytest.mark.judge
def test_axe_finds_nothing_serious_in_the_pane_of_an_artifact(
    server: RunningServer, new_visitor: Callable[..., Visitor], axe: str
):
    page = new_visitor(bypass_csp=True, reduced_motion="reduce").open("/")
    drawing = f"<svg><title>Drawing</title><desc>{'x' * 200}</desc></svg>"
    server.add_replies("gemini", Say(f"```svg\n{drawing}\n```"))
    page.locator("#text").fill("@gemini draw")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Open Drawing").click()
    for view in ("Changes", "Source", "Preview"):
        page.locator("#pane").get_by_role("button", name=view).click()
        assert findings(page, axe) == []


SETTINGS = (
    "general",
    "appearance",
    "models",
    "personas?new",
    "personas",
    "tools",
    "tools/~",
    "tools?new",
    "usage",
    "data",
    "account",
)


@pytest.mark.judge
@pytest.mark.parametrize("path", SETTINGS)
def test_axe_finds_nothing_serious_in_the_settings(
    server: RunningServer, new_visitor: Callable[..., Visitor], axe: str, path: str
):
    @server.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    del get_weather
    with server.signed_in_client() as client:
        assert (
            client.post(
                "/settings/persona", json={"name": "sceptic", "speaker": "claude"}
            ).status_code
            == 200
        )
        assert (
            client.post(
                "/settings/group",
                json={"kind": "councils", "name": "main", "members": ["gemini", "claude"]},
            ).status_code
            == 200
        )
        client.post("/settings/check", json={"provider": "anthropic"})
        client.post("/tools/rule", json={"pattern": "files/*", "approval": "ask"})
    spend(server)
    page = new_visitor(bypass_csp=True, reduced_motion="reduce").open(f"/settings/{path}")
    for each in page.locator("details summary").all():
        each.click()
    assert findings(page, axe) == []


def test_landmarks_and_live_regions_exist(server: RunningServer, page: Page):
    for role in ("navigation", "main", "log", "form"):
        assert page.get_by_role(role).count() == 1
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"
    server.add_replies("gemini", Say("Read aloud."))
    page.locator("#text").fill("@gemini hi")
    page.keyboard.press("Enter")
    page.locator("#spoken", has_text="gemini: Read aloud.").wait_for(state="attached")


def test_nothing_moves_with_reduced_motion(
    server: RunningServer, new_visitor: Callable[..., Visitor], tmp_path: Path
):
    page = new_visitor(reduced_motion="reduce").open("/")
    style = page.locator("body").evaluate("body => getComputedStyle(body).animationName")
    assert style == "none"
