"""Content of models, tools and users stays text: nothing runs, and nothing is fetched."""

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_idle
from tests.web.payloads import EVIL, PAYLOADS
from tests.web.server_process import RunningServer

from multi_llm_chat.events import Usage
from multi_llm_chat.store import Spending, create, record_spending
from multi_llm_chat.testing.simulator import Call, Say
from multi_llm_chat.web.markdown import IncrementalMarkdown, render_markdown


def assert_harmless(html: str) -> None:
    """Check without a parser that nothing in the HTML could run or fetch."""
    lowered = html.lower()
    for beginning in (
        "<script",
        "<img",
        "<iframe",
        "<svg",
        "<style",
        "<link",
        "<base",
        "<form",
        "<object",
        "<embed",
        "<meta",
        "<video",
        "<template",
    ):
        assert beginning not in lowered
    for piece in html.split("<")[1:]:
        tag = piece.partition(">")[0].lower()
        assert " on" not in tag.replace(' rel="noopener', "")
        assert "style=" not in tag
        assert 'href="javascript' not in tag
        assert 'href="data' not in tag


@pytest.mark.parametrize("payload", PAYLOADS)
def test_rendered_payloads_are_harmless(payload: str):
    assert_harmless(render_markdown(payload))
    markdown = IncrementalMarkdown()
    for letter in payload:
        assert_harmless(markdown.feed(letter).tail)
    markdown = IncrementalMarkdown()
    for words in (
        "An open paragraph ",
        f"grows by **bold** {payload} and `code` ",
        f"{payload}\n\n{payload}",
    ):
        assert_harmless(markdown.feed(words).tail)
    assert_harmless(markdown.html.final)


def test_there_are_enough_payloads():
    assert len(set(PAYLOADS)) >= 60


def assert_untouched(page: Page) -> None:
    """Check that the page is intact."""
    assert "pwned" not in page.title()
    assert page.locator("#messages").count() == 1
    assert (
        page.locator(
            "#messages script, #messages iframe, #messages [style], #messages [onerror]"
        ).count()
        == 0
    )
    assert page.url.startswith("http://127.0.0.1")


def test_nothing_a_model_writes_runs_or_fetches(server: RunningServer, page: Page):
    server.add_replies("gemini", Say("\n\n".join(PAYLOADS), delta_size=200))
    page.locator("#text").fill("@gemini attack")
    page.keyboard.press("Enter")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    assert_untouched(page)
    page.reload()
    expect(page.locator(".answer")).to_have_count(1)
    assert_untouched(page)
    picture = page.locator(".answer a.picture").first
    assert (picture.get_attribute("href") or "").startswith(EVIL)
    assert "noreferrer" in (picture.get_attribute("rel") or "")


def test_nothing_in_the_surroundings_of_a_hit_runs_or_fetches(server: RunningServer, page: Page):
    attack = "\n\n".join([*PAYLOADS, "quokka"])
    server.add_replies("gemini", Say(attack, delta_size=2000))
    title = (
        "a quokka among many harmless words, which are the title of this conversation; then come"
    )
    page.locator("#text").fill(f"@gemini {title} {attack}")
    page.keyboard.press("Enter")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("quokka")
    expect(page.locator("#hits a")).to_have_count(2)
    for hit in page.locator("#hits a").all():
        hit.hover()
        expect(page.locator("#preview .words mark", has_text="quokka").first).to_be_visible()
        attacks = (
            "#preview script, #preview iframe, #preview [style], #preview [onerror], #preview img"
        )
        assert page.locator(attacks).count() == 0
    assert_untouched(page)


def test_nothing_a_tool_receives_or_returns_runs_or_fetches(server: RunningServer, page: Page):
    everything = "\n".join(PAYLOADS)

    @server.tools.tool(approval="ask")
    def attack(words: str) -> str:
        """Give it back."""
        return words

    del attack
    server.add_replies("claude", Say(calls=[Call("attack", {"words": everything})]), Say("Done."))
    page.locator("#text").fill("@claude attack")
    page.keyboard.press("Enter")
    # The editor of the arguments, and their change as a diff, show them too.
    page.locator(".tool").get_by_role("button", name="Edit").click()
    editor = page.get_by_role("textbox", name="Arguments as JSON")
    plain = everything.encode("utf-8", "ignore").decode().replace("\0", "")  # what JSON can encode
    editor.fill(json.dumps({"words": f"{plain}\nmore"}))
    assert_untouched(page)
    page.get_by_role("button", name="Allow once").click()
    expect(page.locator(".tool.done")).to_have_count(1)
    expect_idle(page)
    assert_untouched(page)
    page.reload()
    expect(page.locator(".tool.done")).to_have_count(1)
    assert_untouched(page)


def test_imported_titles_and_names_run_nothing(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")
    turns = [
        {"role": "user", "content": payload, "id": f"'\"><script>{number}</script>"}
        if number % 2
        else {"role": payload, "content": payload, "model": payload}
        for number, payload in enumerate(PAYLOADS)
    ]
    page.locator("#import-file").set_input_files(
        {
            "name": "attack.json",
            "mimeType": "application/json",
            "buffer": json.dumps(turns).encode(),
        }
    )
    page.locator(".entry a").first.click()
    expect(page.locator(".message").first).to_be_attached()
    page.locator("body[data-ready]").wait_for()  # before that there is no key listener
    assert_untouched(page)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("pwned")
    expect(page.locator("#hits a").first).to_be_visible()
    assert_untouched(page)
    assert page.locator(":is(#sidebar, #hits) :is(script, img)").count() == 0


def test_a_file_that_could_run_is_only_offered_for_saving(server: RunningServer):
    with server.signed_in_client() as visitor:
        html = b"<script>document.title='pwned'</script>"
        answer = visitor.post(
            "/c/files/messages",
            data={"text": "memo"},
            files={"files": ("a.html", html, "text/html")},
        )
        assert answer.status_code == 200
        view = visitor.get("/c/files/view").json()["html"]
        source = view.partition('class="attached file" href="')[2].partition('"')[0]
        served = visitor.get(source)
        assert served.content == html
        assert served.headers["content-disposition"] == "attachment"
        assert served.headers["content-type"] == "application/octet-stream"
        assert "sandbox" in served.headers["content-security-policy"]


def test_names_of_speakers_and_models_on_the_usage_page_run_nothing(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    store = server.hub.store("local")
    store.run(create, "A chat", identifier="spending")
    for number, payload in enumerate(PAYLOADS):
        spending = Spending(str(number), payload, payload, Usage(1_000, 100), None)
        store.run(record_spending, "spending", spending)
    page = new_visitor().open("/settings/usage")
    expect(page.locator("main")).to_contain_text("pwned")
    assert (
        page.locator("main :is(script, iframe, img, [onerror], [href^='javascript'])").count() == 0
    )
    assert "pwned" not in page.title()


def test_names_in_the_catalogue_of_models_run_nothing(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")

    def answer(route: Route) -> None:
        found = route.fetch().json()
        sample = next(each for each in found["models"] if each["speaker"] == "claude")
        names = [{key: payload if isinstance(value, str) else value for key, value in sample.items()} | {"speaker": "claude"} for payload in PAYLOADS]  # fmt: skip
        route.fulfill(json={**found, "models": names})

    page.route("**/models*", answer)
    page.locator(".chip[data-name=claude]").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".model-row")).to_have_count(len(PAYLOADS))
    assert page.locator("#picker :is(script, iframe, img, [onerror])").count() == 0
    assert_untouched(page)


def test_the_page_of_a_wrong_address_repeats_nothing_of_it(server: RunningServer):
    with server.signed_in_client() as client:
        known = client.get("/nowhere")
        for payload in PAYLOADS:
            answer = client.get(f"/nowhere/{quote(payload[:500], safe='')}")
            assert (answer.status_code, answer.text) == (known.status_code, known.text)


def test_a_mention_that_no_speaker_has_runs_nothing(page: Page):
    for payload in PAYLOADS:
        page.locator("#text").fill(f"@gemni {payload} @{payload} ")
        expect(page.locator("#proposal")).to_be_visible()
    assert_untouched(page)
