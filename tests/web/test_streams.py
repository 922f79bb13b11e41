"""Numbered changes: whoever has missed some gets exactly those."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from tests.web.house import House, house

from multi_llm_chat.testing.simulator import Gate, Say
from multi_llm_chat.web.oplog import MOST_ENTRIES, OpLog

WORDS = " ".join(f"word{number}" for number in range(60))


def changes(lines: Iterator[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The entries of a stream: position and changes."""
    position = ""
    for line in lines:
        if line.startswith("id: "):
            position = line.removeprefix("id: ")
        if line.startswith("data: "):
            yield position, json.loads(line.removeprefix("data: "))


def begin(home: House, visitor: httpx2.Client) -> tuple[str, str]:
    """A new conversation, and where its page stands."""
    html = visitor.get("/").text
    names = ("data-conversation", "data-position")
    return tuple(html.partition(f'{name}="')[2].partition('"')[0] for name in names)  # type: ignore[return-value]


def until_idle(
    entries: Iterator[tuple[str, list[dict[str, Any]]]],
) -> list[tuple[str, list[dict[str, Any]]]]:
    seen: list[tuple[str, list[dict[str, Any]]]] = []
    for entry in entries:
        seen.append(entry)
        if {"op": "busy", "value": False} in entry[1]:
            return seen
    raise AssertionError("the stream has ended")


def test_a_stream_goes_on_exactly_where_it_was(home: House):
    home.says("claude", Say(WORDS, delta_size=10))
    with home.visitor() as visitor:
        identifier, position = begin(home, visitor)
        assert (
            visitor.post(f"/c/{identifier}/messages", data={"text": "@claude go"}).status_code
            == 200
        )
        address = f"/c/{identifier}/events"
        with visitor.stream("GET", address, params={"after": position}) as stream:
            whole = until_idle(changes(stream.iter_lines()))
        for number, (position, _) in enumerate(whole[:-1]):
            with visitor.stream("GET", address, headers={"last-event-id": position}) as stream:
                assert until_idle(changes(stream.iter_lines())) == whole[number + 1 :]
        assert [int(position.partition("-")[2]) for position, _ in whole] == list(
            range(1, len(whole) + 1)
        )


def test_a_position_of_another_life_of_the_server_loads_anew(tmp_path: Path):
    with house(tmp_path) as home, home.visitor() as visitor:
        home.says("gemini", Say("Before."))
        identifier, position = begin(home, visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini go"})
        with visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream:
            position = until_idle(changes(stream.iter_lines()))[-1][0]
    with house(tmp_path) as home, home.visitor() as visitor:
        with visitor.stream(
            "GET", f"/c/{identifier}/events", headers={"last-event-id": position}
        ) as stream:
            assert next(changes(stream.iter_lines()))[1] == [{"op": "reset"}]
        view = visitor.get(f"/c/{identifier}/view").json()
        assert "Before." in view["html"]
        assert not view["busy"]


def test_what_was_said_before_a_failure_is_kept_and_marked(home: House):
    gate = Gate(5)
    home.says("gemini", Say(WORDS, delta_size=10, faults=[gate]))
    with home.visitor() as visitor:
        identifier, position = begin(home, visitor)
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
            until_idle(entries)
        home.simulator.requests[-1].disconnected.wait()
        html = visitor.get(f"/c/{identifier}/view").json()["html"]
        assert "word0" in html
        assert "What was said so far is kept" in html


def test_many_clients_of_one_conversation_see_the_same(home: House):
    """Fifty here; ``bench/web.py`` has five hundred."""
    gate = Gate(4)
    home.says("chatgpt", Say(WORDS, delta_size=10, faults=[gate]))
    with home.visitor() as visitor:
        identifier, position = begin(home, visitor)
        cookies = dict(visitor.cookies)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@chatgpt go"})

        async def all_of_them() -> list[list[Any]]:
            limits = httpx2.Limits(max_connections=60)
            async with httpx2.AsyncClient(
                base_url=home.url, cookies=cookies, limits=limits
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


def test_a_log_keeps_the_newest_entries_and_says_when_others_are_gone():
    async def check() -> None:
        log = OpLog()
        for number in range(MOST_ENTRIES + 10):
            log.publish({"op": "text", "text": str(number)})
        assert log.after(0) is None
        assert log.after(9) is None
        kept = log.after(10)
        assert kept is not None
        assert len(kept) == MOST_ENTRIES
        assert log.after(log.last) == []
        assert log.after(log.last + 1) is None
        stream = log.stream("elsewhere-3")
        assert await anext(stream) == b"retry: 1000\n\n"
        assert msgspec.json.decode((await anext(stream)).removeprefix(b"data: ")) == [
            {"op": "reset"}
        ]
        await stream.aclose()
        assert log.readers == 0

    asyncio.run(check())


def test_long_conversations_are_shown_page_by_page(home: House):
    turns = [
        {"role": "user" if number % 2 == 0 else "gemini", "content": f"turn-{number}."}
        for number in range(400)
    ]
    with home.visitor() as visitor:
        report = visitor.post("/import", content=json.dumps(turns)).json()
        identifier = report["conversations"][0]
        html = visitor.get(f"/c/{identifier}").text
        pages = [html]
        while 'data-first="' in pages[-1]:
            first = pages[-1].partition('data-first="')[2].partition('"')[0]
            pages.append(
                visitor.get(f"/c/{identifier}/earlier", params={"before": first}).json()["html"]
            )
        assert len(pages) == 4
        together = "".join(pages)
        for number in range(400):
            assert together.count(f"<p>turn-{number}.</p>") == 1


def test_an_export_can_be_taken_in_again(home: House):
    home.says("gemini", Say("An answer."))
    with home.visitor() as visitor:
        identifier, position = begin(home, visitor)
        visitor.post(f"/c/{identifier}/messages", data={"text": "@gemini a question"})
        with (
            visitor.stream("GET", f"/c/{identifier}/events", params={"after": position}) as stream,
            closing(stream),
        ):
            until_idle(changes(stream.iter_lines()))
        exported = visitor.get(f"/c/{identifier}/export", params={"form": "json"})
        assert exported.headers["content-disposition"] == 'attachment; filename="conversation.json"'
        assert (
            "An answer." in visitor.get(f"/c/{identifier}/export", params={"form": "markdown"}).text
        )
        new = visitor.post("/import", content=exported.content).json()["conversations"][0]
        assert new != identifier
        assert "An answer." in visitor.get(f"/c/{new}/view").json()["html"]
        assert visitor.post("/import", content=b"not a conversation").status_code == 400
