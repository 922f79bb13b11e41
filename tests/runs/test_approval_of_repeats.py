"""Interrupted tool calls that the user decides about."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from tests.cli.terminal.screens import Terminal
from tests.cli.test_repl import talking
from tests.runs.conftest import FEWER, places
from tests.runs.scene import Scene, provider, run_process, stream_of, text_of
from tests.runs.single_runs import begun, die_in_a_tool, driven, only, results
from tests.runs.worker_processes import begin
from tests.store.processes import SLOW

from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speakers import given_speakers
from multi_llm_chat.chat.tool_scope import SomeTools
from multi_llm_chat.cli.repl import DeferredApprovals
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.events import RunFinished
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.runs._replay import UNKNOWN
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.recovery import resume_runs
from multi_llm_chat.store import RecordedCall, Store, calls, open_store, path, run_info
from multi_llm_chat.testing.simulator import Call as Asked
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.tools import ToolContext, ToolRegistry
from multi_llm_chat.tools.approval import Allow, ApprovalCallback, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.tool import Approval, Resume

pytestmark = pytest.mark.fault

NewScene = Callable[..., Scene]


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


class Person:
    """Decides, and records the questions."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        return self.decision


def asking(
    approve: ApprovalCallback | None, approval: Approval = "always"
) -> tuple[ToolRegistry, list[str | None]]:
    """Return tools whose interrupted calls need approval, and the keys of the calls that were run."""
    tools = ToolRegistry(approve=approve)
    keys: list[str | None] = []

    @tools.tool(resume="ask", approval=approval)
    def look(number: int, context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        return str(number)

    return tools, keys


def interrupted(scene: Scene, store: Store) -> str:
    """Create a run whose process died in its first tool."""
    run_id = begun(store)
    assert run_process(die_in_a_tool, scene, "ask") == -signal.SIGKILL
    return run_id


def resume_run(scene: Scene, store: Store, tools: ToolRegistry) -> None:
    assert asyncio.run(driven(scene, store, only(store).id, tools, dead=only(store).owner)) == (
        "done"
    )


def looks(store: Store, run_id: str) -> list[RecordedCall]:
    return [call for call in store.run(calls, run_id) if call.name == "look"]


@pytest.mark.parametrize("approval", ["always", "ask"])
def test_the_user_lets_an_interrupted_call_be_made_again_and_is_asked_once(
    new_scene: NewScene, approval: Approval
):
    scene, person = new_scene(), Person(Allow())
    tools, keys = asking(person, approval)
    with open_store(scene.place) as store:
        run_id = interrupted(scene, store)
        resume_run(scene, store, tools)
        first, second = looks(store, run_id)
        content = results(store)[0].content
    assert (first.state, first.attempts) == ("done", 2)
    assert (second.state, second.attempts) == ("done", 1)
    assert keys == [f"{run_id}:1", f"{run_id}:5"]
    assert content == "0"
    # The second call is new: it needs approval only if every call does.
    assert [each.interrupted for each in person.asked] == [True, *[False] * (approval == "ask")]


@pytest.mark.parametrize("decision", [Deny("I do not know"), None], ids=["denied", "no approver"])
def test_a_call_whose_repeat_is_not_approved_has_an_unknown_outcome(
    new_scene: NewScene, decision: Decision | None
):
    scene = new_scene()
    tools, keys = asking(None if decision is None else Person(decision))
    with open_store(scene.place) as store:
        run_id = interrupted(scene, store)
        resume_run(scene, store, tools)
        first, _ = looks(store, run_id)
        assert results(store)[0].content == UNKNOWN
    assert (first.state, first.attempts) == ("unknown", 1)
    assert keys == [f"{run_id}:5"]


def test_a_tool_that_may_never_run_is_not_asked_about(new_scene: NewScene):
    scene, person = new_scene(), Person(Allow())
    tools, keys = asking(person, "never")
    with open_store(scene.place) as store:
        interrupted(scene, store)
        resume_run(scene, store, tools)
    assert person.asked == []
    assert keys == []


def test_who_is_asked_when_the_program_ends_is_asked_again_at_the_next_start(new_scene: NewScene):
    scene = new_scene()

    async def leave(store: Store, run_id: str) -> None:
        asked = asyncio.Event()

        async def silent(request: ApprovalRequest) -> Decision:
            asked.set()
            return await asyncio.Future[Decision]()

        tools, _ = asking(silent)
        task = asyncio.create_task(driven(scene, store, run_id, tools, dead=only(store).owner))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    person = Person(Allow())
    tools, keys = asking(person)
    with open_store(scene.place) as store:
        run_id = interrupted(scene, store)
        asyncio.run(leave(store, run_id))
        assert store.run(run_info, run_id).is_free
        assert [call.attempts for call in looks(store, run_id)] == [1]
        resume_run(scene, store, tools)
        assert [call.attempts for call in looks(store, run_id)] == [2, 1]
    assert len(person.asked) == 1
    assert keys[0] == f"{run_id}:1"


def test_while_the_user_is_asked_other_interrupted_answers_continue(new_scene: NewScene):
    scene = new_scene()

    async def both(store: Store) -> None:
        asked = asyncio.Event()

        async def silent(request: ApprovalRequest) -> Decision:
            asked.set()
            return await asyncio.Future[Decision]()

        tools, _ = asking(silent)
        async with provider(scene) as speaker:
            planner = Planner(Settings(), given_speakers({"robot": speaker}), tools)
            resuming = asyncio.create_task(
                resume_runs(RunHost(store, lease=0.4), RunResolver(planner))
            )
            await asked.wait()
            other = await asyncio.to_thread(begin, store, 2)
            assert isinstance((await stream_of(store, other))[-1], RunFinished)
            assert store.run(run_info, other).status == "done"
            assert not resuming.done()
            resuming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await resuming

    with open_store(scene.place) as store:
        run_id = interrupted(scene, store)
        asyncio.run(both(store))
        assert store.run(run_info, run_id).is_free


def test_a_speaker_is_not_asked_about_tools_that_it_does_not_have():
    person = Person(Allow())
    tools, _ = asking(person)
    call = ToolCall("look", {"number": 1}, "c")

    async def ask() -> list[bool]:
        some = [SomeTools(tools, patterns) for patterns in (["look"], ["other"])]
        return [await each.may_repeat(call) for each in some]

    assert asyncio.run(ask()) == [True, False]
    assert len(person.asked) == 1


def test_a_question_that_comes_while_nothing_is_shown_waits_for_the_users_next_line():
    announced, decided = SimpleQueue[str](), SimpleQueue[Decision]()
    later = DeferredApprovals(announced.put)
    person = Person(Allow())
    request = ApprovalRequest(ToolCall("look", {}, "c"), "look", interrupted=True)
    assert not later
    asking = threading.Thread(target=lambda: decided.put(later.approve(request)))
    asking.start()
    assert "look" in announced.get()
    assert later
    assert decided.empty()
    later.ask(person)
    asking.join()
    assert not later
    assert (person.asked, decided.get()) == ([request], Allow())


# Arguments that the user changed.

EDITED = {"number": 41}


def die_with_changed_arguments(scene: Scene, policy: Resume) -> None:
    """Resume the run, allow its first tool with other arguments, and die in that tool."""
    tools = ToolRegistry(approve=lambda _request: Allow(arguments=EDITED))

    @tools.tool(resume=policy, approval="ask")
    def look(number: int) -> str:
        assert number == EDITED["number"]
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    with open_store(scene.place) as store:
        asyncio.run(driven(scene, store, only(store).id, tools, dead=only(store).owner))


@pytest.mark.parametrize("policy", ["retry", "ask"])
@pytest.mark.parametrize("approval", ["always", "ask"])
def test_a_killed_call_runs_again_with_the_arguments_that_a_person_gave_it(
    new_scene: NewScene, policy: Resume, approval: Approval
):
    scene, person = new_scene(), Person(Allow())
    tools, ran = ToolRegistry(approve=person), list[int]()

    @tools.tool(resume=policy, approval=approval)
    def look(number: int) -> str:
        ran.append(number)
        return f"looked at {number}"

    with open_store(scene.place) as store:
        run_id = begun(store)
        assert run_process(die_with_changed_arguments, scene, policy) == -signal.SIGKILL
        resume_run(scene, store, tools)
        first, _ = looks(store, run_id)
        (_, calling, kept, *_) = store.run(path, "talk")
    assert ran == [41, 1]
    assert (as_object(first.result) or {})["arguments"] == EDITED
    written = next(part for part in calling.parts if isinstance(part, ToolCall))
    assert written.arguments == {"number": 0}
    assert kept.meta["arguments"] == {written.tool_call_id: EDITED}
    assert isinstance(kept.parts[0], ToolResult)
    assert kept.parts[0].content.startswith("[The user changed the arguments")
    assert kept.parts[0].content.endswith("looked at 41")
    if person.asked and person.asked[0].call.tool_call_id == written.tool_call_id:
        assert person.asked[0].call.arguments == EDITED
        assert person.asked[0].written == {"number": 0}
    assert bool(person.asked) == (policy == "ask" or approval == "ask")


def test_a_call_with_changed_arguments_that_is_given_up_says_with_which_ones_it_ran(
    new_scene: NewScene,
):
    scene = new_scene()
    tools, keys = asking(Person(Deny("I do not know")))
    with open_store(scene.place) as store:
        begun(store)
        assert run_process(die_with_changed_arguments, scene, "ask") == -signal.SIGKILL
        resume_run(scene, store, tools)
        (_, calling, kept, *_) = store.run(path, "talk")
        content = results(store)[0].content
    assert len(keys) == 1
    assert content.endswith(UNKNOWN)
    assert '{"number":41}' in content
    assert list(kept.meta["arguments"].values()) == [EDITED]
    assert calling.parts


SERVER = Path(__file__).with_name("keyed_server.py")


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
@pytest.mark.parametrize("command", ["chat", "runs resume"])
def test_the_user_is_asked_at_the_terminal_after_the_program_has_died(tmp_path: Path, command: str):
    ledger, file = tmp_path / "ledger", tmp_path / "data" / "conversations.db"
    entry = {"command": sys.executable, "args": [str(SERVER), str(ledger)], "alwaysAllow": ["send"]}
    (tmp_path / "config").mkdir()
    servers = json.dumps({"mcpServers": {"keyed": entry}})
    (tmp_path / "config" / "mcp.json").write_text(servers, encoding="utf-8")
    says = [Say("I send it.", calls=[Asked("send", {"number": 7})]), Say("It is sent.")]
    with talking(tmp_path, anthropic=says) as (terminal, mlc, _):
        terminal.send("send it\r")
        terminal.finish()
        with open_store(file) as store:
            info = only(store)
        words = ["chat"] if command == "chat" else ["runs", "resume", info.id]
        variables: dict[str, Any] = mlc.environment | {"TERM": "xterm-256color"}
        with Terminal("multi_llm_chat", *words, module=True, **variables) as second:
            if command == "chat":
                second.wait_for("send waits for your decision")
                second.send("\r")
            second.wait_for("was interrupted and may have done its work. Run it again?")
            second.send("y")
            with open_store(file) as store:
                events = asyncio.run(stream_of(store, info.id))
                assert isinstance(events[-1], RunFinished)
                assert only(store).status == "done"
                turns = store.run(path, info.conversation)
            if command == "chat":
                second.send("\x04")
            second.finish()
    assert text_of(turns[-1]) == "It is sent."
    assert ledger.read_text(encoding="utf-8").split() == [f"{info.id}:1"] * 2
