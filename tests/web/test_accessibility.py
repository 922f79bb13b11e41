"""Checks the page with axe-core, which the test installs from npm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page
from tests.web.browser_thread import BrowserThread
from tests.web.conftest import Visitor
from tests.web.page_actions import send, spend
from tests.web.server_process import RunningServer, install_npm_package, run_server

from multi_llm_chat.testing.simulator import Call, Gate, Say, Status

ANSWER = "# T\n\n[link](http://x.example) `code`\n\n```python\ndef f(): return 'a'  # c\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n- [x] t\n\n$x$"


#: Which rules are checked in which colour scheme; None for all.
SCHEMES: tuple[tuple[Literal["light", "dark"], Literal["more", "no-preference"], list[str] | None], ...] = (
    ("light", "no-preference", None),
    ("dark", "no-preference", ["color-contrast"]),
    ("dark", "more", ["color-contrast"]),
)  # fmt: skip


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config) -> str:
    script = install_npm_package(pytestconfig, "axe-core@4") / "axe-core" / "axe.min.js"
    return script.read_text(encoding="utf-8")


def findings(page: Page, axe: str) -> list[str]:
    """Return all violations in the light scheme, and the contrast violations in the dark and the high-contrast scheme."""
    page.evaluate(axe)
    found: list[str] = []
    for scheme, contrast, rules in SCHEMES:
        page.emulate_media(color_scheme=scheme, contrast=contrast)
        report = page.evaluate("rules => axe.run(rules ? { runOnly: rules } : {})", rules)
        found += [
            f"{scheme} {contrast} {violation['id']}: {violation['nodes'][0]['html'][:300]}"
            for violation in report["violations"]
        ]
    page.emulate_media(color_scheme="light", contrast="no-preference")
    return found


@pytest.mark.judge
def test_axe_finds_nothing(server: RunningServer, new_visitor: Callable[..., Visitor], axe: str):
    @server.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    del get_weather
    # The content security policy would forbid injecting the rules.
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
def test_axe_finds_nothing_in_the_pane_of_an_artifact(
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


WIDTHS = (1400, 1000, 390)


@pytest.mark.judge
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_in_a_council_a_failure_and_a_wait(
    tmp_path: Path, browser: Browser, browser_thread: BrowserThread, axe: str, width: int
):
    config = '[councils.main]\nmembers = ["gemini", "chatgpt"]\n\n'
    claims = [{"claim": "Tea.", "agree": ["gemini:1"], "contradict": ["chatgpt:1"]}]
    verdict = json.dumps({"answer": "Tea.", "claims": claims})
    with run_server(tmp_path, config=config) as server:
        visitor = Visitor(server, browser, bypass_csp=True, reduced_motion="reduce")
        page = visitor.open("/")
        page.set_viewport_size({"width": width, "height": 844})
        assert findings(page, axe) == []
        server.add_replies("gemini", Say("Tea."), Say(verdict))
        server.add_replies("chatgpt", Say("Coffee."), Status(401))
        send(page, "@council:main tea?")
        page.locator(".findings").wait_for(state="attached")
        if width < 900:
            page.get_by_role("tab", name="Verdict").click()
        page.locator(".findings").wait_for()
        assert findings(page, axe) == []
        send(page, "@chatgpt again")
        page.locator(".failure").wait_for()
        gate = Gate(2)
        server.add_replies("gemini", Say("A long answer.", faults=[gate]))
        server.add_replies("claude", Status(429, headers={"retry-after": "60"}), Say("Late."))
        send(page, "@gemini @claude more")
        gate.wait_reached()
        page.locator(".note.wait").wait_for(state="attached")
        send(page, "@gemini later")
        page.locator(".queued").wait_for()
        assert findings(page, axe) == []
        page.get_by_role("button", name="Stop", exact=True).click()
        gate.open()
        visitor.close()


@pytest.mark.judge
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_in_menus_and_the_drawer(
    server: RunningServer, new_visitor: Callable[..., Visitor], axe: str, width: int
):
    page = new_visitor(bypass_csp=True, reduced_motion="reduce").open("/")
    page.set_viewport_size({"width": width, "height": 844})
    server.add_replies("gemini", Say("Hi."))
    send(page, "@gemini hello")
    page.locator(".answer:not(.live)").wait_for()
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="Memo").wait_for()
    assert findings(page, axe) == []
    page.get_by_role("menuitemcheckbox", name="Memo").click()
    send(page, "milk")
    page.locator(".message .badge").wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Control+k")
    page.locator("#search").fill("nothing of this kind")
    page.locator("#hits .empty").wait_for()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    if width < 900:
        page.get_by_role("button", name="Conversations").click()
    if width != 1000:  # the rail of icons has no list
        page.locator(".entry").hover()
        page.locator(".entry").get_by_role("button").click()
    assert findings(page, axe) == []


@pytest.mark.judge
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing_on_the_page_to_sign_in(
    tmp_path: Path, browser: Browser, browser_thread: BrowserThread, axe: str, width: int
):
    with run_server(tmp_path, password_hash="not a hash") as server:
        context = browser.new_context(
            bypass_csp=True, reduced_motion="reduce", viewport={"width": width, "height": 844}
        )
        page = context.new_page()
        page.goto(f"{server.url}/login")
        assert findings(page, axe) == []
        page.locator("#password").fill("wrong")
        page.keyboard.press("Enter")
        page.locator(".problem").wait_for()
        assert findings(page, axe) == []
        context.close()


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
def test_axe_finds_nothing_in_the_settings(
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
