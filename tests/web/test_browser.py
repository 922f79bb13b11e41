"""The page in a real browser, as users work with it."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, FilePayload, Page, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_answers, expect_idle, send
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.history.values import Media
from multi_llm_chat.testing.simulator import Call, Gate, Say, Status
from multi_llm_chat.tools.tool import ToolOutput
from multi_llm_chat.web.exchange_groups import TURNS_PER_PAGE

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc00000030101"
    "00c9fe92ef0000000049454e44ae426082"
)
WORDS = " ".join(f"word{number}" for number in range(120))


def test_a_message_is_answered_in_markdown(server: RunningServer, page: Page):
    server.add_replies(
        "gemini", Say("# Title\n\nA **bold** word, `code` and $x^2$.\n\n```python\nx = 1\n```\n")
    )
    send(page, "@gemini hello")
    answer = page.locator(".answer:not(.live)")
    expect(answer.locator("h1")).to_have_text("Title")
    expect(answer.locator("strong").nth(1)).to_have_text("bold")
    expect(answer.locator("math msup")).to_have_count(1)
    expect(answer.locator("pre code .n")).to_have_text("x")
    expect(answer.locator(".spent")).to_have_text(re.compile(r"\$0\.\d+ · <?\d+\.\d s"))
    expect(answer.locator(".spent")).to_have_attribute("title", re.compile(r"\d+ in · \d+ out"))
    expect(page.locator(".entry.current")).to_have_text("hello")
    expect(page).to_have_url(re.compile("/c/"))


def test_the_link_of_the_terminal_signs_in(server: RunningServer, browser: Browser):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(server.link())
        expect(page).to_have_url(f"{server.url}/")
        expect(page.locator("#welcome")).to_be_visible()
        context.clear_cookies()
        page.reload()
        expect(page.get_by_text("open the link that mlc serve printed")).to_be_visible()


def test_the_password_signs_in(tmp_path: Path, browser: Browser):
    quick = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("correct horse")
    with run_server(tmp_path, password_hash=quick) as locked, browser.new_context() as context:
        page = context.new_page()
        page.goto(locked.url)
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("That is not the password.")
        page.get_by_label("Password").fill("correct horse")
        page.keyboard.press("Enter")
        expect(page.locator("#welcome")).to_be_visible()


def test_all_answer_side_by_side(server: RunningServer, page: Page):
    for name in ("gemini", "chatgpt", "claude"):
        server.add_replies(name, Say(f"I am {name}."))
    send(page, "@all who are you?")
    expect(page.locator(".answer:not(.live)")).to_have_count(3)
    boxes = [box for each in page.locator(".answer").all() if (box := each.bounding_box())]
    assert len({round(box["y"]) for box in boxes}) == 1
    assert len({round(box["x"]) for box in boxes}) == 3
    for name in ("gemini", "chatgpt", "claude"):
        body = page.locator(f".answer[data-speaker={name}] .body")
        expect(body).to_have_text(f"I am {name}.")


@pytest.mark.judge
def test_a_failed_speaker_does_not_stop_the_others_and_can_be_retried(
    server: RunningServer, page: Page
):
    server.add_replies("gemini", Say("Fine."), Say("Now fine."))
    server.add_replies("claude", Status(401, "invalid x-api-key"), Say("Here I am."))
    send(page, "@gemini @claude hello")
    expect(page.locator(".failure")).to_contain_text("refused the key")
    expect(page.locator(".answer")).to_have_count(2)
    page.reload()
    expect(page.locator(".failure")).to_contain_text("refused the key")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".answer .body").get_by_text("Here I am.")).to_be_visible()
    expect(page.locator(".failure")).to_have_count(0)
    expect_answers(page, "Fine.", "Here I am.")


def test_text_streams_and_a_reload_loses_nothing(server: RunningServer, page: Page):
    first, second = Gate(6), Gate(12)
    server.add_replies("claude", Say(WORDS, delta_size=40, faults=[first, second]))
    send(page, "@claude count")
    expect(page.locator(".answer.live .words")).to_contain_text("word9")
    page.reload()
    expect(page.locator(".answer.live .words")).to_contain_text("word9")
    first.open()
    expect(page.locator(".answer.live .words")).to_contain_text("word40")
    page.reload()
    second.open()
    expect_answers(page, WORDS)


@pytest.mark.judge
def test_two_pages_and_another_browser_show_the_same(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    one, other = new_visitor(), new_visitor()
    page = one.open("/")
    gate = Gate(8)
    server.add_replies("gemini", Say(WORDS, delta_size=40, faults=[gate]))
    send(page, "@gemini count")
    page.locator(".answer.live .words").wait_for()
    path = page.url.removeprefix(server.url)
    second, third = one.open(path), other.open(path)
    gate.open()
    for each in (page, second, third):
        expect_answers(each, WORDS)
    server.add_replies("gemini", Say("Again."))
    send(third, "@gemini once more")
    for each in (page, second, third):
        expect(each.locator(".answer .body").last).to_have_text("Again.")


def test_escape_stops_the_answer_and_closes_the_connection(server: RunningServer, page: Page):
    gate = Gate(8)
    server.add_replies("chatgpt", Say(WORDS, delta_size=40, faults=[gate]))
    send(page, "@chatgpt count")
    expect(page.locator(".answer.live .words")).to_contain_text("word3")
    page.keyboard.press("Escape")
    expect(page.locator(".answer .note")).to_have_text("Stopped. What was written is kept.")
    server.simulator.requests[-1].disconnected.wait()
    expect(page.locator(".answer:not(.live) .body")).to_have_text(re.compile(r"^\s*word0 word1 "))


def test_an_edited_message_is_another_branch(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("About cats."), Say("About dogs."))
    send(page, "@gemini cats?")
    expect(page.locator(".answer .body")).to_have_text("About cats.")
    page.locator(".message").hover()
    page.get_by_role("button", name="Edit", exact=True).click()
    field = page.locator(".message textarea")
    expect(field).to_have_value("@gemini cats?")
    field.fill("@gemini dogs?")
    field.press("Enter")
    expect(page.locator(".answer .body")).to_have_text("About dogs.")
    expect(page.locator(".message .switch span")).to_have_text("2 / 2")
    page.get_by_role("button", name="Earlier branch").first.click()
    expect(page.locator(".answer .body")).to_have_text("About cats.")
    expect(page.locator(".message .switch span")).to_have_text("1 / 2")


def test_an_answer_is_regenerated_and_the_old_one_stays(server: RunningServer, page: Page):
    server.add_replies("claude", Say("First try."), Say("Second try."))
    send(page, "@claude poem")
    expect(page.locator(".answer .body")).to_have_text("First try.")
    page.get_by_role("button", name="Answer again").click()
    expect(page.locator(".answer .body")).to_have_text("Second try.")
    expect_idle(page)
    page.reload()
    page.locator(".answer").get_by_role("button", name="Earlier branch").click()
    expect(page.locator(".answer .body")).to_have_text("First try.")


@pytest.mark.judge
def test_a_conversation_continues_from_an_earlier_answer(server: RunningServer, page: Page):
    server.add_replies("claude", Say("One."), Say("Two."), Say("Another two."))
    send(page, "@claude first")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    send(page, "@claude second")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    page.get_by_role("button", name="Continue from here").first.click()
    expect(page.locator(".exchange")).to_have_count(1)
    send(page, "@claude something else")
    expect(page.locator(".answer .body").last).to_have_text("Another two.")
    expect_idle(page)
    page.reload()
    expect(page.locator(".message .switch span")).to_have_text("2 / 2")


@pytest.mark.judge
def test_a_command_lets_the_last_speaker_continue(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("Once upon a time"), Say("there was a mouse."))
    send(page, "@gemini a story")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    page.locator("#text").press_sequentially("/cont")
    page.keyboard.press("Enter")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    expect_answers(page, "Once upon a time", "there was a mouse.")


@pytest.mark.judge
def test_earlier_messages_are_shown_on_demand(server: RunningServer, page: Page):
    history = [
        {"role": "user" if number % 2 == 0 else "gemini", "content": f"turn {number}."}
        for number in range(200)
    ]
    page.locator("#import-file").set_input_files(
        {
            "name": "long.json",
            "mimeType": "application/json",
            "buffer": json.dumps(history).encode(),
        }
    )
    page.locator(".entry a").first.click()
    expect(page.locator(".exchange")).to_have_count(TURNS_PER_PAGE // 2)
    expect(page.get_by_text("turn 199.")).to_be_in_viewport()
    # They load when the user scrolls up, a page at a time, as with the button.
    page.locator("body[data-ready]").wait_for()
    page.wait_for_function(
        "() => { document.getElementById('scroll').scrollTop = 0;"
        " return document.querySelectorAll('.exchange').length === 100; }"
    )
    expect(page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    # The browser does not lay out distant content; its text is in the document.
    shown = [text.strip() for text in page.locator(".message .words").all_text_contents()]
    assert shown == [f"turn {number}." for number in range(0, 200, 2)]


def test_search_finds_messages_in_all_conversations(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    server.add_replies("gemini", Say("The aardvark sleeps."), Say("Nothing here."))
    for question in ("@gemini animals", "@gemini stones"):
        page = visitor.open("/")
        send(page, question)
        expect(page.locator(".answer:not(.live)")).to_have_count(1)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("aardv")
    expect(page.locator("#hits mark")).to_have_text("aardv")
    page.locator("#hits a").click()
    expect(page.locator(".answer .body")).to_have_text("The aardvark sleeps.")


@pytest.mark.judge
def test_conversations_are_renamed_deleted_restored_and_archived(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("Yes."))
    send(page, "@gemini first")
    entry = page.locator(".entry")
    expect(entry).to_have_text("first")
    entry.hover()
    entry.get_by_role("button").click()
    page.get_by_role("menuitem", name="Rename").click()
    entry.locator("input").fill("名前 & <b>")
    entry.locator("input").press("Enter")
    expect(page.locator(".entry a")).to_have_text("名前 & <b>")
    entry.hover()
    entry.get_by_role("button").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".entry a")).to_have_text("名前 & <b>")
    entry.hover()
    entry.get_by_role("button").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(page.locator(".entry")).to_have_count(0)
    page.locator("#sidebar [data-action=main-menu]").click()
    page.get_by_role("menuitem", name="Archived").click()
    expect(page.locator(".entry a")).to_have_text("名前 & <b>")


@pytest.mark.judge
def test_conversations_of_other_programs_are_imported(server: RunningServer, page: Page):
    history = [
        {"role": "user", "content": "old question"},
        {"role": "gemini", "content": "old **answer**"},
    ]
    file: FilePayload = {
        "name": "old.json",
        "mimeType": "application/json",
        "buffer": json.dumps(history).encode(),
    }
    page.locator("#import-file").set_input_files(file)
    page.locator(".entry a").first.click()
    expect(page.locator(".answer strong").nth(1)).to_have_text("answer")


def test_a_picture_is_sent_with_a_message(server: RunningServer, page: Page):
    server.add_replies("claude", Say("A pixel."))
    page.locator("#file").set_input_files(
        {"name": "pixel.png", "mimeType": "image/png", "buffer": PIXEL}
    )
    expect(page.locator("#files img")).to_be_visible()
    send(page, "@claude what is it?")
    expect(page.locator(".message .attached img")).to_have_js_property("naturalWidth", 1)
    expect_answers(page, "A pixel.")
    body = server.simulator.requests[-1].body
    assert "image/png" in json.dumps(body)


@pytest.mark.judge
def test_pasted_and_dropped_files_are_attached(server: RunningServer, page: Page):
    give = """kind => {
        const data = new DataTransfer();
        data.items.add(new File(["words"], `${kind}.txt`, { type: "text/plain" }));
        const event = kind === "paste"
            ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
            : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
        document.getElementById("text").dispatchEvent(event);
    }"""
    page.evaluate(give, "paste")
    page.evaluate(give, "drop")
    expect(page.locator("#files span")).to_have_text(
        [re.compile("paste.txt"), re.compile("drop.txt")]
    )
    page.get_by_role("button", name="Remove paste.txt").click()
    server.add_replies("claude", Say("I have read it."))
    send(page, "@claude read")
    expect(page.locator(".message .attached")).to_contain_text("drop.txt")
    expect_answers(page, "I have read it.")


def test_a_picture_that_a_tool_returns_is_shown(server: RunningServer, page: Page):
    @server.tools.tool
    def draw() -> ToolOutput:
        """A pixel."""
        return ToolOutput([Media("image/png", base64.b64encode(PIXEL).decode(), name="pixel")])

    del draw
    server.add_replies("gemini", Say(calls=[Call("draw", {})]), Say("Here."))
    send(page, "@gemini draw")
    expect(page.locator(".tool .attached img")).to_have_js_property("naturalWidth", 1)


@pytest.mark.judge
def test_an_unsupported_file_is_refused_and_the_text_stays(server: RunningServer, page: Page):
    page.locator("#file").set_input_files(
        {"name": "x.exe", "mimeType": "image/png", "buffer": b"MZ\x00\x01"}
    )
    send(page, "@claude run it")
    expect(page.locator("#notices")).to_contain_text("x.exe cannot be sent")
    expect(page.locator("#text")).to_have_value("@claude run it")
    expect(page.locator("#files span")).to_contain_text("x.exe")


def test_copy_gives_the_markdown_that_the_model_wrote(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    text = "# Title\n\n- **one** `two`\n- $x^2$\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    page = new_visitor(permissions=["clipboard-read", "clipboard-write"]).open("/")
    server.add_replies("claude", Say(text))
    send(page, "@claude *go*")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    page.get_by_role("button", name="Copy claude's answer").click()
    expect(page.locator("#notices")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == text
    page.locator(".message").hover()
    page.locator(".message").get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "@claude *go*"


@pytest.mark.judge
def test_columns_keep_the_order_of_the_addressees(server: RunningServer, page: Page):
    gate = Gate(2)
    server.add_replies("claude", Say("Late.", delta_size=1, faults=[gate]))
    server.add_replies("gemini", Say("Early."))
    server.add_replies("chatgpt", Say("Soon."))
    wanted = ["claude", "chatgpt", "gemini"]
    send(page, "@claude @chatgpt @gemini go")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    speakers = page.locator(".answer > header strong")
    expect(speakers).to_have_text(wanted)
    page.reload()
    expect(speakers).to_have_text(wanted)
    gate.open()
    expect_idle(page)
    page.reload()
    expect(speakers).to_have_text(wanted)


@pytest.mark.judge
def test_each_answer_switches_between_its_own_versions(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("G1."), Say("G2."))
    server.add_replies("claude", Say("C1."), Say("C2."))
    send(page, "@gemini @claude go")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    expect_answers(page, "G1.", "C1.")
    for speaker, text in (("claude", "C2."), ("gemini", "G2.")):
        answer = page.locator(f".answer[data-speaker={speaker}]")
        answer.get_by_role("button", name="Answer again").click()
        expect(answer.locator(".body")).to_have_text(text)
        expect_idle(page)
    page.reload()
    gemini, claude = (
        page.locator(f".answer[data-speaker={name}]") for name in ("gemini", "claude")
    )
    expect_answers(page, "G2.", "C2.")
    expect(gemini.locator(".switch span")).to_have_text("2 / 2")
    expect(claude.locator(".switch span")).to_have_text("2 / 2")
    gemini.get_by_role("button", name="Earlier branch").click()
    expect(gemini.locator(".body")).to_have_text("G1.")
    expect(claude.locator(".body")).to_have_text("C2.")
    expect(gemini.locator(".switch span")).to_have_text("1 / 2")


@pytest.mark.judge
def test_a_link_opens_a_message_at_any_depth_and_on_any_branch(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    history = [
        {"role": "user" if number % 2 == 0 else "gemini", "content": f"turn {number}."}
        for number in range(400)
    ]
    page.locator("#import-file").set_input_files(
        {
            "name": "long.json",
            "mimeType": "application/json",
            "buffer": json.dumps(history).encode(),
        }
    )
    page.locator(".entry a").first.click()
    expect(page.get_by_text("turn 399.")).to_be_in_viewport()
    page.locator("body[data-ready]").wait_for()
    page.keyboard.press("Control+k")
    page.locator("#search").fill("turn 101.")
    page.locator("#hits a", has_text="turn 101.").click()
    expect(page.get_by_text("turn 101.")).to_be_in_viewport()
    assert page.locator(".exchange").count() < 100
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text("turn 399.")).to_be_in_viewport()
    # A replaced answer is on another branch.
    server.add_replies("claude", Say("The walrus."), Say("The seal."))
    fresh = visitor.open("/")
    send(fresh, "@claude animal")
    expect(fresh.locator(".answer .body")).to_have_text("The walrus.")
    expect_idle(fresh)
    turn = fresh.locator(".answer").get_attribute("data-turn")
    fresh.get_by_role("button", name="Answer again").click()
    expect(fresh.locator(".answer .body")).to_have_text("The seal.")
    expect_idle(fresh)
    linked = visitor.open(f"{fresh.url.removeprefix(server.url)}#{turn}")
    expect(linked.locator(".answer .body")).to_have_text("The walrus.")


def test_the_surroundings_of_a_hit_are_shown(server: RunningServer, page: Page):
    long = "\n\n".join(f"Paragraph {number} about nothing." for number in range(60))
    server.add_replies("gemini", Say(f"{long}\n\nThe **Okapi** hides."), Say("No animal."))
    send(page, "@gemini who is shy?")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    send(page, "@gemini and an okapi?")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("okapi")
    expect(page.locator("#hits a")).to_have_count(2)
    preview = page.locator("#preview")
    # The chosen hit is the newest one: a question, with its answer.
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(preview.locator(".said mark")).to_have_text("okapi")
    expect(preview).to_contain_text("No animal.")
    page.keyboard.press("ArrowDown")
    expect(preview.locator(".said")).to_contain_text("who is shy?")
    expect(preview.locator("mark")).to_have_text("Okapi")
    expect(preview.locator("mark")).to_be_in_viewport()
    page.locator("#hits a").first.hover()
    expect(preview).to_contain_text("No animal.")
    page.locator("#hits a").last.hover()
    expect(preview).to_contain_text("who is shy?")
    preview.get_by_role("link", name="Open here").click()
    expect(page.locator("#finder")).to_be_hidden()
    expect(page.locator(".answer", has_text="hides.")).to_be_in_viewport()
    # There is no room for it on a phone.
    page.set_viewport_size({"width": 390, "height": 800})
    page.keyboard.press("Control+k")
    page.locator("#search").fill("okapi")
    expect(page.locator("#hits a")).to_have_count(2)
    page.keyboard.press("ArrowUp")
    expect(preview).to_be_hidden()


def test_a_search_is_filtered_by_author_time_and_archive(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("The quokka is small."))
    server.add_replies("claude", Say("A quokka smiles."))
    send(page, "@gemini @claude what is a quokka?")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("quokka")
    hits = page.locator("#hits a")
    expect(hits).to_have_count(3)
    expect(page.locator("#hits .count")).to_have_text("3 messages in 1 chats")
    page.get_by_role("button", name="From anyone").click()
    page.get_by_role("menuitemcheckbox", name="claude").click()
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("A quokka smiles.")
    page.locator("[data-action=find-when]").click()
    page.get_by_role("menuitemcheckbox", name="Last 7 days").click()
    expect(hits).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator(".entry.current").hover()
    page.locator(".entry.current").get_by_role("button").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(page.locator(".entry")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("quokka")
    expect(page.locator("#hits .empty")).to_be_visible()
    page.get_by_role("option", name="Search without filters").click()
    expect(hits).to_have_count(3)


def test_columns_begin_at_their_top_and_a_single_answer_is_followed_to_its_end(
    server: RunningServer, page: Page
):
    """The end of the longest column is not the end of the others: following it would scroll them out of sight."""
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    server.add_replies("gemini", Say("Short."))
    server.add_replies("claude", Say(long), Say(f"{long}\n\nThe last words."))
    send(page, "@gemini @claude hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    for _ in range(2):  # the same after a reload
        expect(page.locator(".answer[data-speaker=gemini] .body")).to_be_in_viewport()
        expect(page.locator(".message").last).to_be_in_viewport()
        page.reload()
        page.locator("body[data-ready]").wait_for()
    page.locator("#latest").click()
    expect(page.locator("p", has_text="Paragraph 59.")).to_be_in_viewport()
    send(page, "@claude more")
    expect(page.locator("p", has_text="The last words.")).to_be_in_viewport()
