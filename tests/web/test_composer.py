"""The composer and the outbox in a real browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_answers, expect_idle, send
from tests.web.server_process import RunningServer

from multi_llm_chat.testing.simulator import Gate, Say


def expect_chosen(page: Page, *names: str) -> None:
    """Wait until these speakers are the addressees."""
    expect(page.locator(".people .chip[aria-pressed=true]")).to_have_text(list(names))


def test_a_plain_message_goes_to_the_addressees_that_the_chat_remembers(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    expect_chosen(page, "gemini")
    page.get_by_role("button", name="claude", exact=True).click()
    server.add_replies("gemini", Say("Hello."), Say("Again."))
    server.add_replies("claude", Say("Good day."), Say("Once more."))
    send(page, "hello")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    expect_answers(page, "Hello.", "Good day.")
    other = visitor.open(page.url.removeprefix(server.url))
    expect_chosen(other, "gemini", "claude")
    send(other, "hello again")
    expect(other.locator(".answer:not(.live)")).to_have_count(4)
    expect_answers(other, "Hello.", "Good day.", "Again.", "Once more.")
    # A new chat begins with the addressees of the last one.
    expect_chosen(visitor.open("/"), "gemini", "claude")


def test_a_mention_sets_the_chips_and_at_least_one_stays(server: RunningServer, page: Page):
    page.locator("#text").press_sequentially("@chatgpt ")
    expect_chosen(page, "chatgpt")
    expect(page.locator("#text")).to_have_attribute("placeholder", "Ask chatgpt…")
    page.locator(".chip", has_text="chatgpt").click()
    expect(page.locator("#notices")).to_contain_text("At least one speaker")
    expect_chosen(page, "chatgpt")
    page.locator("#text").fill("@all hi")
    expect_chosen(page, "gemini", "chatgpt", "claude")


def test_a_memo_is_saved_without_an_answer(server: RunningServer, page: Page):
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="Memo").click()
    send(page, "remember the milk")
    expect(page.locator(".message .badge")).to_have_text("memo")
    expect_idle(page)
    # The choice was for one message.
    expect_chosen(page, "gemini")
    expect(page.locator(".chip.memo")).to_be_hidden()
    assert len(server.simulator.requests) == 0


def test_a_draft_survives_a_reload(server: RunningServer, page: Page):
    page.locator("#text").fill("half a thou")
    page.reload()
    expect(page.locator("#text")).to_have_value("half a thou")


def test_the_page_works_by_keyboard(server: RunningServer, page: Page):
    server.add_replies("chatgpt", Say("Typed."))
    page.keyboard.type("@ch")
    expect(page.locator("#menu [aria-selected=true]")).to_contain_text("@chatgpt")
    page.keyboard.press("Tab")
    page.keyboard.type("hello")
    page.keyboard.press("Enter")
    expect(page.locator(".answer:not(.live) .body")).to_have_text("Typed.")
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator(".answer")).to_be_focused()
    page.keyboard.press("Control+j")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+Shift+F")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("new chat")
    page.keyboard.press("Enter")
    expect(page.locator("#welcome")).to_be_visible()


def test_a_slash_offers_commands(server: RunningServer, page: Page):
    page.keyboard.type("/se")
    expect(page.locator("#menu li")).to_have_count(2)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Models & keys")).to_be_visible()
    page.locator("body[data-ready]").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("#composer")).to_be_visible()


@pytest.mark.judge
def test_the_page_follows_the_system_colours(server: RunningServer, page: Page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colour = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        first = int(re.findall(r"\d+", colour)[0])
        assert (first < 60) == (scheme == "dark")


@pytest.mark.judge
def test_high_contrast_is_chosen_or_asked_for_by_the_system(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    def ground(page: Page) -> str:
        return page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")

    black = "rgb(0, 0, 0)"
    page = new_visitor().open("/")
    assert ground(page) != black
    page.emulate_media(contrast="more")
    assert ground(page) == black
    page.emulate_media(contrast="no-preference")
    page.locator("#sidebar [data-action=main-menu]").click()
    page.get_by_role("menuitemcheckbox", name="High contrast").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "contrast")
    assert ground(page) == black
    page.reload()
    assert ground(page) == black


def test_on_a_phone_each_answer_has_a_tab_and_nothing_is_wider_than_the_screen(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("gemini", "claude"):
        server.add_replies(
            name, Say(f"{name} says `{'long' * 40}`\n\n| a | b |\n|-|-|\n| {'x' * 90} | y |\n")
        )
    send(page, "@gemini @claude hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    for name, other in (("claude", "gemini"), ("gemini", "claude")):
        page.get_by_role("tab", name=name).click()
        expect(page.locator(f".answer[data-speaker={name}]")).to_be_visible()
        expect(page.locator(f".answer[data-speaker={other}]")).to_be_hidden()
        box = page.locator(f".answer[data-speaker={name}]").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="claude")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    expect(page.locator("#sidebar")).not_to_be_visible()
    page.locator(".top").get_by_role("button", name="Conversations").click()
    expect(page.locator("#sidebar")).to_be_visible()


@pytest.mark.judge
def test_the_page_is_in_the_language_of_the_reader(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor(locale="ja-JP").open("/")
    expect(page.locator(".new")).to_contain_text("新しいチャット")
    page.keyboard.press("Control+,")
    page.get_by_role("link", name="外観").click()
    page.locator("body[data-ready]").wait_for()
    page.get_by_role("combobox", name="言語").click()
    page.get_by_role("option", name="Italiano").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Aspetto")
    page.get_by_role("link", name="Torna alla chat").click()
    expect(page.locator(".new")).to_contain_text("Nuova chat")


@pytest.mark.judge
def test_settings_changed_during_an_answer_apply_to_the_next_message(
    server: RunningServer, page: Page
):
    gate = Gate(4)
    server.add_replies("gemini", Say("One two three four.", delta_size=2, faults=[gate]))
    server.add_replies("chatgpt", Say("Default."))
    send(page, "@gemini count")
    page.locator(".answer.live .words").wait_for()
    page.keyboard.press("Control+,")
    page.get_by_role("link", name="General").click()
    page.locator("body[data-ready]").wait_for()
    page.get_by_role("combobox").click()
    page.get_by_role("option", name="chatgpt").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("Saved.")
    page.keyboard.press("Escape")
    page.locator("#composer").wait_for()
    page.locator("body[data-ready]").wait_for()
    gate.open()
    expect_answers(page, "One two three four.")
    # A chat without stored addressees begins with the default speaker.
    page.locator(".entry.current").hover()
    page.locator(".entry.current").get_by_role("button").click()
    with page.expect_navigation():
        page.get_by_role("menuitem", name="Delete").click()
    page.locator("body[data-ready]").wait_for()
    expect(page.locator("#welcome")).to_be_visible()
    send(page, "without a name")
    expect(page.locator(".answer .body").last).to_have_text("Default.")


def test_a_message_sent_during_an_answer_waits(server: RunningServer, page: Page):
    gate = Gate(4)
    server.add_replies("gemini", Say("One.", delta_size=1, faults=[gate]), Say("Two."))
    send(page, "@gemini first")
    page.locator(".answer.live .words").wait_for()
    send(page, "@gemini second")
    expect(page.locator(".queued")).to_contain_text("Waits until the answers are complete")
    expect(page.locator(".message")).to_have_count(1)
    gate.open()
    expect(page.locator(".answer .body").last).to_have_text("Two.")
    expect_answers(page, "One.", "Two.")
    expect(page.locator(".queued")).to_have_count(0)


def test_a_waiting_message_is_edited_withdrawn_and_sent_now(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    gate = Gate(4)
    server.add_replies("gemini", Say("One.", delta_size=1, faults=[gate]), Say("Two."))
    send(page, "@gemini first")
    page.locator(".answer.live .words").wait_for()
    send(page, "@gemini second")
    send(page, "@gemini third")
    expect(page.locator(".queued")).to_have_count(2)
    other = visitor.open(page.url.removeprefix(server.url))
    expect(other.locator(".queued")).to_have_count(2)
    page.bring_to_front()
    page.locator(".queued").nth(0).get_by_role("button", name="Withdraw").click()
    expect(other.locator(".queued .words")).to_have_text(["@gemini third"])
    expect(page.locator(".queued")).to_have_count(1)
    page.locator(".queued").get_by_role("button", name="Edit").click()
    page.locator(".queued textarea").fill("@gemini third, better")
    page.locator(".queued textarea").press("Enter")
    expect(other.locator(".queued .words")).to_have_text("@gemini third, better")
    page.get_by_role("button", name="Send now").click()
    expect(page.locator(".message").nth(1)).to_contain_text("third, better")
    expect(page.locator(".answer .body").nth(1)).to_have_text("Two.")
    expect(page.locator(".answer").first.locator(".badge").last).to_have_text("stopped")
    expect(other.locator(".queued")).to_have_count(0)


@pytest.mark.judge
def test_a_waiting_message_is_sent_as_it_was_edited_last(server: RunningServer, page: Page):
    gate = Gate(4)
    server.add_replies("gemini", Say("One.", delta_size=1, faults=[gate]), Say("Two."))
    send(page, "@gemini first")
    page.locator(".answer.live .words").wait_for()
    send(page, "@gemini second")
    page.locator(".queued").get_by_role("button", name="Edit").click()
    page.locator(".queued textarea").fill("@gemini another second")
    page.locator(".queued textarea").press("Enter")
    expect(page.locator(".queued .words")).to_have_text("@gemini another second")
    gate.open()
    expect(page.locator(".message").nth(1)).to_contain_text("another second")


def test_a_mention_with_a_typing_error_is_proposed_right(server: RunningServer, page: Page):
    text = page.locator("#text")
    text.press_sequentially("@cluade")
    expect(page.locator("#proposal")).to_be_hidden()  # it may not be complete
    text.press_sequentially(" hi @param x, me@example.org")
    expect(page.locator("#proposal")).to_contain_text(
        "No speaker is called cluade. Did you mean @claude"
    )
    page.get_by_role("button", name="@claude").click()
    expect(text).to_have_value("@claude hi @param x, me@example.org")
    expect(text).to_be_focused()
    expect(page.locator("#proposal")).to_be_hidden()
    expect(page.locator(".people [aria-pressed=true]")).to_have_text([re.compile("claude")])
