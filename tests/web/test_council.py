"""The verdict of a council in a real browser: members in short, links to their paragraphs, contradictions to settle."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.web.page_actions import send
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.testing.simulator import Say

CONFIG = '[councils.main]\nmembers = ["gemini", "chatgpt"]\nchair = "claude"\n\n[personas.poet]\nspeaker = "claude"\n\n'
LONG = "\n\n".join(
    f"**Paragraph {number}** of a long answer. {'Words. ' * 40}"
    for number in ["one", "two", "three", "four", "five"]
)
VERDICT = {
    "answer": "**Tea** wins.",
    "claims": [
        {"claim": "Tea is warm", "agree": ["gemini:4", "chatgpt:1"], "contradict": []},
        {"claim": "Tea is cheap", "agree": ["gemini:1"], "contradict": ["chatgpt:1"]},
    ],
}  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Generator[RunningServer]:
    with run_server(tmp_path, config=CONFIG) as opened:
        yield opened


def test_a_verdict_leads_to_the_paragraphs_and_to_a_question_about_the_contradiction(
    server: RunningServer, page: Page
):
    server.add_replies("gemini", Say(LONG))
    server.add_replies("chatgpt", Say("Short."))
    server.add_replies("claude", Say(json.dumps(VERDICT)))
    page.locator("#text").press_sequentially("@council:main ")
    expect(page.locator(".people [aria-pressed=true]")).to_have_text(["council:main"])
    send(page, "@council:main Tea?")
    verdict = page.locator(".answer.verdict")
    expect(verdict.locator("table tbody tr")).to_have_count(2)
    member = page.locator(".answer[data-speaker=gemini]")
    for _ in range(2):  # the same after a reload
        expect(verdict.locator(".contradiction")).to_contain_text(["Tea is cheap"])
        short = member.locator(".body").bounding_box()
        assert short is not None
        assert short["height"] < 100
        page.reload()
        page.locator("body[data-ready]").wait_for()
    verdict.get_by_role("button", name="Paragraph 4 of gemini").click()
    expect(member).to_have_class(re.compile("opened"))
    expect(member.locator("p.flash")).to_contain_text("Paragraph four")
    expect(member.locator("p.flash")).to_be_in_viewport()
    member.get_by_role("button", name="Use the whole width gemini").click()
    expect(member).not_to_have_class(re.compile("opened"))
    source = page.request.get(
        f"{page.url.partition('#')[0]}/source?turn={verdict.get_attribute('data-turn')}"
    )
    assert "| Tea is warm | gemini ¶4, chatgpt ¶1 | – |" in source.json()["text"]
    verdict.get_by_role("button", name="Let them settle the contradiction").click()
    expect(page.locator("#text")).to_have_value(re.compile("Tea is cheap"))
    expect(page.locator(".people [aria-pressed=true]")).to_have_text([re.compile("gemini"), re.compile("chatgpt")])  # fmt: skip


def test_a_council_on_a_phone_has_a_tab_for_the_verdict(server: RunningServer, page: Page):
    server.add_replies("gemini", Say(LONG))
    server.add_replies("chatgpt", Say("Short."))
    server.add_replies("claude", Say(json.dumps(VERDICT)))
    page.set_viewport_size({"width": 390, "height": 844})
    send(page, "@council:main Tea?")
    page.get_by_role("tab", name="Verdict").click()
    verdict = page.locator(".answer.verdict")
    expect(verdict).to_contain_text("Tea wins.")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    verdict.get_by_role("button", name="Paragraph 4 of gemini").click()
    expect(page.locator("p.flash")).to_be_in_viewport()


def test_personas_and_councils_are_in_the_menu_until_they_are_addressed(
    server: RunningServer, page: Page
):
    """Many chips would hide the speakers that a chat uses."""
    expect(page.locator(".people .chip:visible")).to_have_count(3)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="poet").click()
    expect(page.locator(".people .chip:visible")).to_have_count(4)
    page.locator("#text").press_sequentially("@council:main ")
    expect(page.locator(".people [aria-pressed=true]:visible")).to_have_text(["council:main"])
