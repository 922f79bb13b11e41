"""The settings as pages: keys, speakers, personas, groups, servers and rules, in a real browser."""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect
from tests.tools.conftest import everyday
from tests.web.conftest import Visitor
from tests.web.page_actions import send, spend
from tests.web.server_process import TEST_KEY, RunningServer, form_token, run_server

from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.web.access import Proxy

CONFIG = '[personas.sceptic]\nspeaker = "claude"\nsystem_prompt = "Doubt."\n\n'


@pytest.fixture
def server(tmp_path: Path) -> Generator[RunningServer]:
    """Run a server whose simulated providers accept one key, and list several models."""
    models = {"anthropic": ["claude-sonnet-5", "claude-haiku-4-5"], "openai": ["gpt-5.6-terra"]}
    settings = {"key": TEST_KEY, "models": models}
    with run_server(tmp_path, config=CONFIG, simulator=settings) as opened:
        yield opened


def saved(server: RunningServer) -> Settings:
    return read_settings(server.hub.workspace.folders.config_file)


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option in a list."""
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_a_key_is_checked_when_it_is_saved_and_never_shown(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    address = server.simulator.base_url("anthropic")
    with server.signed_in_client() as client:
        form = {"name": "advisor", "provider": "anthropic", "base_url": address}
        assert client.post("/settings/speaker", json=form).status_code == 200
    page = new_visitor().open("/settings/models")
    row = page.locator(".provider[data-provider=anthropic]")
    row.get_by_role("button", name="Set a key").click()
    field = row.locator("input[type=password]")
    expect(field).to_be_focused()
    field.fill("sk-ant-wrong-0123456789")
    row.get_by_role("button", name="Check and save").click()
    expect(row.get_by_role("alert")).to_contain_text(
        "anthropic refused this key; it was not saved."
    )
    assert server.hub.workspace.keys.find("ANTHROPIC_API_KEY") is None
    field.fill(TEST_KEY)
    field.press("Enter")
    expect(row.locator(".badge")).to_have_text("works")
    expect(row).to_contain_text("2 models")
    assert TEST_KEY not in page.content()
    server.add_replies("claude", Say("With the new key."))
    page.keyboard.press("Escape")
    page.locator("#composer").wait_for()
    page.locator("body[data-ready]").wait_for()
    send(page, "@advisor hi")
    expect(page.locator(".answer .body")).to_have_text("With the new key.")
    page.goto(f"{server.url}/settings/models")
    row.get_by_role("button", name="More: anthropic").click()
    page.get_by_role("menuitem", name="Remove the key").click()
    expect(row.get_by_role("button", name="Set a key")).to_be_visible()
    assert server.hub.workspace.keys.find("ANTHROPIC_API_KEY") is None


def test_a_key_that_cannot_be_checked_is_saved_with_a_note(server: RunningServer):
    with server.signed_in_client() as client:
        form = {"name": "far", "provider": "mistral", "base_url": "http://127.0.0.1:1"}
        assert client.post("/settings/speaker", json=form).status_code == 200
        body = {"variable": "MISTRAL_API_KEY", "value": "a-key-of-no-value"}
        saved_key = client.post("/settings/key", json=body)
        assert "could not be asked whether the key works" in saved_key.json()["note"]
        assert server.hub.workspace.keys.find("MISTRAL_API_KEY") is not None
        assert "not reachable" in client.get("/settings/models").text


def test_a_speaker_is_added_with_a_chain_of_providers(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/settings/models")
    page.get_by_text("New speaker").click()
    form = page.locator(".new-speaker form")
    form.locator("[name=name]").fill("team")
    form.locator(".link").click()
    page.get_by_role("menuitemcheckbox", name="anthropic", exact=True).click()
    form.get_by_role("button", name="Add a provider that answers").click()
    page.get_by_role("menuitem", name="gemini", exact=True).click()
    form.get_by_role("button", name="Add", exact=True).click()
    team = page.locator("details.speaker", has_text="team")
    expect(team.locator(".badge")).to_have_count(2)
    assert saved(server).speakers["team"].provider == ("anthropic", "gemini")
    # Saving another setting keeps the chain.
    team.locator("summary").click()
    team.locator("[name=system_prompt]").fill("Be brief.")
    with page.expect_response(
        "**/settings/speaker"
    ):  # the notice of the first one may still be there
        team.get_by_role("button", name="Save").click()
    assert saved(server).speakers["team"].provider == ("anthropic", "gemini")
    assert saved(server).speakers["team"].system_prompt == "Be brief."
    team.get_by_role("button", name="Remove").click()
    expect(team).to_have_count(0)
    assert "team" not in saved(server).speakers


def test_a_persona_is_made_used_and_removed(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/settings/personas")
    page.get_by_role("link", name="New persona").click()
    page.locator("body[data-ready]").wait_for()
    page.locator(".side-sheet [name=name]").fill("editor")
    choose(page, "Speaker whose provider", "chatgpt")
    page.locator("[name=system_prompt]").fill("Shorten.")
    page.get_by_role("radio", name="High").check()
    page.locator("[name=temperature]").fill("0.2")
    page.locator("[name=max_tokens]").fill("800")
    page.locator(".side-sheet").get_by_role("button", name="Add").click()
    page.get_by_role("link", name="editor").click()
    expect(page).to_have_url(f"{server.url}/settings/personas/editor")
    persona = saved(server).personas["editor"]
    assert persona.speaker == "chatgpt"
    assert persona.options == {"thinking": "high", "temperature": 0.2, "max_tokens": 800}
    page.locator("body[data-ready]").wait_for()
    page.locator(".side-sheet [name=name]").fill("shortener")
    page.locator("[name=temperature]").fill("")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="shortener").wait_for()
    renamed = saved(server).personas["shortener"]
    assert "editor" not in saved(server).personas
    assert renamed.options == {"thinking": "high", "max_tokens": 800}
    server.add_replies("chatgpt", Say("Short."))
    page.goto(server.url)
    page.locator("body[data-ready]").wait_for()
    send(page, "@shortener a long text")
    expect(page.locator(".answer:not(.live) .body")).to_have_text("Short.")
    assert "Shorten." in json.dumps(server.simulator.requests[-1].body)
    page.goto(f"{server.url}/settings/personas/shortener")
    page.get_by_role("button", name="Remove").click()
    expect(page).to_have_url(f"{server.url}/settings/personas")
    assert "shortener" not in saved(server).personas


def test_groups_and_councils_are_edited(server: RunningServer, new_visitor: Callable[..., Visitor]):
    page = new_visitor().open("/settings/personas")
    page.get_by_text("New group").click()
    form = page.locator("details[open] form")
    form.locator("[name=name]").fill("review")
    form.get_by_role("checkbox", name="gemini").check()
    form.get_by_role("checkbox", name="sceptic").check()
    form.get_by_role("button", name="Add").click()
    expect(page.locator("summary", has_text="@review")).to_be_visible()
    assert saved(server).groups == {"review": ("gemini", "sceptic")}
    page.get_by_text("New council").click()
    form = page.locator("details[open] form")
    form.locator("[name=name]").fill("judges")
    form.get_by_role("checkbox", name="gemini").check()
    form.get_by_role("button", name="Add").click()
    expect(page.locator("#notices")).to_contain_text("needs two members")
    form.get_by_role("checkbox", name="claude").check()
    choose(page, "Chair", "claude")
    form.get_by_role("button", name="Add").click()
    expect(page.locator("summary", has_text="@council:judges")).to_contain_text("verdict by claude")
    assert saved(server).councils["judges"].members == ("gemini", "claude")
    page.locator("summary", has_text="@review").click()
    page.locator("details[open] form").get_by_role("button", name="Remove").click()
    expect(page.locator("summary", has_text="@review")).to_have_count(0)
    assert saved(server).groups == {}


def press_and_wait(page: Page, name: str) -> None:
    """Press a button whose request starts a process, and wait for the response."""
    with page.expect_response(lambda each: each.request.method == "POST", timeout=60_000):
        page.get_by_role("button", name=name).click()


def test_a_server_is_added_edited_tested_and_removed(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    entry = everyday(env={"TOKEN": "a-secret-token"})
    page = new_visitor().open("/settings/tools")
    page.locator("#server-json").fill(json.dumps({"mcpServers": {"daily": entry}}))
    page.get_by_role("button", name="Add and start").click()
    page.locator("body[data-ready]").wait_for()
    page.get_by_role("link", name="daily").click()
    expect(page.locator(".server-page h2 .badge")).to_have_text("connected")  # without a reload
    press_and_wait(page, "Restart and test")
    expect(page.locator("#notices")).to_contain_text("The server works. Tools: 12")
    expect(page.locator(".server-page h2 .badge")).to_have_text("connected")
    expect(page.locator(".log")).to_contain_text("ready")
    page.locator("#find-tool").fill("erase")
    expect(page.locator(".tools-of li:visible")).to_have_count(1)
    page.get_by_role("button", name="Edit").click()
    shown = page.locator("#edit-server textarea")
    assert "a-secret-token" not in page.content()
    shown.fill(shown.input_value().replace('"args"', '"disabledTools": ["erase"], "args"'))
    press_and_wait(page, "Save and restart")
    expect(page.locator(".server-page h2 .badge")).to_have_text("connected")
    kept = json.loads(server.hub.workspace.folders.servers_file.read_text(encoding="utf-8"))
    assert kept["mcpServers"]["daily"] == entry | {"disabledTools": ["erase"]}
    press_and_wait(page, "Restart and test")
    expect(page.locator("#notices")).to_contain_text("Tools: 11")
    page.get_by_role("button", name="More: daily").click()
    page.get_by_role("menuitem", name="Remove the server").click()
    page.get_by_role("button", name="OK").click()
    expect(page.get_by_role("link", name="daily")).to_have_count(0)
    assert server.tools.listing() == []


def test_approval_rules_are_set_for_a_tool_listed_and_removed(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    @server.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    del get_weather
    page = new_visitor().open("/settings/tools/~")
    choose(page, "Approval of get_weather", "Never")
    expect(page.locator(".rules")).to_contain_text("/get_weather")
    assert saved(server).tools.rules == {"/get_weather": "never"}
    assert server.tools.approval("get_weather") == "never"
    page.get_by_role("button", name="Remove: /get_weather").click()
    expect(page.locator(".rules")).to_have_count(0)
    assert server.tools.approval("get_weather") == "ask"


def test_settings_are_found_by_word_and_escape_leads_back_to_the_chat(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")
    server.add_replies("gemini", Say("Hello."))
    send(page, "@gemini hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    chat = page.url
    page.keyboard.press("Control+,")
    page.locator("#find-setting").fill("backup")
    expect(page.locator(".pages li:visible")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Chats & data")
    page.locator("body[data-ready]").wait_for()
    page.locator("#find-setting").fill("nonsense")
    expect(page.get_by_text("No setting has these words.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(chat)


def test_another_browser_is_signed_out(server: RunningServer, new_visitor: Callable[..., Visitor]):
    page = new_visitor().open("/settings/account")
    with server.signed_in_client(headers={"user-agent": "A stolen phone"}) as other:
        page.reload()
        listed = page.locator(".browsers li")
        expect(listed).to_have_count(2)
        stolen = listed.filter(has_text="A stolen phone")
        stolen.get_by_role("button", name="Sign out").click()
        expect(listed).to_have_count(1)
        expect(listed).to_contain_text("This browser")
        assert other.get("/").status_code == 401


PAGES = ("general", "appearance", "models", "personas?new", "tools", "usage", "data", "account")


def test_the_usage_page_sums_by_day_speaker_and_model(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/settings/usage")
    expect(page.locator("#page .empty")).to_contain_text("Nothing was spent")
    spend(server)
    page.reload()
    expect(page.locator(".sums dd")).to_have_text(["≥ $0.0204", "11,655", "72 %", "$0.0216"])
    expect(page.locator(".bars rect")).to_have_count(1)
    rows = page.locator("[aria-label='By speaker'] tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("claude")
    expect(rows.nth(0)).to_contain_text("$0.0216")
    expect(rows.nth(1).locator("td").first).to_have_text("≥ $0")
    models = page.locator("[aria-label='By model'] tbody th")
    expect(models).to_have_text(["claude-sonnet-4-5", "gone-1"])
    page.get_by_role("link", name="7 days").click()
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    page.locator(".bars summary").click()
    expect(page.locator(".bars tbody tr")).to_have_count(1)


def test_nothing_is_wider_than_a_phone(server: RunningServer, new_visitor: Callable[..., Visitor]):
    page = new_visitor().open()
    page.set_viewport_size({"width": 360, "height": 780})
    for path in PAGES:
        page.goto(f"{server.url}/settings/{path}")
        page.locator("body[data-ready]").wait_for()
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], path


ADMIN_ACTIONS = (
    ("/tools/rule", {"pattern": "*", "approval": "always"}),
    ("/tools/edit", {"server": "a", "text": "{}"}),
    ("/tools/remove", {"server": "a"}),
    ("/settings/persona", {"name": "a"}),
    ("/settings/group", {"kind": "groups", "name": "a"}),
    ("/settings/check", {"provider": "openai"}),
)


def test_pages_for_administrators_are_closed_to_others(tmp_path: Path):
    proxy = Proxy("x-user", ("127.0.0.1",), ("root",))
    with run_server(tmp_path, proxy=proxy) as server, httpx2.Client(base_url=server.url) as client:
        token = form_token(client.get("/", headers={"x-user": "anna"}).text)
        anna = {"x-user": "anna", "origin": server.url, "x-form-token": token}
        for path in ("models", "personas", "tools", "general"):
            assert client.get(f"/settings/{path}", headers=anna).status_code == 303
            assert client.get(f"/settings/{path}", headers={"x-user": "root"}).status_code == 200
        for path in ("appearance", "data", "account"):
            assert "/settings/models" not in client.get(f"/settings/{path}", headers=anna).text
        for path, body in ADMIN_ACTIONS:
            refused = client.post(path, json=body, headers=anna)
            assert refused.status_code == 400
            assert "administrator" in refused.json()["error"]
