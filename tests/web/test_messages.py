"""Deleting messages and answers, stopped and failed answers, and waits, in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_answers, expect_idle, send
from tests.web.server_process import RunningServer

from multi_llm_chat.testing.simulator import Gate, Say, Status


def test_a_message_is_deleted_with_its_answers_and_comes_back(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    server.add_replies("gemini", Say("One."), Say("Two."), Say("Three."), Say("Four."))
    for number, text in enumerate(("first", "second", "third"), 1):
        send(page, f"@gemini {text}")
        expect(page.locator(".answer:not(.live)")).to_have_count(number)
    other = visitor.open(page.url.removeprefix(server.url))
    page.bring_to_front()
    page.locator(".message").nth(1).hover()
    page.locator(".message").nth(1).get_by_role("button", name="Delete with its answers").click()
    for each in (page, other):
        expect(each.locator(".answer")).to_have_count(2)
    expect_answers(page, "One.", "Three.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".answer")).to_have_count(3)
    expect_answers(other, "One.", "Two.", "Three.")
    page.locator(".message").nth(2).hover()
    page.locator(".message").nth(2).get_by_role("button", name="Delete with its answers").click()
    expect(page.locator(".answer")).to_have_count(2)
    # Deleted messages are not sent.
    send(page, "@gemini fourth")
    expect(page.locator(".answer:not(.live)")).to_have_count(3)
    assert "third" not in str(server.simulator.requests[-1].body)


def test_one_answer_is_deleted_and_the_others_stay(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("From gemini."))
    server.add_replies("claude", Say("From claude."), Say("Again."))
    send(page, "@gemini @claude hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    page.get_by_role("button", name="More: gemini").click()
    page.get_by_role("menuitem", name="Delete this answer").click()
    expect(page.locator(".answer")).to_have_count(1)
    expect_answers(page, "From claude.")
    send(page, "@claude and now?")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    assert "From gemini." not in str(server.simulator.requests[-1].body)


def test_the_only_message_is_deleted(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("One."))
    send(page, "@gemini first")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    page.locator(".message").hover()
    page.get_by_role("button", name="Delete with its answers").click()
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".message")).to_have_count(1)


#: The cost of a stopped answer: Claude counts its input at the start, Gemini both with every chunk, OpenAI nothing until the end.
STOPPED = {
    "claude": (r"^about \$0\.\d+ · <?[\d.]+ s$", r"^\d+ in · about \d+ out$"),
    "gemini": (r"^(about )?<?\$0\.\d+ · <?[\d.]+ s$", r"^\d+ in · (about )?\d+ out$"),
    "chatgpt": (r"^about \d+ out · <?[\d.]+ s$", ""),
}


@pytest.mark.parametrize("speaker", STOPPED)
def test_a_stopped_answer_shows_what_was_counted_and_no_zeros(
    server: RunningServer, page: Page, speaker: str
):
    shown, details = STOPPED[speaker]
    gate = Gate(12)
    text = "One two three four five six seven eight nine ten eleven twelve."
    server.add_replies(speaker, Say(text, delta_size=4, faults=[gate]))
    send(page, f"@{speaker} count")
    page.locator(".answer.live .words", has_text="One two").wait_for()
    page.get_by_role("button", name=f"Stop {speaker}").click()
    spent = page.locator(".answer:not(.live) .spent")
    for is_reloaded in (False, True):
        if is_reloaded:
            gate.open()
            page.reload()
        expect(spent).to_have_text(re.compile(shown))
        if details:
            expect(spent).to_have_attribute("title", re.compile(details))


def test_a_failed_answer_says_what_to_do(server: RunningServer, page: Page):
    server.add_replies("gemini", Status(401), Say("Now it works."))
    send(page, "@gemini hi")
    failure = page.locator(".failure")
    expect(failure).to_contain_text("gemini refused the key. Set another key")
    failure.get_by_role("button", name="Models & keys").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models & keys")
    page.keyboard.press("Escape")
    page.locator(".failure").get_by_role("button", name="Try again").click()
    expect(page.locator(".answer:not(.live) .body")).to_have_text("Now it works.")


def test_what_is_done_before_the_scripts_have_loaded_is_done_then(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    server.add_replies("gemini", Say("One."), Say("Two."))
    held: list[Route] = []
    page = new_visitor().open()
    page.route("**/assets/main.js", lambda route: held.append(route))
    with page.expect_request("**/assets/main.js"):
        page.goto(server.url + "/", wait_until="commit")
    send(page, "@gemini hi")
    expect(page.locator("#text")).to_have_value("@gemini hi")
    held.pop().continue_()
    expect(page.locator(".answer:not(.live) .body")).to_have_text("One.")

    with page.expect_request("**/assets/main.js"):
        page.goto(page.url, wait_until="commit")
    page.locator(".answer").hover()
    page.get_by_role("button", name="Answer again").click()
    expect(page.locator(".answer:not(.live) .body")).to_have_text("One.")
    held.pop().continue_()
    expect(page.locator(".answer:not(.live) .body")).to_have_text("Two.")


def test_a_setting_that_is_searched_before_the_scripts_have_loaded_is_found_then(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    held: list[Route] = []
    page = new_visitor().open()
    page.route("**/assets/settings.js", lambda route: held.append(route))
    with page.expect_request("**/assets/settings.js"):
        page.goto(server.url + "/settings", wait_until="commit")
    page.locator("#find-setting").fill("theme")
    page.locator("#find-setting").press("Enter")
    held.pop().continue_()
    expect(page.locator("h1")).to_have_text("Appearance")


def test_a_rejected_request_offers_another_model(server: RunningServer, page: Page):
    server.add_replies("claude", Status(413, "prompt is too long"), Say("Fits."))
    send(page, "@claude hi")
    page.locator(".failure").get_by_role("button", name="Other model").click()
    expect(page.locator("#picker")).to_be_visible()
    expect(page.locator(".model-row")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#picker")).to_be_hidden()


def test_a_wait_for_the_provider_counts_down_and_can_be_stopped(server: RunningServer, page: Page):
    busy = Status(429, headers={"retry-after": "40"})
    server.add_replies("claude", busy, Say("At last."))
    send(page, "@claude hi")
    wait = page.locator(".answer.live .note.wait")
    expect(wait).to_have_text(re.compile(r"busy at the provider, tries again in (40|3\d) s"))
    page.reload()  # a page that is opened later shows it too
    expect(wait).to_have_text(re.compile(r"tries again in \d+ s"))
    page.get_by_role("button", name="Stop claude").click()
    expect_idle(page)


def test_the_note_of_a_wait_goes_when_the_answer_comes(server: RunningServer, page: Page):
    busy = Status(429, headers={"retry-after": "1"})
    gate = Gate(4)
    server.add_replies("claude", busy, Say("At last, an answer.", delta_size=2, faults=[gate]))
    send(page, "@claude hi")
    page.locator(".answer.live .note.wait").wait_for()
    page.locator(".answer.live .words").wait_for()
    expect(page.locator(".note.wait")).to_have_count(0)
    gate.open()
    expect(page.locator(".answer:not(.live) .body")).to_have_text("At last, an answer.")
