"""MCP servers in the page: adding them, their tools, their forms and their errors."""

import json
import re

import pytest
from playwright.sync_api import Page, expect
from tests.tools.conftest import everyday
from tests.web.server_process import RunningServer

from multi_llm_chat.testing.simulator import Call, Say


def paste(page: Page, text: str) -> None:
    page.get_by_role("button", name="Tools").click()
    page.locator("#tools").get_by_text("Add a server", exact=True).click()
    page.locator("#tools textarea").fill(text)
    page.locator("#tools").get_by_role("button", name="Add", exact=True).click()


def test_a_pasted_server_is_started_saved_and_shows_its_form(server: RunningServer, page: Page):
    entry = everyday()
    paste(page, json.dumps({"mcpServers": {"daily": entry}}))
    expect(page.locator("#tools .server", has_text="daily")).to_contain_text("paint")
    kept = json.loads(server.hub.workspace.folders.servers_file.read_text(encoding="utf-8"))
    assert kept == {"mcpServers": {"daily": entry}}

    page.keyboard.press("Escape")
    server.add_replies("gemini", Say(calls=[Call("paint", {})]), Say("It is done."))
    page.locator("#text").fill("@gemini paint it")
    page.keyboard.press("Enter")
    question = page.locator(".tool.asks .question")  # in the card of the call
    expect(question).to_contain_text("Which colour?")
    page.reload()
    question.locator("input").fill("green")
    question.get_by_role("button", name="Send").click()
    expect(page.locator(".tool.done .result")).to_contain_text("painted it green")
    expect(question).to_have_count(0)

    page.locator("#text").fill("/greet")
    expect(page.locator("#menu li")).to_contain_text("/greet")


@pytest.mark.judge
def test_a_server_that_cannot_start_is_reported(server: RunningServer, page: Page):
    paste(page, '{"mcpServers": {"broken": {"command": "/nonexistent/program"}}}')
    expect(page.locator("#tools .status")).to_have_text(re.compile("restarting|failed"))
    expect(page.locator("#tools .note")).to_contain_text("/nonexistent/program")


@pytest.mark.judge
def test_an_invalid_server_is_refused(server: RunningServer, page: Page):
    paste(page, '{"mcpServers": {"odd": {}}}')
    expect(page.locator("#notices")).to_contain_text("odd")
    assert not server.hub.workspace.folders.servers_file.exists()
