"""Tools that ask before they run, in a real browser."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_idle, send
from tests.web.server_process import RunningServer

from multi_llm_chat.testing.simulator import Call, Say


def offer_weather(server: RunningServer) -> list[str]:
    asked: list[str] = []

    @server.tools.tool(approval="ask")
    def get_weather(city: str, days: int = 1) -> str:
        """The weather."""
        asked.append(city)
        return f"sunny for {days} days"

    del get_weather
    return asked


def ask_for_weather(server: RunningServer, page: Page) -> tuple[list[str], Locator]:
    """Ask for the weather in Paris; return the cities that the tool gets, and its card, which waits for approval."""
    asked = offer_weather(server)
    call = Call("get_weather", {"city": "Paris", "days": 3})
    server.add_replies("gemini", Say("Let me see.", calls=[call]), Say("It is sunny."))
    send(page, "@gemini weather?")
    return asked, page.locator(".tool.waiting")


def test_a_tool_runs_when_it_is_allowed(server: RunningServer, page: Page):
    asked, card = ask_for_weather(server, page)
    expect(card.locator(".asked")).to_have_text("Get weather?")
    expect(card.locator(".values > div").nth(0)).to_have_text("cityParis")
    assert asked == []
    card.get_by_text("Allow once").click()
    expect(page.locator(".tool.done .result pre")).to_have_text("sunny for 3 days")
    expect(page.locator(".answer:not(.live) .body")).to_contain_text("It is sunny.")
    page.reload()
    expect(page.locator(".tool.done .result pre")).to_have_text("sunny for 3 days")
    assert asked == ["Paris"]


def test_changed_arguments_run_and_the_card_shows_the_change(server: RunningServer, page: Page):
    asked, card = ask_for_weather(server, page)
    field = card.get_by_role("textbox", name="Arguments as JSON")
    allow = card.get_by_role("button", name="Allow once")
    card.get_by_role("button", name="Edit").click()
    expect(field).to_be_focused()
    expect(field).to_have_value('{\n  "city": "Paris",\n  "days": 3\n}')
    expect(card.locator(".values")).to_be_hidden()
    # Arguments that are not JSON, or do not match the schema, show an error in the card, and nothing runs.
    for wrong, problem in (
        ("{", "not JSON"),
        ('{"city": 7}', "7 is not of type"),
        ("[]", "object"),
    ):
        field.fill(wrong)
        allow.click()
        expect(card.locator(".problem")).to_contain_text(problem)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(allow).to_be_enabled()
    assert asked == []
    # Closing the editor discards the change.
    card.get_by_role("button", name="Cancel").click()
    expect(field).to_be_hidden()
    expect(card.locator(".problem")).to_be_hidden()
    expect(card.locator(".values > div").nth(0)).to_have_text("cityParis")
    card.get_by_role("button", name="Edit").click()
    field.fill('{"city": "Rome", "days": 5}')
    allow.click()
    for is_reloaded in (False, True):
        if is_reloaded:
            page.reload()
        done = page.locator(".tool.done")
        expect(done.locator("summary").first).to_contain_text("Changed by you")
        done.locator("summary").first.click()
        expect(done.locator(".changed del")).to_have_text(["Before: Paris", "Before: 3"])
        expect(done.locator(".changed ins")).to_have_text(["After: Rome", "After: 5"])
        expect(done.locator(".result pre")).to_have_text("sunny for 5 days")
        expect(page.locator(".answer .body").first).to_contain_text("It is sunny.")
    assert asked == ["Rome"]
    sent = json.dumps(server.simulator.requests[-1].body)
    assert "The user changed the arguments of this call" in sent
    assert "Paris" in sent  # the call in the history is what the model wrote


@pytest.mark.judge
def test_a_tool_that_is_denied_does_not_run(server: RunningServer, page: Page):
    asked = offer_weather(server)
    server.add_replies(
        "claude", Say(calls=[Call("get_weather", {"city": "Rome"})]), Say("As you like.")
    )
    send(page, "@claude weather?")
    page.locator(".tool.waiting").wait_for()
    page.reload()
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".tool.failed .result")).to_contain_text("denied")
    expect(page.locator(".answer:not(.live) .body")).to_contain_text("As you like.")
    assert asked == []


@pytest.mark.judge
def test_an_approval_for_this_chat_does_not_hold_in_another_chat(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    asked = offer_weather(server)
    visitor = new_visitor()
    call = Say(calls=[Call("get_weather", {"city": "Oslo"})])
    server.add_replies("gemini", call, Say("One."), call, Say("Two."), call, Say("Three."))
    page = visitor.open("/")
    send(page, "@gemini weather?")
    page.get_by_role("button", name="In this chat").click()
    expect(page.locator(".answer .body").last).to_contain_text("One.")
    send(page, "@gemini again?")
    expect(page.locator(".answer .body").last).to_contain_text("Two.")
    other = visitor.open("/")
    send(other, "@gemini weather?")
    other.get_by_role("button", name="Allow once").click()
    expect(other.locator(".answer .body").last).to_contain_text("Three.")
    assert asked == ["Oslo"] * 3


@pytest.mark.judge
def test_a_tool_that_is_always_allowed_asks_in_no_chat(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    asked = offer_weather(server)
    visitor = new_visitor()
    call = Say(calls=[Call("get_weather", {"city": "Oslo"})])
    server.add_replies("gemini", call, Say("One."), call, Say("Two."))
    page = visitor.open("/")
    send(page, "@gemini weather?")
    page.get_by_role("button", name="Always for this tool").click()
    expect(page.locator(".answer .body").last).to_contain_text("One.")
    other = visitor.open("/")
    send(other, "@gemini weather?")
    expect(other.locator(".answer .body").last).to_contain_text("Two.")
    assert asked == ["Oslo"] * 2
    kept = server.hub.workspace.folders.config_file.read_text(encoding="utf-8")
    assert '"/get_weather" = "always"' in kept


@pytest.mark.judge
def test_a_stopped_answer_waits_for_no_approval(server: RunningServer, page: Page):
    asked = offer_weather(server)
    server.add_replies("gemini", Say(calls=[Call("get_weather", {"city": "Oslo"})]))
    send(page, "@gemini weather?")
    page.locator(".tool.waiting").wait_for()
    page.keyboard.press("Escape")
    expect_idle(page)
    expect(page.locator(".tool.waiting")).to_have_count(0)
    assert asked == []


@pytest.mark.judge
def test_a_disabled_tool_is_not_offered(server: RunningServer, page: Page):
    offer_weather(server)
    page.reload()
    page.get_by_role("button", name="Tools").click()
    page.locator("#tools").get_by_label("get_weather").click(force=True)
    expect(page.locator("#tools .status")).to_have_text("0 / 1")
    page.keyboard.press("Escape")
    server.add_replies("gemini", Say("I have none."))
    send(page, "@gemini weather?")
    expect(page.locator(".answer .body")).to_have_text("I have none.")
    assert "tools" not in server.simulator.requests[-1].body
