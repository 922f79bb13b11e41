"""A faulty or malicious server affects only its own tools, and an event says what is wrong."""

import asyncio
import contextlib
import os
import queue
import select
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.testing import hostile_mcp_server
from multi_llm_chat.tools import Allow, ApprovalRequest, ToolRegistry
from multi_llm_chat.tools.mcp import (
    Elicitation,
    ElicitationAnswer,
    ListChanged,
    SamplingAnswer,
    SamplingRequest,
    ServerEvent,
    ServerLogged,
    StateChanged,
)
from multi_llm_chat.tools.mcp.servers import McpServers

SCRIPT = hostile_mcp_server.__file__
PATIENCE = 60.0


def acting(manner: str, **settings: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SCRIPT, manner], "trusted": True, **settings}


class Scene:
    """A bad server next to a good one."""

    def __init__(
        self, manner: str, timeout: float = PATIENCE, restarts: int = 1, **settings: Any
    ) -> None:
        self.registry = ToolRegistry(timeout=timeout)
        self.events: list[ServerEvent] = []
        entries = {"bad": acting(manner, **settings), "good": acting("good")}
        self.servers = McpServers(
            {"mcpServers": entries},
            self.registry,
            on_event=self.events.append,
            backoff=(0.0,) * restarts,
            patience=PATIENCE,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator["Scene"]:
        async with self.servers:
            yield self
            # Whatever happened, the other server still works.
            assert (await self.call(self.name_of("good"))).content == "good answers"

    def name_of(self, server: str, tool: str = "answer") -> str:
        return next(
            item.name
            for item in self.registry.listing()
            if (item.source, item.original) == (server, tool)
        )

    def names(self, server: str) -> list[str]:
        return [item.name for item in self.registry.listing() if item.source == server]

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.registry.execute(ToolCall(name, arguments, "id"))

    def state(self, server: str = "bad") -> StateChanged:
        return next(state for state in self.servers.states() if state.server == server)

    def said(self) -> str:
        return "\n".join(
            str(event.data if isinstance(event, ServerLogged) else event.message)
            for event in self.events
            if isinstance(event, ServerLogged | StateChanged)
        )


def called(manner: str, timeout: float = PATIENCE) -> tuple[ToolResult, Scene]:
    """Return the result of calling the bad server's tool, and the scene after it."""
    scene = Scene(manner, timeout)

    async def run() -> ToolResult:
        async with scene.running():
            return await scene.call(scene.name_of("bad"))

    return asyncio.run(run()), scene


def test_a_bad_schema_costs_only_the_tool_that_has_it() -> None:
    scene = Scene("bad-schema")

    async def run() -> list[ToolResult]:
        async with scene.running():
            assert "elsewhere" not in scene.names("bad")
            return [
                await scene.call("nonsense", a=1),
                await scene.call("endless", a={"a": {}}),
                await scene.call("regex", a="a" * 50 + "b"),
                await scene.call("answer"),
            ]

    nonsense, endless, regex, answer = asyncio.run(run())
    assert not nonsense.is_error
    assert not endless.is_error
    assert "does not match" in regex.content
    assert answer.content == "bad-schema answers"


def test_a_result_of_fifty_megabytes_ends_the_server_with_a_clear_message() -> None:
    result, _ = called("huge")
    assert result.is_error
    assert "ended before it had answered" in result.content
    assert "a message of more than 33,554,432 bytes" in result.content


def test_a_large_result_is_cut() -> None:
    result, _ = called("large")
    assert not result.is_error
    assert len(result.content) < 60_000
    assert "4,950,000 of 5,000,000 characters are left out here" in result.content


def test_names_with_markup_or_clashes_become_legal_and_unique() -> None:
    scene = Scene("markup")

    async def run() -> list[str]:
        async with scene.running():
            assert scene.name_of("good") == "good_answer"
            assert (await scene.call(scene.name_of("bad"))).content == "markup answers"
            return scene.names("bad")

    names = asyncio.run(run())
    assert len(names) == 3
    assert all(name.replace("_", "").isalnum() and len(name) <= 64 for name in names)


@pytest.mark.parametrize(
    ("manner", "count", "words"),
    [
        ("endless", 50, "more than 50 pages"),
        ("many", 1_000, "more than 1000 entries"),
        ("circle", 1, "leads back to its own beginning"),
    ],
)
def test_a_list_without_end_is_ended(manner: str, count: int, words: str) -> None:
    scene = Scene(manner)

    async def run() -> int:
        async with scene.running():
            return len(scene.names("bad"))

    assert asyncio.run(run()) == count
    assert words in scene.said()


def test_a_result_for_an_unknown_call_answers_no_call() -> None:
    result, _ = called("other-id", timeout=0.5)
    assert result.is_error
    assert "did not finish within 0.5 seconds" in result.content


def test_a_server_that_dies_in_a_call_answers_it_with_an_error_and_comes_back() -> None:
    scene = Scene("dies", restarts=4)  # each call may kill the server

    async def run() -> list[ToolResult]:
        async with scene.running():
            calls = [scene.call(scene.name_of("bad")) for _ in range(3)]
            results = await asyncio.gather(*calls)
            assert (await scene.call(scene.name_of("bad"))).is_error
            return results

    for result in asyncio.run(run()):
        assert result.is_error
        assert "whether the call had an effect is unknown" in result.content
    assert "ended with code 7; it said:\nI am dying" in scene.said()


def test_a_slow_server_is_not_waited_for_without_end() -> None:
    registry = ToolRegistry()
    events: queue.Queue[ServerEvent] = queue.Queue()
    entries = {"mcpServers": {"slow": acting("hang"), "good": acting("good")}}
    with McpServers(entries, registry, on_event=events.put, patience=0.0) as servers:
        assert servers.states()[0] == StateChanged("slow", "starting")
        while events.get(timeout=PATIENCE) != StateChanged("good", "ready"):
            continue
        assert registry.execute_sync(ToolCall("answer", {}, "id")).content == "good answers"


def test_servers_can_be_stopped_before_they_have_started() -> None:
    async def run() -> list[StateChanged]:
        entries = {"mcpServers": {"slow": acting("hang"), "good": acting("good")}}
        servers = McpServers(entries, ToolRegistry(), patience=0.0)
        starting = asyncio.ensure_future(servers.start())
        await asyncio.gather(starting, servers.stop())
        await servers.stop()
        return servers.states()

    assert [state.state for state in asyncio.run(run())] == ["stopped", "stopped"]


def test_secrets_of_the_settings_are_not_shown() -> None:
    scene = Scene("dies", env={"TOKEN": "I am dying"})

    async def run() -> ToolResult:
        async with scene.running():
            return await scene.call(scene.name_of("bad"))

    assert "it said:\n[hidden]" in asyncio.run(run()).content
    assert "I am dying" not in scene.said()


def test_a_server_that_hangs_at_the_start_does_not_hold_up_the_others() -> None:
    scene = Scene("hang", startupTimeout=0.5)

    async def run() -> StateChanged:
        async with scene.running():
            assert scene.names("bad") == []
            return scene.state()

    assert asyncio.run(run()).message == "it did not answer within 0.5 seconds (startupTimeout)"


def test_garbage_between_the_messages_is_skipped_and_said_once() -> None:
    result, scene = called("garbage")
    assert result.content == "garbage answers"
    assert scene.said().count("[not a message") == 1


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("flood", "something other than messages"),
        ("unfinished", "a message of more than"),
        ("no-list", "ValidationError"),
    ],
)
def test_a_server_that_cannot_be_understood_is_given_up(manner: str, words: str) -> None:
    scene = Scene(manner)

    async def run() -> list[str]:
        async with scene.running():
            return scene.names("bad")

    assert asyncio.run(run()) == []
    assert words in scene.said()


def test_a_result_without_shape_is_an_error() -> None:
    result, _ = called("shapeless")
    assert result.is_error
    assert "not as the protocol demands" in result.content


def test_a_damaged_picture_is_said_and_structure_stands_in_for_text() -> None:
    assert called("damaged")[0].content == "[image/png: the server sent it damaged]"
    assert called("structured")[0].content == {"a": 1}


def test_a_program_that_is_not_there_is_said() -> None:
    registry = ToolRegistry()
    with McpServers(
        {"mcpServers": {"x": {"command": "/no/such/program"}}}, registry, backoff=()
    ) as servers:
        assert servers.states() == [
            StateChanged("x", "failed", "the program or folder was not found: /no/such/program")
        ]


@pytest.mark.parametrize(
    ("allowed", "has_callback", "words"),
    [(True, True, "model says hi"), (False, True, "ampling"), (True, False, "ampling")],
)
def test_sampling_needs_both_the_program_and_the_settings(
    allowed: bool, has_callback: bool, words: str
) -> None:
    async def sample(request: SamplingRequest) -> SamplingAnswer:
        assert request.server == "bad"
        return SamplingAnswer("model says hi", "m")

    registry = ToolRegistry()
    entries = {"mcpServers": {"bad": acting("asks-model", sampling=allowed)}}
    with McpServers(entries, registry, sample=sample if has_callback else None, patience=PATIENCE):
        result = registry.execute_sync(ToolCall("answer", {}, "id"))
    assert words in result.content


class Play:
    """One server with a scripted behaviour, and a user who answers."""

    def __init__(self, manner: str, action: str | None = None, **settings: Any) -> None:
        self.questions: list[Elicitation] = []
        self.events: queue.Queue[ServerEvent] = queue.Queue()
        self.registry = ToolRegistry(timeout=PATIENCE)
        self._action: Any = action

        def elicit(question: Elicitation) -> ElicitationAnswer:
            self.questions.append(question)
            return ElicitationAnswer(self._action)

        self.servers = McpServers(
            {"mcpServers": {"actor": acting(manner)}},
            self.registry,
            elicit=None if action is None else elicit,
            on_event=self.events.put,
            patience=PATIENCE,
            **settings,
        )

    def call(self, name: str = "answer") -> ToolResult:
        return self.registry.execute_sync(ToolCall(name, {}, "id"))


@pytest.mark.parametrize(("action", "count"), [("accept", 1), ("decline", 1), (None, 0)])
def test_an_address_is_shown_and_left_to_the_user(action: str | None, count: int) -> None:
    play = Play("asks-url", action)
    with play.servers:
        assert f'"action": "{action or "decline"}"' in play.call().content
    shown = Elicitation("actor", "Pay here.", "url", url="https://pay.example/1")
    asked = [replace(each, call=None, conversations=()) for each in play.questions]
    assert asked == [shown] * count


def test_an_address_that_is_no_web_address_is_not_even_shown() -> None:
    play = Play("asks-script", "accept")
    with play.servers:
        assert '"action": "decline"' in play.call().content
    assert play.questions == []


def test_a_call_that_needs_a_visit_first_is_repeated_after_it() -> None:
    play = Play("visit", "accept")
    with play.servers:
        assert play.call().content == "visit answers"
    assert [question.url for question in play.questions] == ["https://pay.example/1"]


def test_a_call_that_needs_a_visit_is_not_repeated_without_it() -> None:
    play = Play("visit", "cancel")
    with play.servers:
        assert "the user did not agree" in play.call().content


def test_roots_are_the_folders_the_program_names(tmp_path: Path) -> None:
    play = Play("asks-roots", roots=[tmp_path])
    with play.servers:
        assert tmp_path.resolve().as_uri() in play.call().content
    play = Play("asks-roots")
    with play.servers:
        assert "not supported" in play.call().content


def test_changes_of_older_servers_are_followed_too() -> None:
    play = Play("changes")
    with play.servers:
        assert play.call().content == "changed"
        while play.events.get(timeout=PATIENCE) != ListChanged("actor", "tools"):
            continue
        assert play.registry.names() == ["answer", "late"]


def test_hints_of_a_server_that_is_not_trusted_lower_no_policy() -> None:
    for trusted, policy in ((True, "always"), (False, "ask")):
        registry = ToolRegistry()
        entries = {"mcpServers": {"bad": acting("hints") | {"trusted": trusted}}}
        with McpServers(entries, registry, patience=PATIENCE):
            assert registry.approval("delete_everything") == policy
            assert registry.resume("delete_everything") == ("retry" if trusted else "ask")
            (listed,) = (x for x in registry.listing() if x.original == "delete_everything")
            assert ("reads" in listed.hints) == trusted


def test_what_was_allowed_is_asked_again_when_the_tool_changes() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Allow:
        asked.append(request.description)
        return Allow("conversation")

    registry = ToolRegistry(approve=approve)
    events: queue.Queue[ServerEvent] = queue.Queue()
    call = ToolCall("answer", {}, "id")
    entries = {"mcpServers": {"bad": acting("turns") | {"trusted": False}}}
    with McpServers(entries, registry, on_event=events.put, patience=PATIENCE):
        registry.execute_sync(call, conversation="c")
        while events.get(timeout=PATIENCE) != ListChanged("bad", "tools"):
            continue
        registry.execute_sync(call, conversation="c")
        registry.execute_sync(call, conversation="c")
    assert asked == ["", "Deletes your files."]


@pytest.mark.parametrize("action", ["accept", "decline"])
@pytest.mark.parametrize(("manner", "most"), [("asks-forever", 20), ("asks-at-once", 20)])
def test_a_flood_of_questions_stops_after_a_few(manner: str, most: int, action: str) -> None:
    play = Play(manner, action)
    with play.servers:
        assert not play.call().is_error
    assert 0 < len(play.questions) <= (most if action == "accept" else 6)


@pytest.mark.skipif(sys.platform != "linux", reason="found in /proc")
def test_a_process_that_left_the_group_of_its_server_is_ended_too() -> None:
    play = Play("escapee")
    with play.servers:
        child = int(play.call().content)
        ended = os.pidfd_open(child)  # readable when the process has ended
    assert select.select([ended], [], [], PATIENCE)[0]
    os.close(ended)


def test_of_many_parts_the_first_are_kept_and_the_rest_is_said() -> None:
    result, _ = called("parts")
    assert result.content.startswith("x\nx\n")
    assert "99,000 more parts are left out" in result.content


@pytest.mark.parametrize(("manner", "name"), [("all-of", "vast"), ("deep-schema", "deep")])
def test_a_tool_with_too_large_a_schema_is_left_out(manner: str, name: str) -> None:
    scene = Scene(manner)

    async def run() -> list[str]:
        async with scene.running():
            return scene.names("bad")

    assert asyncio.run(run()) == ["answer"]
    assert f"its tool '{name}' is not offered" in scene.said()


#: Behaviours in groups, each next to one good server.
GROUPS = [list(hostile_mcp_server.BEHAVIOURS)[start::3] for start in range(3)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("behaviours", GROUPS, ids=lambda group: "-".join(group)[:60])
def test_whatever_servers_do_every_call_ends_and_the_good_one_answers(
    behaviours: list[str],
) -> None:
    registry = ToolRegistry(timeout=3.0)
    entries = {name: acting(name, startupTimeout=6.0) for name in behaviours}
    entries["neighbour"] = acting("good", timeout=PATIENCE)

    async def run() -> dict[str, ToolResult]:
        async with McpServers({"mcpServers": entries}, registry, backoff=(), patience=PATIENCE):
            answers = {
                item.source: item.name for item in registry.listing() if item.original == "answer"
            }
            calls = [
                registry.execute(ToolCall(name, {}, f"id-{source}"))
                for source, name in answers.items()
            ]
            return dict(zip(answers, await asyncio.gather(*calls), strict=True))

    results = asyncio.run(run())
    assert results["neighbour"].content == "good answers"
    assert all(len(str(result.content)) < 1_000_000 for result in results.values())


def test_the_table_of_behaviours_is_long_enough() -> None:
    assert len(hostile_mcp_server.BEHAVIOURS) >= 40
