"""Pages show the runs of other processes: a killed server, another server, a worker, a terminal."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.runs.worker_processes import new_engine
from tests.servers import choose_port
from tests.store.conftest import postgres, postgres_server
from tests.tools.conftest import everyday
from tests.web.conftest import Visitor
from tests.web.page_actions import expect_idle, send
from tests.web.server_process import (
    RunningServer,
    mlc_process,
    run_server,
    serve_process,
    write_config,
)

from multi_llm_chat.store import list_conversations, list_outbox, open_store, path
from multi_llm_chat.testing.simulator import Call, Gate, Say, Simulator
from multi_llm_chat.web.hub import Hub

__all__ = ["postgres", "postgres_server"]

pytestmark = pytest.mark.judge  # each starts servers and a browser

WORDS = " ".join(f"word{number}" for number in range(120))


def ready(page: Page, address: str) -> Page:
    page.goto(address)
    page.locator("body[data-ready]").wait_for()
    return page


def test_an_open_page_continues_after_the_server_was_killed(browser: Browser, tmp_path: Path):
    first, second = Gate(40), Gate(60)
    script = [Say("Earlier.", thinking="Hm."), Say(WORDS, faults=[first]), Say(WORDS, faults=[second])]  # fmt: skip
    with Simulator({"anthropic": script}) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator)
        with serve_process(tmp_path, choose_port()) as (process, link):
            page = ready(context.new_page(), link)
            send(page, "@claude before")
            expect(page.locator(".answer:not(.live) .body")).to_contain_text("Earlier.")
            expect_idle(page)
            page.locator(".thoughts summary").click()
            send(page, "@claude count")
            first.wait_reached()
            expect(page.locator(".answer.live .words")).to_contain_text("word5")
            page.locator("#text").fill("half a thou")
            process.kill()
        url = link.partition("/?")[0]
        with serve_process(tmp_path, int(url.rpartition(":")[2])):
            second.wait_reached()
            expect(page.locator(".answer.live .words")).to_contain_text("word10 ")
            other = ready(context.new_page(), page.url)
            expect(other.locator(".answer.live .words")).to_contain_text("word10 ")
            second.open()
            for each in (page, other):
                expect_idle(each)
                expect(each.locator(".message")).to_have_count(2)
                expect(each.locator(".answer .body").last).to_have_text(WORDS)
                expect(each.locator(".answer:not(.live)")).to_have_count(2)
            expect(page.locator("#text")).to_have_value("half a thou")
            expect(page.locator(".thoughts pre")).to_be_visible()


def test_an_approval_of_a_resumed_run_waits_for_an_open_page(browser: Browser, tmp_path: Path):
    gate = Gate(3)
    with Simulator({"anthropic": [Say("half an answer", delta_size=2, faults=[gate])]}) as simulator:  # fmt: skip
        write_config(tmp_path, simulator)
        with serve_process(tmp_path) as (process, link), browser.new_context() as context:
            page = ready(context.new_page(), link)
            send(page, "@claude weather?")
            gate.wait_reached()
            expect(page).to_have_url(re.compile("/c/"))
            conversation = page.url.rpartition("/")[2]
            process.kill()

    def offer(hub: Hub) -> None:
        @hub.workspace.tools.tool(approval="ask")
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"Rain in {city}."

        del get_weather

    script = {
        "anthropic": [
            Say("Let me see.", calls=[Call("get_weather", {"city": "Oslo"})]),
            Say("It rains."),
        ]
    }
    with run_server(tmp_path, script, prepare=offer) as server:
        server.simulator.requests.wait_for(1)  # the run is resumed without an open page
        visitor = Visitor(server, browser)
        page = visitor.open(f"/c/{conversation}")
        page.get_by_role("button", name="Allow once").click()
        expect(page.locator(".answer:not(.live) .body")).to_contain_text("It rains.")
        expect(page.locator(".tool .result")).to_have_count(1)
        expect(page.locator(".tool")).to_contain_text("Rain in Oslo.")
        expect_idle(page)
        assert visitor.errors == []
        visitor.close()


def test_an_interrupted_tool_asks_again_in_the_same_page(browser: Browser, tmp_path: Path):
    script = [Say(calls=[Call("erase", {"path": "/old"})]), Say("It is gone.")]
    entry = everyday()
    with Simulator({"anthropic": script}) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator)
        servers = json.dumps({"mcpServers": {"daily": entry}})
        (tmp_path / "config" / "mcp.json").write_text(servers, encoding="utf-8")
        with serve_process(tmp_path, choose_port()) as (process, link):
            page = ready(context.new_page(), link)
            page.locator("#tools .server", has_text="erase").wait_for(state="attached")
            send(page, "@claude erase it")
            page.get_by_role("button", name="Allow once").wait_for()
            process.kill()
        with serve_process(tmp_path, int(link.partition("/?")[0].rpartition(":")[2])):
            expect(page.locator(".tool.waiting")).to_contain_text("may have done its work")
            page.get_by_role("button", name="Allow once").click()
            expect(page.locator(".answer:not(.live) .body")).to_contain_text("It is gone.")
            expect(page.locator(".tool")).to_have_count(1)
            expect(page.locator(".tool.done .state")).to_have_text(re.compile(r"\d+\.\d s"))
            expect_idle(page)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.fault)])
def place(request: pytest.FixtureRequest) -> str:
    """Return the settings line that names the store."""
    if request.param == "sqlite":
        return ""
    return f'store = "{request.getfixturevalue("postgres")}"\n'


def test_two_servers_show_one_conversation_and_resume_runs_of_each_other(
    browser: Browser, tmp_path: Path, place: str
):
    gate, late, last = Gate(40), Gate(40), Gate(40)
    with run_server(tmp_path, config=place) as server, serve_process(tmp_path) as (process, link):
        server.add_replies("gemini", Say(WORDS, faults=[gate]), Say(WORDS, faults=[late]))
        server.add_replies("gemini", Say(WORDS, faults=[last]), Say("All of it."))
        visitor = Visitor(server, browser)
        context: BrowserContext = browser.new_context()
        there = ready(context.new_page(), link)
        send(there, "@gemini first")
        gate.wait_reached()
        expect(there).to_have_url(re.compile("/c/"))
        # A page that is opened during an answer shows the text so far, and follows the stream.
        here = visitor.open(f"/c/{there.url.rpartition('/')[2]}")
        expect(here.locator(".answer.live .words")).to_contain_text("word5")
        # A message sent in the meantime waits, as with a run of the same server.
        send(here, "@gemini second")
        expect(here.locator(".queued")).to_contain_text("Waits until")
        gate.open()
        for page in (here, there):
            expect(page.locator(".answer .body").first).to_have_text(WORDS)
            expect(page.locator(".message .words")).to_have_text(
                ["@gemini first", "@gemini second"]
            )
            expect(page.locator(".answer.live .words")).to_contain_text("word5")
        # Every page may stop the run.
        there.keyboard.press("Escape")
        expect_idle(here, there)
        server.simulator.requests[-1].disconnected.wait()
        for page in (here, there):
            expect(page.locator(".answer .note")).to_have_count(1)
            expect(page.locator(".answer .body").last).to_contain_text("word5")
        # One server dies in the middle of an answer: the other resumes the run.
        send(there, "@gemini third")
        expect(here.locator(".answer.live .words")).to_contain_text("word5")
        process.kill()
        expect(here.locator(".answer:not(.live) .body").nth(2)).to_have_text("All of it.")
        expect(here.locator(".message")).to_have_count(3)
        expect(here.locator(".answer")).to_have_count(3)
        expect_idle(here)
        assert visitor.errors == []
        visitor.close()
        context.close()


ERASING = [Say(calls=[Call("erase", {"path": "/old"})])]


def offer_erasing(folder: Path) -> None:
    """Configure a tool server with a tool that needs approval."""
    entry = everyday()
    (folder / "config").mkdir(parents=True, exist_ok=True)
    servers = json.dumps({"mcpServers": {"daily": entry}})
    (folder / "config" / "mcp.json").write_text(servers, encoding="utf-8")


def test_an_approval_is_decided_in_the_page_of_another_server(
    browser: Browser, tmp_path: Path, place: str
):
    offer_erasing(tmp_path)
    with run_server(tmp_path, config=place) as server, serve_process(tmp_path) as (_, link):
        server.add_replies(
            "claude",
            *ERASING, Say("It is gone."),
            *ERASING, Say("It is still there."),
            *ERASING, Say("Another one is gone."),
        )  # fmt: skip
        visitor = Visitor(server, browser)
        context: BrowserContext = browser.new_context()
        there = ready(context.new_page(), link)
        there.locator("#tools .server", has_text="erase").wait_for(state="attached")
        send(there, "@claude erase it")
        expect(there.locator(".tool.waiting")).to_have_count(1)
        here = visitor.open(f"/c/{there.url.rpartition('/')[2]}")
        here.get_by_role("button", name="Allow once").click()
        for page in (here, there):
            expect(page.locator(".answer:not(.live) .body")).to_contain_text("It is gone.")
            expect(page.locator(".tool.done")).to_contain_text("erased /old")
        # A decision in one page removes the question from the other.
        send(there, "@claude once more")
        expect(here.get_by_role("button", name="Deny")).to_have_count(1)
        there.get_by_role("button", name="Deny").click()
        for page in (here, there):
            expect(page.locator(".answer .body").last).to_contain_text("It is still there.")
            expect(page.get_by_role("button", name="Deny")).to_have_count(0)
            expect(page.locator(".tool.failed")).to_have_count(1)
        expect_idle(here, there)
        # Arguments changed here run in the other process.
        send(there, "@claude another one")
        card = here.locator(".tool.waiting")
        card.get_by_role("button", name="Edit").click()
        card.get_by_role("textbox", name="Arguments as JSON").fill('{"path": 7}')
        card.get_by_role("button", name="Allow once").click()
        expect(card.locator(".problem")).to_contain_text("7 is not of type")
        card.get_by_role("textbox", name="Arguments as JSON").fill('{"path": "/older"}')
        card.get_by_role("button", name="Allow once").click()
        for page in (here, there):
            expect(page.locator(".answer .body").last).to_contain_text("Another one is gone.")
            expect(page.locator(".tool.done").last).to_contain_text("erased /older")
            expect(page.locator(".tool.done").last.locator("del")).to_contain_text("/old")
        expect_idle(here, there)
        assert visitor.errors == []
        visitor.close()
        context.close()


@pytest.mark.fault
def test_an_approval_of_a_worker_is_decided_in_the_page(
    browser: Browser, tmp_path: Path, postgres: str, postgres_server: str
):
    engine = new_engine(postgres_server)
    offer_erasing(tmp_path)
    script = {"anthropic": [*ERASING, Say("It is gone."), *ERASING]}
    with Simulator(script) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator, f'store = "{postgres}"\n')
        serving = ("serve", "--port", "0", "--no-open", "--engine", engine)
        with (
            mlc_process(tmp_path, "worker", "--engine", engine),
            mlc_process(tmp_path, *serving) as (_, printed),
        ):
            page = ready(context.new_page(), printed.readline().split()[-1])
            send(page, "@claude erase it")
            page.get_by_role("button", name="Allow once").click()
            expect(page.locator(".answer:not(.live) .body")).to_contain_text("It is gone.")
            expect(page.locator(".tool.done")).to_contain_text("erased /old")
            # Stopping the answer removes the question.
            send(page, "@claude once more")
            page.get_by_role("button", name="Allow once").wait_for()
            page.keyboard.press("Escape")
            expect_idle(page)
            expect(page.get_by_role("button", name="Allow once")).to_have_count(0)


def test_messages_of_a_terminal_appear_without_a_reload(
    server: RunningServer, new_visitor: Callable[..., Visitor], tmp_path: Path
):
    gate = Gate(40)
    server.add_replies("claude", Say("In the page."), Say(WORDS, faults=[gate]))
    page = new_visitor().open("/")
    send(page, "@claude here")
    expect(page.locator(".answer:not(.live) .body")).to_have_text("In the page.")
    page.locator("#text").fill("half a thou")
    identifier = page.url.rpartition("/")[2]
    with mlc_process(tmp_path, "ask", "--plain", "--chat", identifier, "@claude at the terminal") as (ask, _):  # fmt: skip
        gate.wait_reached()
        expect(page.locator(".message .words")).to_have_text(
            ["@claude here", "@claude at the terminal"]
        )
        expect(page.locator(".answer.live .words")).to_contain_text("word5")
        gate.open()
        expect_idle(page)
        expect(page.locator(".answer .body")).to_have_text(["In the page.", WORDS])
        ask.join(20)
        assert ask.exitcode == 0
    server.add_replies("gemini", Say("Done."))
    words = ("ask", "--chat", identifier, "-m", "gemini", "--no-stream", "once more")
    with mlc_process(tmp_path, *words) as (ask, printed):
        assert "Done." in printed.read()
    expect(page.locator(".answer .body")).to_have_text(["In the page.", WORDS, "Done."])
    expect(page.locator("#text")).to_have_value("half a thou")


def test_a_message_sent_while_an_answer_streams_waits_in_the_store_and_is_sent_after_it(
    browser: Browser, tmp_path: Path
):
    first = Gate(40)
    script = [Say(WORDS, faults=[first]), Say("Then this."), Say("And that.")]
    with Simulator({"anthropic": script}) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator)
        with serve_process(tmp_path) as (_, link):
            page = ready(context.new_page(), link)
            send(page, "@claude count")
            first.wait_reached()
            for text in ("@claude and then?", "@claude and that?"):
                with page.expect_response(lambda response: response.request.method == "POST"):
                    send(page, text)
            with open_store(tmp_path / "data" / "conversations.db") as store:
                (talk,) = store.run(list_conversations).conversations
                waiting = store.run(list_outbox, talk.id)
                assert [each.text for each in waiting] == ["@claude and then?", "@claude and that?"]
                first.open()
                expect(page.locator(".answer:not(.live) .body")).to_have_text(
                    [WORDS, "Then this.", "And that."]
                )
                expect_idle(page)
                assert store.run(list_outbox, talk.id) == ()
                roles = [turn.role for turn in store.run(path, talk.id)]
                assert roles == ["user", "claude"] * 3


def test_a_waiting_message_is_sent_by_the_next_server_after_the_interrupted_answer(
    browser: Browser, tmp_path: Path
):
    first = Gate(40)
    script = [Say(WORDS, faults=[first]), Say("All of it."), Say("Then this.")]
    with Simulator({"anthropic": script}) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator)
        with serve_process(tmp_path, choose_port()) as (process, link):
            page = ready(context.new_page(), link)
            send(page, "@claude count")
            first.wait_reached()
            with page.expect_response(lambda response: response.request.method == "POST"):
                send(page, "@claude and then?")
            with open_store(tmp_path / "data" / "conversations.db") as store:
                (talk,) = store.run(list_conversations).conversations
                assert len(store.run(list_outbox, talk.id)) == 1
                process.kill()
        first.open()
        with serve_process(tmp_path, int(link.partition("/?")[0].rpartition(":")[2])):
            expect(page.locator(".message .words")).to_have_text(
                ["@claude count", "@claude and then?"]
            )
            expect(page.locator(".answer:not(.live) .body")).to_have_text(
                ["All of it.", "Then this."]
            )
            expect_idle(page)
        with open_store(tmp_path / "data" / "conversations.db") as store:
            assert store.run(list_outbox, talk.id) == ()
            roles = [turn.role for turn in store.run(path, talk.id)]
            assert roles == ["user", "claude"] * 2
        # The message was sent with the whole answer before it.
        assert "All of it." in json.dumps(simulator.requests[-1].body)


def test_a_server_ends_while_a_message_waits_for_an_answer_of_another_process(
    browser: Browser, tmp_path: Path
):
    gate = Gate(40)
    script = [Say("Hello."), Say(WORDS, faults=[gate])]
    with Simulator({"anthropic": script}) as simulator, browser.new_context() as context:
        write_config(tmp_path, simulator)
        with serve_process(tmp_path, choose_port()) as (process, link):
            page = ready(context.new_page(), link)
            send(page, "@claude hi")
            expect(page.locator(".answer:not(.live) .body")).to_have_text("Hello.")
            identifier = page.url.rpartition("/")[2]
            words = ("ask", "--plain", "--chat", identifier, "@claude count")
            with mlc_process(tmp_path, *words) as (ask, _):
                gate.wait_reached()
                expect(page.locator(".answer.live .words")).to_contain_text("word5")
                with page.expect_response(lambda response: response.request.method == "POST"):
                    send(page, "@claude and then?")
                process.terminate()
                process.join(30)
                assert process.exitcode in {0, -signal.SIGTERM}
                gate.open()
                ask.join(20)
                assert ask.exitcode == 0
        with open_store(tmp_path / "data" / "conversations.db") as store:
            assert [each.text for each in store.run(list_outbox, identifier)] == [
                "@claude and then?"
            ]
            assert len(store.run(path, identifier)) == 4
