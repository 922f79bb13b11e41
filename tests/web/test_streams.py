"""The stream of numbered changes: a reader that reconnects gets exactly what it missed."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.events import TextDelta, ToolCallEnd, ToolCallStart, ToolFinished, ToolStarted
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.testing.simulator import Call, Gate, Say, Status
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.exchange_groups import TURNS_PER_PAGE
from multi_llm_chat.web.hub import Hub
from multi_llm_chat.web.oplog import MOST_ENTRIES, OpLog
from multi_llm_chat.web.templating import HtmlRenderer, Translations
from multi_llm_chat.web.views import PageAnswer, ToolSegment

WORDS = " ".join(f"word{number}" for number in range(60))


def changes(lines: Iterator[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the entries of a stream: position and changes."""
    position = ""
    for line in lines:
        if line.startswith("id: "):
            position = line.removeprefix("id: ")
        if line.startswith("data: "):
            yield position, json.loads(line.removeprefix("data: "))


def new_conversation(visitor: httpx2.Client) -> tuple[str, str]:
    """Create a conversation; return it and the position of its page."""
    html = visitor.get("/").text
    names = ("data-conversation", "data-position")
    return tuple(html.partition(f'{name}="')[2].partition('"')[0] for name in names)  # type: ignore[return-value]


def read_until_idle(
    entries: Iterator[tuple[str, list[dict[str, Any]]]],
) -> list[tuple[str, list[dict[str, Any]]]]:
    seen: list[tuple[str, list[dict[str, Any]]]] = []
    for entry in entries:
        seen.append(entry)
        if {"op": "busy", "value": False} in entry[1]:
            return seen
    raise AssertionError("the stream has ended")


def test_a_stream_continues_exactly_where_it_ended(server: RunningServer):
    server.add_replies("claude", Say(WORDS, delta_size=10))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        assert (
            visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"}).status_code
            == 200
        )
        address = f"/c/{identifier}/events"
        with visitor.stream("GET", address, params={"after": position}) as stream:
            whole = read_until_idle(changes(stream.iter_lines()))
        for number, (position, _) in enumerate(whole[:-1]):
            with visitor.stream("GET", address, headers={"last-event-id": position}) as stream:
                assert read_until_idle(changes(stream.iter_lines())) == whole[number + 1 :]
        assert [int(position.partition("-")[2]) for position, _ in whole] == list(
            range(1, len(whole) + 1)
        )


def test_each_reader_gets_the_changes_in_their_language(server: RunningServer):
    """The language of the first reader does not determine that of the others."""

    @server.tools.tool
    def look() -> str:
        """Look."""
        return "seen"

    del look
    server.add_replies("claude", Say(thinking="Hm.", calls=[Call("look", {})]), Say("Done."))
    seen: dict[str, str] = {}
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"})
        for language in ("en", "ja", "it", "ko"):
            visitor.cookies.set("mlc_language", language)
            address = f"/c/{identifier}/events"
            with visitor.stream("GET", address, params={"after": position}) as stream:
                entries = read_until_idle(changes(stream.iter_lines()))
            seen[language] = "".join(
                change.get("html", "") for _, entry in entries for change in entry
            )
    for language, html in seen.items():
        words = Translations(language)
        for key in ("thinking", "tool_done", "tool_running", "you"):
            assert words.text(key) in html
    assert len({html.count("<article") for html in seen.values()}) == 1


def test_own_turns_are_not_read_again_from_the_store(server: RunningServer):
    """After any action of the server a sync finds nothing new."""

    @server.tools.tool
    def look() -> str:
        """Look."""
        return "seen"

    del look
    gate = Gate(5)
    call = Say("Let me see.", calls=[Call("look", {})])
    server.add_replies("claude", call, *[Say("One.")] * 4)
    server.add_replies("gemini", call, *[Say("Eins.")] * 4)
    server.add_replies("chatgpt", Status(401), Say(WORDS, faults=[gate]))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        path = f"/c/{identifier}"

        def after(action: str, turn: str = "", **body: str) -> str:
            """Run an action, and return the page when no answer is running any more."""
            nonlocal position
            request = {"data": body} if action == "messages" else {"json": body | {"turn": turn}}
            assert visitor.post(f"{path}/{action}", **request).status_code == 200  # type: ignore[arg-type]
            if body.get("text", "").endswith("stop"):
                gate.wait_reached()
                visitor.post(f"{path}/stop", json={})
            with visitor.stream("GET", f"{path}/events", params={"after": position}) as stream:
                position = read_until_idle(changes(stream.iter_lines()))[-1][0]
            view = visitor.get(f"{path}/view").json()
            with visitor.stream("GET", f"{path}/events", params={"after": position}) as stream:
                entries = changes(stream.iter_lines())
                while position != view["position"]:
                    position, found = next(entries)
                    assert {"op": "reset"} not in found
            return view["html"]

        def turns(html: str, action: str) -> list[str]:
            return re.findall(rf'data-action="{action}" data-turn="([^"]+)"', html)

        html = after("messages", text="@claude @gemini first")
        after("regenerate", turns(html, "regenerate")[0])
        # The other answer is on two branches now, and is found once.
        assert visitor.get("/find", params={"words": "Eins"}).text.count('role="option"') == 1
        html = after("messages", text="@chatgpt second")  # which fails
        after("edit", turns(html, "edit")[-1], text="@claude @gemini second again")
        after("messages", text="a memo")
        html = after("messages", text="@chatgpt stop")
        assert "Eins." in html
        assert "What was written is kept" in html


def test_pages_load_again_after_another_answer_so_that_its_switch_counts_it(server: RunningServer):
    server.add_replies("gemini", Say("One."), Say("Two."))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini go"})
        address = f"/c/{identifier}/events"
        with visitor.stream("GET", address, params={"after": position}) as stream:
            position = read_until_idle(changes(stream.iter_lines()))[-1][0]
        html = visitor.get(f"/c/{identifier}").text
        turn = html.partition('data-action="regenerate"')[0].rpartition('data-turn="')[2]
        body = {"turn": turn.partition('"')[0], "speaker": "gemini"}
        assert visitor.post(f"/c/{identifier}/regenerate", json=body).status_code == 200
        with visitor.stream("GET", address, params={"after": position}) as stream:
            seen = read_until_idle(changes(stream.iter_lines()))
        names = [change["op"] for _, found in seen for change in found]
        assert "reset" in names[len(names) - names[::-1].index("replace") :]
        assert "2 / 2" in " ".join(visitor.get(f"/c/{identifier}/view").json()["html"].split())


def test_the_duration_of_a_tool_is_known_after_a_restart(tmp_path: Path):
    def offer(hub: Hub) -> None:
        hub.workspace.tools.tool(look)

    def look() -> str:
        """Look."""
        return "seen"

    with run_server(tmp_path, prepare=offer) as server, server.signed_in_client() as visitor:
        server.add_replies("claude", Say(calls=[Call("look", {})]), Say("Done."))
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"})
        with visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream:
            read_until_idle(changes(stream.iter_lines()))
        before = visitor.get(f"/c/{identifier}/view").json()["html"]
    with run_server(tmp_path) as server, server.signed_in_client() as visitor:
        after = visitor.get(f"/c/{identifier}/view").json()["html"]
    for html in (before, after):
        assert re.search(r'class="state done">.+\d+\.\d s<', html)
    assert before.partition("<footer>")[0] == after.partition("<footer>")[0]


def test_with_one_speaker_the_composer_names_it(tmp_path: Path):
    with run_server(tmp_path, speakers=["claude"]) as server, server.signed_in_client() as visitor:
        html = visitor.get("/").text
        assert 'data-one="Ask {name}…"' in html
        assert html.count('data-action="address"') == 1
        assert 'data-name="claude"' in html


def test_a_call_that_starts_again_keeps_its_card():
    one, two = ToolCall("look", {}, "one"), ToolCall("look", {}, "two")
    answer = LiveAnswer(PageAnswer("run", "claude", 0))
    for at, call in enumerate((one, two)):
        answer.apply(ToolCallStart(at, "look", call.tool_call_id))
        answer.apply(ToolCallEnd(at, call))
    answer.end_turn()
    answer.apply(ToolStarted(one))
    answer.apply(ToolStarted(two))
    answer.apply(ToolFinished(one, ToolResult("look", "seen", "one"), 0.1))
    answer.apply(TextDelta("half a thought"))
    answer.reset_to_saved()
    assert [card.state for card in answer.view.segments if isinstance(card, ToolSegment)] == ["done", "running"]  # fmt: skip
    answer.apply(ToolStarted(two))
    answer.apply(ToolFinished(two, ToolResult("look", "seen", "two"), 0.1))
    answer.apply(TextDelta("Whole."))
    answer.flush()
    cards = [segment for segment in answer.view.segments if isinstance(segment, ToolSegment)]
    assert [(card.state, card.result) for card in cards] == [("done", "seen"), ("done", "seen")]
    assert "half" not in str(answer.view)


def test_a_position_of_an_earlier_process_reloads_the_page(tmp_path: Path):
    with run_server(tmp_path) as server, server.signed_in_client() as visitor:
        server.add_replies("gemini", Say("Before."))
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini go"})
        with visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream:
            position = read_until_idle(changes(stream.iter_lines()))[-1][0]
    with run_server(tmp_path) as server, server.signed_in_client() as visitor:
        with visitor.stream(
            "GET", f"/c/{identifier}/events", headers={"last-event-id": position}
        ) as stream:
            assert next(changes(stream.iter_lines()))[1] == [{"op": "reset"}]
        view = visitor.get(f"/c/{identifier}/view").json()
        assert "Before." in view["html"]
        assert not view["busy"]


def test_the_text_before_a_stop_is_kept_and_marked(server: RunningServer):
    gate = Gate(5)
    server.add_replies("gemini", Say(WORDS, delta_size=10, faults=[gate]))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini go"})
        gate.wait_reached()
        with visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream:
            entries = changes(stream.iter_lines())
            while not any(
                change["op"] == "append" and "words" in change["html"]
                for change in next(entries)[1]
            ):
                pass
            assert visitor.post(f"/c/{identifier}/stop", json={}).status_code == 200
            read_until_idle(entries)
        server.simulator.requests[-1].disconnected.wait()
        html = visitor.get(f"/c/{identifier}/view").json()["html"]
        assert "word0" in html
        assert "What was written is kept" in html


def test_many_clients_of_one_conversation_see_the_same(server: RunningServer):
    """Fifty here; ``bench/web.py`` has five hundred."""
    gate = Gate(4)
    server.add_replies("chatgpt", Say(WORDS, delta_size=10, faults=[gate]))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        cookies = dict(visitor.cookies)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@chatgpt go"})

        async def all_of_them() -> list[list[Any]]:
            limits = httpx2.Limits(max_connections=60)
            async with httpx2.AsyncClient(
                base_url=server.url, cookies=cookies, limits=limits
            ) as client:

                async def follow() -> list[Any]:
                    seen: list[Any] = []
                    params = {"after": position}
                    async with client.stream(
                        "GET", f"/c/{identifier}/events", params=params
                    ) as stream:
                        async for line in stream.aiter_lines():
                            if line.startswith("data: "):
                                seen += json.loads(line.removeprefix("data: "))
                            if seen and seen[-1] == {"op": "busy", "value": False}:
                                return seen
                    raise AssertionError("dropped")

                tasks = [asyncio.create_task(follow()) for _ in range(50)]
                gate.open()
                return await asyncio.gather(*tasks)

        seen = asyncio.run(all_of_them())
        assert all(each == seen[0] for each in seen)
        assert any("word59" in change.get("html", "") for change in seen[0])


def test_a_log_keeps_the_newest_entries_and_reports_missing_ones():
    async def check() -> None:
        log = OpLog()
        english = HtmlRenderer(Translations("en"))
        for number in range(MOST_ENTRIES + 10):
            log.publish({"op": "text", "text": str(number)})
        assert log.after(0, english) is None
        assert log.after(9, english) is None
        kept = log.after(10, english)
        assert kept is not None
        assert len(kept) == MOST_ENTRIES
        assert log.after(log.last, english) == []
        assert log.after(log.last + 1, english) is None
        stream = log.stream("other-3", english)
        assert await anext(stream) == b"retry: 1000\n\n"
        assert msgspec.json.decode((await anext(stream)).removeprefix(b"data: ")) == [
            {"op": "reset"}
        ]
        await stream.aclose()
        assert log.readers == 0

    asyncio.run(check())


def test_long_conversations_are_shown_page_by_page(server: RunningServer):
    turns = [
        {"role": "user" if number % 2 == 0 else "gemini", "content": f"turn-{number}."}
        for number in range(400)
    ]
    with server.signed_in_client() as visitor:
        report = visitor.post("/import", content=json.dumps(turns)).json()
        identifier = report["conversations"][0]
        html = visitor.get(f"/c/{identifier}").text
        pages = [html]
        while 'data-first="' in pages[-1]:
            first = pages[-1].partition('data-first="')[2].partition('"')[0]
            pages.append(
                visitor.get(f"/c/{identifier}/earlier", params={"before": first}).json()["html"]
            )
        assert len(pages) == -(-400 // TURNS_PER_PAGE)
        together = "".join(pages)
        for number in range(400):
            assert together.count(f"<p>turn-{number}.</p>") == 1


def test_an_export_can_be_imported_again(server: RunningServer):
    server.add_replies("gemini", Say("An answer."))
    with server.signed_in_client() as visitor:
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini a question"})
        with (
            visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream,
            closing(stream),
        ):
            read_until_idle(changes(stream.iter_lines()))
        exported = visitor.get(f"/c/{identifier}/export", params={"form": "json"})
        assert exported.headers["content-disposition"] == 'attachment; filename="conversation.json"'
        assert (
            "An answer." in visitor.get(f"/c/{identifier}/export", params={"form": "markdown"}).text
        )
        new = visitor.post("/import", content=exported.content).json()["conversations"][0]
        assert new != identifier
        assert "An answer." in visitor.get(f"/c/{new}/view").json()["html"]
        assert visitor.post("/import", content=b"not a conversation").status_code == 400


def test_an_answer_without_the_tools_of_a_slow_server_shows_a_notice(tmp_path: Path):
    script = Path(__file__).parents[1] / "tools" / "servers" / "slow.py"
    os.mkfifo(tmp_path / "pipe")
    entry = {
        "command": sys.executable,
        "trusted": True,
        "args": [str(script), str(tmp_path / "pipe")],
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {"slow": entry}}))
    with (
        run_server(tmp_path, {"anthropic": [Say("Fine.")]}) as server,
        server.signed_in_client() as visitor,
    ):
        while "slow" not in server.hub.servers.starting():
            visitor.get("/tools")
        identifier, position = new_conversation(visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@claude hi"})
        with visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream:
            entries = read_until_idle(changes(stream.iter_lines()))
        notices = [each for _, found in entries for each in found if each["op"] == "notice"]
        assert len(notices) == 1
        assert notices[0]["text"].endswith("without their tools: slow")
        (tmp_path / "pipe").write_text("")


def test_a_council_is_offered_asked_and_shown_as_a_table(tmp_path: Path):
    config = '[councils.panel]\nmembers = ["claude", "gemini"]\n\n[personas.poet]\nspeaker = "claude"\n\n'
    verdict = {"answer": "Yes.", "claims": [{"claim": "So it is.", "agree": ["gemini:1"], "contradict": []}]}  # fmt: skip
    with (
        run_server(tmp_path, config=config) as server,
        server.signed_in_client() as visitor,
    ):
        server.add_replies("claude", Say("One."), Say(json.dumps(verdict)))
        server.add_replies("gemini", Say("Two."))
        identifier, position = new_conversation(visitor)
        html = visitor.get("/").text
        assert 'data-name="council:panel"' in html
        assert 'data-name="poet"' in html
        with visitor.stream("GET", f"/c/{identifier}/events?after={position}") as stream:
            entries = changes(stream.iter_lines())
            said = visitor.post(
                f"/c/{identifier}/messages", data={"text": "Well?", "to": "council:panel"}
            )
            assert said.status_code == 200
            seen = json.dumps(read_until_idle(entries))
        page = visitor.get(f"/c/{identifier}").text
    assert 'aria-label="Paragraph 1 of gemini">¶1</button>' in page
    assert "one alone" in page
    assert "Paragraph 1 of gemini" in seen  # at once, not only after a reload
    assert "&quot;claims&quot;" not in seen  # the JSON is not shown while it streams either


def test_a_verdict_that_is_asked_for_again_takes_the_place_of_the_broken_one(tmp_path: Path):
    config = '[councils.panel]\nmembers = ["gemini", "claude"]\n\n'
    verdict = {"answer": "Yes.", "claims": [{"claim": "So.", "agree": ["gemini:1"], "contradict": []}]}  # fmt: skip
    with (
        run_server(tmp_path, config=config) as server,
        server.signed_in_client() as visitor,
    ):
        server.add_replies("gemini", Say("Two."), Say("No JSON."), Say(json.dumps(verdict)))
        server.add_replies("claude", Say("One."))
        identifier, position = new_conversation(visitor)
        with visitor.stream("GET", f"/c/{identifier}/events?after={position}") as stream:
            entries = changes(stream.iter_lines())
            visitor.post(f"/c/{identifier}/messages", data={"text": "Well?", "to": "council:panel"})
            shown: dict[str, dict[str, Any]] = {}
            for _, found in read_until_idle(entries):
                for change in found:
                    if change["op"] == "append" and "verdict" in change["html"]:
                        shown[change["html"].partition(' id="')[2].partition('"')[0]] = change
                    if change["op"] == "remove":
                        shown.pop(change["id"], None)
        (last,) = shown.values()
        assert "before" not in last  # although its speaker comes first among the addressees
        assert next(iter(shown)) in visitor.get(f"/c/{identifier}").text


def test_pages_that_were_just_loaded_are_not_reset_when_many_are_open(server: RunningServer):
    """A page has no reader between its loading and its stream; other pages opened in the meantime do not close it."""
    server.hub.most_open = 5
    with server.signed_in_client() as visitor:
        pages = [new_conversation(visitor) for _ in range(25)]
        server.add_replies("claude", Say("Done."))
        identifier, position = pages[0]
        visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"})
        address = f"/c/{identifier}/events"
        with visitor.stream("GET", address, params={"after": position}) as stream:
            entries = read_until_idle(changes(stream.iter_lines()))
        assert entries[0][0].endswith("-1")
        assert {"op": "reset"} not in [change for _, entry in entries for change in entry]


def test_a_message_reaches_the_lists_of_the_users_other_pages_once(server: RunningServer):
    with server.signed_in_client() as visitor:
        pages = [new_conversation(visitor) for _ in range(6)]
        other, position = pages[-1]
        for identifier, _ in pages[:-1]:
            server.add_replies("claude", Say("Done."))
            answer = visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"})
            assert answer.status_code == 200
        address = f"/c/{other}/events"
        with visitor.stream("GET", address, params={"after": position}) as stream:
            _, changed = next(changes(stream.iter_lines()))
        assert changed == [{"op": "list"}]


def test_silent_readers_of_a_log_get_comments_from_one_timer():
    async def read() -> None:
        log = OpLog(keepalive_seconds=0.01)
        renderer = HtmlRenderer(Translations("en"))
        readers = [log.stream(log.position, renderer) for _ in range(3)]
        for reader in readers:
            assert await anext(reader) == b"retry: 1000\n\n"
            assert await anext(reader) == b": \n\n"
        log.publish({"op": "list"})
        for reader in readers:
            assert b'"list"' in await anext(reader)
        log.close()
        for reader in readers:
            assert [text async for text in reader] == []

    asyncio.run(read())
