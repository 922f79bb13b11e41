"""One call, one result, whatever happens."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.values import Media, ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.tools import ToolContext, ToolOutput, ToolProgress, ToolRegistry
from multi_llm_chat.tools.tool import CallClock, Tool

PATIENCE = 20.0


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, "id-1")


def execute(registry: ToolRegistry, wanted: ToolCall, **settings: Any) -> ToolResult:
    return asyncio.run(registry.execute(wanted, **settings))


def add(first: int, second: int) -> int:
    return first + second


async def add_async(first: int, second: int) -> int:
    return first + second


def fail() -> None:
    raise KeyError("drawer")


def complain() -> None:
    raise ToolError("the printer is out of paper")


def leave() -> None:
    raise SystemExit(3)


async def leave_async() -> None:
    raise SystemExit(3)


def stop() -> None:
    raise StopIteration


def interrupt() -> None:
    raise KeyboardInterrupt


async def give_up() -> None:
    raise asyncio.CancelledError


async def hang() -> None:
    await asyncio.Event().wait()


def admit() -> ToolOutput:
    return ToolOutput("it did not work", is_error=True)


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry(timeout=PATIENCE)
    for function in (
        add,
        add_async,
        fail,
        complain,
        leave,
        leave_async,
        stop,
        give_up,
        admit,
        interrupt,
    ):
        registry.tool(function)
    registry.tool(timeout=0.01)(hang)
    return registry


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_a_tool_gives_its_value(registry: ToolRegistry, name: str) -> None:
    expected = ToolResult(name, 5, "id-1")
    assert execute(registry, call(name, first=2, second=3)) == expected
    assert registry.execute_sync(call(name, first=2, second=3)) == expected


@pytest.mark.parametrize(
    ("wanted", "words", "synthetic"),
    [
        (call("fail"), "KeyError: 'drawer'", False),
        (call("complain"), "failed: the printer is out of paper", False),
        (call("leave"), "SystemExit: 3", False),
        (call("leave_async"), "SystemExit: 3", False),
        (call("stop"), "StopIteration", False),
        (call("interrupt"), "KeyboardInterrupt", False),
        (call("admit"), "it did not work", False),
        (call("give_up"), "was cancelled", True),
        (call("hang"), "did not finish within 0.01 seconds and was stopped", True),
        (call("ad"), "There is no tool named 'ad'. Did you mean 'add'", True),
        (call("xyz"), "There is no tool named 'xyz'. Available: add, add_async", True),
        (call("add", first="2", second=3), '$.first: "2" is not of type "integer"', True),
        (call("add", first=2), '$: "second" is a required property', True),
        (call("add", first=2, second=3, third=4), "'third' was unexpected", True),
        (ToolCall("add", {}, "id-1", '{"first":', "not JSON"), "could not be used", True),
    ],
)
def test_every_failure_is_one_result_with_words_for_the_model(
    registry: ToolRegistry, wanted: ToolCall, words: str, synthetic: bool
) -> None:
    for result in (execute(registry, wanted), registry.execute_sync(wanted)):
        assert (result.name, result.tool_call_id) == (wanted.name, "id-1")
        assert result.is_error
        assert result.synthetic is synthetic
        assert words in result.content


def test_a_blocking_function_that_takes_too_long_is_left_behind_and_its_answer_discarded() -> None:
    registry = ToolRegistry(timeout=0.01)
    release, ended = threading.Event(), threading.Event()

    @registry.tool
    def block() -> str:
        release.wait(PATIENCE)
        ended.set()
        return "too late"

    async def run() -> ToolResult:
        result = await registry.execute(call("block"))
        release.set()
        await asyncio.to_thread(ended.wait, PATIENCE)
        return result

    result = asyncio.run(run())
    assert "could not be stopped and may still be running" in result.content
    assert result.is_error


def test_a_coroutine_that_does_not_obey_is_left_behind() -> None:
    registry = ToolRegistry(timeout=0.01)

    async def run() -> ToolResult:
        release = asyncio.Event()

        @registry.tool
        async def stubborn() -> str:
            while True:
                try:
                    await release.wait()
                    return "late"
                except asyncio.CancelledError:
                    continue

        result = await registry.execute(call("stubborn"))
        release.set()
        return result

    assert "could not be stopped" in asyncio.run(run()).content


def test_cancelling_the_caller_cancels_the_tool() -> None:
    registry = ToolRegistry()

    async def run() -> bool:
        started, cancelled = asyncio.Event(), asyncio.Event()

        @registry.tool
        async def wait() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        task = asyncio.ensure_future(registry.execute(call("wait")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return cancelled.is_set()

    assert asyncio.run(run())


def test_submitted_calls_run_at_the_same_time_and_can_be_cancelled() -> None:
    registry = ToolRegistry()
    both = threading.Barrier(2)

    @registry.tool
    def meet() -> str:
        both.wait(PATIENCE)
        return "met"

    @registry.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    first, second = registry.submit(call("meet")), registry.submit(call("meet"))
    assert first.result(PATIENCE).content == second.result(PATIENCE).content == "met"
    waiting = registry.submit(call("wait"))
    assert waiting.cancel()
    assert waiting.cancelled()


def test_progress_reaches_the_listener_and_stops_with_the_call(registry: ToolRegistry) -> None:
    contexts: list[ToolContext] = []

    @registry.tool
    def work(context: ToolContext) -> str:
        contexts.append(context)
        for step in range(3):
            context.progress(step, 3, f"step {step}")
        return "done"

    seen: list[ToolProgress] = []

    async def run() -> ToolResult:
        result = await registry.execute(
            call("work"), conversation="c", request_id="r", on_progress=seen.append
        )
        contexts[0].progress(4)
        await asyncio.sleep(0)
        return result

    assert asyncio.run(run()).content == "done"
    assert [event.progress for event in seen] == [0, 1, 2]
    assert seen[0] == ToolProgress("id-1", "work", 0, 3, "step 0", "r", "c")
    contexts[0].progress(5)  # the loop has ended; nothing happens


def test_a_listener_that_fails_does_not_break_the_call(registry: ToolRegistry) -> None:
    @registry.tool
    def work(context: ToolContext) -> str:
        context.progress(1)
        return "done"

    def fail(event: ToolProgress) -> None:
        raise ValueError(event)

    assert execute(registry, call("work"), on_progress=fail).content == "done"


def test_the_clock_is_paused_while_a_person_is_asked() -> None:
    async def run() -> tuple[list[bool], bool]:
        up: list[bool] = []
        loop = asyncio.get_running_loop()
        context, clock = ToolContext(call("ask"), loop=loop), CallClock(loop, 0.0)
        context.limited_by(clock)
        for change in (context.hold, context.hold, context.release):
            change()
            await asyncio.sleep(0)
            up.append(clock.ended.done())
        context.release()
        return up, await clock.ended

    assert asyncio.run(run()) == ([False, False, False], False)


def test_after_the_person_the_rest_of_the_time_is_counted_again() -> None:
    registry = ToolRegistry(timeout=0.05)

    @registry.tool
    async def ask(context: ToolContext) -> None:
        context.hold()
        context.release()
        await asyncio.Event().wait()

    assert "did not finish" in execute(registry, call("ask")).content


def test_waiting_for_oneself_is_refused(registry: ToolRegistry) -> None:
    @registry.tool
    async def nested() -> str:
        return str(registry.execute_sync(call("add", first=1, second=1)).content)

    @registry.tool
    def nested_in_a_thread() -> str:
        return str(registry.execute_sync(call("add", first=1, second=1)).content)

    assert "would wait for itself" in registry.execute_sync(call("nested")).content
    assert registry.execute_sync(call("nested_in_a_thread")).content == "2"


def test_tools_are_chosen_by_switches_and_by_the_allow_list(registry: ToolRegistry) -> None:
    assert "add" in [tool.name for tool in registry.definitions()]
    registry.disable("add")
    assert "add" not in [tool.name for tool in registry.definitions()]
    assert "switched off" in execute(registry, call("add", first=1, second=1)).content
    registry.enable("add")
    registry.allow(["add*"])
    assert [tool.name for tool in registry.definitions()] == ["add", "add_async"]
    assert "switched off" in execute(registry, call("fail")).content
    assert {item.name: item.enabled for item in registry.listing()}["fail"] is False
    registry.allow(None)
    assert registry.is_enabled("fail")
    with pytest.raises(UsageError, match="no tool named"):
        registry.disable("nothing")


def test_a_second_function_of_the_same_name_is_refused(registry: ToolRegistry) -> None:
    with pytest.raises(UsageError, match="already is a tool named 'add'"):
        registry.tool(name="add")(lambda: None)
    registry.remove("add")
    registry.tool(name="add")(lambda: "new")
    assert registry.definitions()[0].name == "add"
    assert execute(registry, call("add")).content == "new"


def test_interrupted_calls_of_unknown_tools_are_never_repeated(registry: ToolRegistry) -> None:
    registry.tool(name="safe", resume="retry")(lambda: None)
    assert [registry.resume(name) for name in ("safe", "add", "gone")] == ["retry", "ask", "never"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


async def mirror(value: Any) -> Any:
    return value


ANY_ARGUMENTS = ToolRegistry()
ANY_ARGUMENTS.tool(name="add")(add_async)
ANY_ARGUMENTS.tool(mirror)


@given(
    st.sampled_from(["add", "mirror", "", "nothing", "<b>"]),
    st.dictionaries(st.sampled_from(["first", "second", "value"]) | st.text(), JSON, max_size=4),
)
def test_no_arguments_make_it_raise(name: str, arguments: dict[str, Any]) -> None:
    result = asyncio.run(ANY_ARGUMENTS.execute(ToolCall(name, arguments, "x")))
    assert (result.name, result.tool_call_id) == (name, "x")


def test_tools_of_one_source_are_replaced_together_and_keep_their_names() -> None:
    registry = ToolRegistry()

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        return context.call.name

    registry.add(Tool("search", run))
    first = registry.replace_source("web", [Tool("search", run), Tool("open page", run)])
    second = registry.replace_source("files", [Tool("search", run)])
    assert (first, second) == (["web_search", "open_page"], ["files_search"])
    assert registry.origin("web_search") == ("web", "search")
    registry.replace_source("web", [])
    assert [tool.name for tool in registry.definitions()] == ["search", "files_search"]
    assert registry.replace_source("web", [Tool("open page", run)]) == ["open_page"]
    assert registry.definitions()[1] == ToolDefinition(
        "open_page", "", {"type": "object", "properties": {}}
    )


def test_names_with_markup_or_of_great_length_become_legal_and_lead_back() -> None:
    registry = ToolRegistry()

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        return "ran"

    wild = ["<script>alert(1)</script>", "x" * 300, "道具", "a b", "a.b", "a b"]
    names = registry.replace_source("wild", [Tool(name, run) for name in wild])
    assert len(set(names)) == len(names) == 5
    assert all(name.isascii() and len(name) <= 64 and "<" not in name for name in names)
    assert {registry.origin(name)[1] for name in names} == set(wild)
    assert all(execute(registry, call(name)).content == "ran" for name in names)


def test_a_schema_with_external_references_disables_only_its_own_tool() -> None:
    registry = ToolRegistry()

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        return "ran"

    outside = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/secret"}}}
    assert registry.replace_source("s", [Tool("bad", run, "", outside), Tool("good", run)]) == [
        "good"
    ]
    with pytest.raises(UsageError, match="cannot be used"):
        registry.add(Tool("bad", run, "", outside))


def test_a_long_complaint_is_cut_and_choices_are_named() -> None:
    registry = ToolRegistry()

    @registry.tool
    def pick(choice: int | None, word: str = "") -> None: ...

    del pick
    complaint = execute(registry, call("pick", choice="y" * 100_000, word=1)).content
    assert len(complaint) < 3_000
    assert "$.choice" in complaint
    assert 'expected anyOf [{"type":"integer"},{"type":"null"}]' in complaint


def test_media_stay_media(registry: ToolRegistry) -> None:
    registry.tool(name="draw")(lambda: ["a cat", Media("image/png", "aGk=")])
    assert execute(registry, call("draw")).content == [
        {"type": "text", "content": "a cat"},
        {"type": "media", "mime": "image/png", "data": "aGk="},
    ]
