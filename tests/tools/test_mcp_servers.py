"""Real MCP servers, over stdio and over HTTP."""

import asyncio
import base64
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.tools.conftest import PATIENCE, HttpServer, Scene, everyday

from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.mcp import (
    ElicitationAnswer,
    ListChanged,
    Prompt,
    PromptArgument,
    Resource,
    ServerLogged,
    StateChanged,
)
from multi_llm_chat.tools.mcp.servers import McpServers
from multi_llm_chat.tools.tool import IDEMPOTENCY_KEY


def test_tools_run_and_their_results_become_parts(scene: Scene) -> None:
    assert scene.call("add", first=2, second=3) == ToolResult("add", "5", "id")
    picture = scene.call("picture").content
    assert picture[0] == {"type": "text", "content": "a picture:"}
    assert picture[1]["mime"] == "image/png"
    assert base64.b64decode(picture[1]["data"]).startswith(b"\x89PNG")


def test_an_error_of_the_tool_stays_an_error(scene: Scene) -> None:
    result = scene.call("broken")
    assert result.is_error
    assert not result.synthetic
    assert "the handle came off" in result.content


def test_arguments_are_checked_before_the_server_sees_them(scene: Scene) -> None:
    assert (
        '$.first: "two" is not of type "integer"'
        in scene.call("add", first="two", second=3).content
    )


def test_hints_decide_who_is_asked(scene: Scene) -> None:
    assert scene.registry.approval("add") == "always"
    assert scene.registry.approval("erase") == "ask"
    assert scene.registry.resume("add") == "retry"
    assert "needs the user's approval" in scene.call("erase", path="x").content


def test_hints_are_shown_to_the_person_who_is_asked(scene: Scene) -> None:
    hints = {each.original: each.hints for each in scene.registry.listing()}
    assert hints["add"] == ("reads",)
    assert hints["erase"] == ("deletes",)


def test_progress_and_logs_are_reported(scene: Scene) -> None:
    result, seen = scene.watched("steps")
    assert result.content == "arrived"
    assert [(event.progress, event.total, event.message) for event in seen] == [
        (step, 3, f"step {step}") for step in (1, 2, 3)
    ]
    logged = scene.wait_for(
        lambda event: isinstance(event, ServerLogged) and event.logger != "stderr"
    )
    assert logged == ServerLogged("everyday", "info", "walked three steps")


def test_a_call_of_a_kept_run_carries_its_idempotency_key(scene: Scene) -> None:
    assert scene.call("key").content == "None"
    before = IDEMPOTENCY_KEY.set("run:1")
    try:
        assert scene.call("key").content == "run:1"
    finally:
        IDEMPOTENCY_KEY.reset(before)


def test_a_question_to_the_user_is_asked_and_answered(scene: Scene) -> None:
    scene.answer = ElicitationAnswer("accept", {"colour": "green"})
    assert scene.call("paint").content == "painted it green"
    question = scene.questions[-1]
    assert (question.server, question.mode, question.message) == (
        "everyday",
        "form",
        "Which colour?",
    )
    assert list(question.schema["properties"]) == ["colour"]


def test_a_declined_question_ends_the_call(scene: Scene) -> None:
    scene.answer = ElicitationAnswer("decline")
    assert scene.call("paint").is_error


def test_resources_and_prompts_are_readable(scene: Scene) -> None:
    async def read() -> tuple[Any, ...]:
        servers = scene.servers
        return (
            await servers.resources("everyday"),
            await servers.read_resource("everyday", "note://today"),
            await servers.read_resource("everyday", "note://monday"),
            await servers.prompts("everyday"),
            await servers.get_prompt("everyday", "greet", {"name": "Ada"}),
        )

    resources, today, monday, prompts, greeting = asyncio.run(read())
    assert Resource("everyday", "note://today", "note", "Today's note.", "text/plain") in resources
    assert [item.uri for item in resources if item.template] == ["note://{day}"]
    assert (today, monday) == ([Text("buy milk")], [Text("nothing on monday")])
    blank = PromptArgument("name", required=True)
    assert prompts == [Prompt("everyday", "greet", "Greets somebody.", (blank,))]
    assert greeting == [Turn("user", (Text("Please greet Ada."),))]


def test_a_resource_that_is_not_there_is_an_error_of_the_server(scene: Scene) -> None:
    with pytest.raises(ToolError, match="everyday"):
        asyncio.run(scene.servers.read_resource("everyday", "nothing://here"))
    with pytest.raises(UsageError, match="no MCP server named"):
        asyncio.run(scene.servers.resources("nobody"))


def test_calls_run_at_the_same_time_from_several_loops(scene: Scene) -> None:
    async def many() -> list[ToolResult]:
        calls = [ToolCall("add", {"first": n, "second": n}, str(n)) for n in range(20)]
        return await asyncio.gather(*(scene.registry.execute(call) for call in calls))

    results = asyncio.run(many())
    assert [(result.tool_call_id, result.content) for result in results] == [
        (str(n), str(2 * n)) for n in range(20)
    ]


def test_a_server_gets_its_settings_and_none_of_our_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUR_API_KEY", "secret")
    scene = Scene({"e": everyday(env={"GIVEN": "yes"}, cwd=str(tmp_path))})
    with scene.servers:
        assert scene.call("environment", name="GIVEN").content == "yes"
        assert scene.call("environment", name="OUR_API_KEY").content == "(not set)"
        assert Path(scene.call("folder").content) == tmp_path.resolve()


def test_a_server_that_ends_answers_its_calls_and_is_started_again() -> None:
    scene = Scene({"e": everyday()})
    with scene.servers:
        result = scene.call("die")
        assert result.is_error
        assert "goodbye, cruel world" in result.content
        assert scene.call("add", first=1, second=1).content == "2"
        assert scene.servers.states() == [StateChanged("e", "ready")]
    assert scene.servers.states() == [StateChanged("e", "stopped")]
    assert scene.names() == []
    assert "There is no tool" in scene.call("add", first=1, second=1).content


def test_a_remote_server_that_ends_is_found_again() -> None:
    server = HttpServer()
    try:
        scene = Scene({"e": {"url": server.url, "trusted": True}})
        with scene.servers:
            assert scene.call("die").is_error
            server.process.wait()
            server.run()
            assert scene.call("add", first=1, second=1).content == "2"
    finally:
        server.close()


def test_a_remote_result_that_is_too_large_is_an_error_of_that_call() -> None:
    server = HttpServer()
    try:
        scene = Scene({"e": {"url": server.url, "trusted": True}})
        with scene.servers:
            assert len(scene.call("large", size=1_000_000).content) < 60_000
            assert scene.call("large", size=50_000_000).is_error
            assert scene.call("add", first=1, second=1).content == "2"
    finally:
        server.close()


def test_a_changed_list_is_followed() -> None:
    scene = Scene({"e": everyday()})
    with scene.servers:
        assert "grown" not in scene.names()
        scene.call("grow")
        scene.wait_for(lambda event: event == ListChanged("e", "tools"))
        assert scene.call("grown").content == "here I am"


def test_several_servers_share_names_by_prefix_and_settings_choose_their_tools() -> None:
    scene = Scene(
        {
            "first": everyday(),
            "second": everyday(disabledTools=["die"], alwaysAllow=["erase"]),
            "third": everyday(disabled=True),
        }
    )
    with scene.servers:
        names = scene.names()
        assert names[:2] == ["add", "environment"]
        assert "second_add" in names
        assert "second_die" not in names
        assert not any(name.startswith("third") for name in names)
        assert scene.registry.origin("second_add") == ("second", "add")
        assert scene.call("second_erase", path="x").content == "erased x"
        assert scene.call("second_add", first=1, second=2) == ToolResult("second_add", "3", "id")


def test_without_a_callback_questions_are_declined() -> None:
    scene = Scene({"e": everyday()}, elicit=None)
    with scene.servers:
        assert scene.call("paint").is_error


def test_a_server_that_was_given_up_can_be_started_again(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    scene = Scene(
        {"e": {"command": sys.executable, "args": [str(script)], "trusted": True}}, backoff=()
    )
    with scene.servers:
        assert scene.servers.states()[0].state == "failed"
        shutil.copy(Path(__file__).parent / "servers" / "everyday.py", script)
        asyncio.run(scene.servers.restart("e"))
        assert scene.servers.states() == [StateChanged("e", "ready")]
        assert scene.call("add", first=1, second=1).content == "2"


def test_a_running_server_is_started_again_and_removed_alone() -> None:
    scene = Scene({"first": everyday(), "second": everyday()})
    with scene.servers:
        asyncio.run(scene.servers.restart("first"))
        assert scene.servers.states()[0] == StateChanged("first", "ready")
        assert scene.call("add", first=1, second=1).content == "2"
        asyncio.run(scene.servers.remove("first"))
        assert scene.servers.states() == [StateChanged("second", "ready")]
        assert "add" not in scene.names()
        assert scene.call("second_add", first=1, second=2).content == "3"


def test_the_time_server_from_the_package_index() -> None:
    if importlib.util.find_spec("mcp_server_time") is None:
        pytest.skip("mcp-server-time is not installed")
    registry = ToolRegistry(approve=None, timeout=PATIENCE)
    entry = {"command": sys.executable, "args": ["-m", "mcp_server_time"], "trusted": True}
    with McpServers({"mcpServers": {"time": entry}}, registry, patience=PATIENCE):
        for name in registry.names():
            registry.set_approval(name, "always")
        call = ToolCall("get_current_time", {"timezone": "Europe/Rome"}, "id")
        assert '"timezone": "Europe/Rome"' in registry.execute_sync(call).content


def test_the_everything_server_from_npm() -> None:
    # npm install --prefix FOLDER @modelcontextprotocol/server-everything; NODE_MODULES=FOLDER/node_modules
    modules = Path(os.environ.get("NODE_MODULES", "node_modules"))
    program = modules / ".bin" / "mcp-server-everything"
    if shutil.which("node") is None or not program.exists():
        pytest.skip(f"there is no Node, or no {program}")
    scene = Scene({"everything": {"command": str(program), "args": ["stdio"], "trusted": True}})
    with scene.servers:
        for name in scene.registry.names():
            scene.registry.set_approval(name, "always")
        assert "hello" in scene.call("echo", message="hello").content
        picture = scene.call("get-tiny-image").content
        assert "image/png" in [part.get("mime") for part in picture]
        assert asyncio.run(scene.servers.resources("everything"))
        assert asyncio.run(scene.servers.prompts("everything"))


def test_the_official_package_is_loaded_only_for_servers() -> None:
    code = (
        "import sys, multi_llm_chat.tools, multi_llm_chat.tools.mcp as m\n"
        "m.read_servers({'mcpServers': {}})\n"
        "assert not {'mcp', 'mcp_types', 'pydantic', 'httpx2'} & set(sys.modules)\n"
        "m.McpServers\n"
        "assert 'mcp' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_server_that_is_restarted_while_another_one_starts_offers_its_tools() -> None:
    registry, ready = ToolRegistry(), threading.Event()
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}

    def observe(event: object) -> None:
        if isinstance(event, StateChanged) and (event.server, event.state) == ("daily", "ready"):
            ready.set()

    async def restart_early() -> list[str]:
        entries = {"daily": everyday(), "silent": silent}
        servers = McpServers({"mcpServers": entries}, registry, on_event=observe, patience=PATIENCE)
        starting = asyncio.ensure_future(servers.start())
        try:
            assert await asyncio.to_thread(ready.wait, PATIENCE)
            await servers.restart("daily")
            assert not starting.done()
            return registry.names()
        finally:
            starting.cancel()
            await servers.stop()

    assert "add" in asyncio.run(restart_early())


def test_servers_that_begin_are_not_shown_as_stopped() -> None:
    async def run() -> None:
        servers = McpServers({"mcpServers": {"daily": everyday()}}, ToolRegistry())
        assert [each.state for each in servers.states()] == ["stopped"]
        await servers.begin()
        assert "stopped" not in [each.state for each in servers.states()]
        await servers.start()
        assert [each.state for each in servers.states()] == ["ready"]
        await servers.stop()

    asyncio.run(run())
