"""Approval: which tools may run."""

import asyncio
import fnmatch
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.schemas import values

from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.json_values import clean_json
from multi_llm_chat.history.values import Media, ToolCall, ToolResult
from multi_llm_chat.tools import Allow, ApprovalRequest, Deny, Tool, ToolContext, ToolRegistry
from multi_llm_chat.tools.approval import LONGEST_EDIT, edit_text, read_edit, visible_text


def saying(answer: Any) -> Callable[[ApprovalRequest], Any]:
    def answering(request: ApprovalRequest) -> Any:
        return answer

    return answering


def erase_with(approve: Any, approval: Any = "ask") -> ToolRegistry:
    registry = ToolRegistry(approve=approve)
    registry.tool(name="erase", description="Erases.", approval=approval)(lambda: "erased")
    return registry


def execute(registry: ToolRegistry, conversation: str | None = None) -> ToolResult:
    return asyncio.run(
        registry.execute(ToolCall("erase", {}, "1"), conversation=conversation, request_id="r")
    )


def test_without_anybody_to_ask_the_answer_is_no() -> None:
    result = execute(erase_with(None))
    assert result.is_error
    assert result.synthetic
    assert "no user can be asked" in result.content


def test_always_needs_no_question_and_never_no_answer() -> None:
    assert execute(erase_with(None, "always")).content == "erased"
    assert "not allowed to run" in execute(erase_with(saying(Allow()), "never")).content


def test_the_question_says_what_would_run() -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Allow:
        asked.append(request)
        return Allow()

    assert execute(erase_with(approve), "c").content == "erased"
    schema: Any = {"type": "object", "properties": {}, "additionalProperties": False}
    call = ToolCall("erase", {}, "1")
    assert asked == [ApprovalRequest(call, "erase", "", "Erases.", "c", "r", schema=schema)]


def test_a_denial_tells_the_model_why() -> None:
    result = execute(erase_with(saying(Deny("not on a Sunday"))))
    assert result.content == "The user denied this call of 'erase': not on a Sunday"


def test_once_is_asked_again_and_in_this_conversation_is_not() -> None:
    asked: list[str | None] = []
    answer = [Allow()]

    async def approve(request: ApprovalRequest) -> Allow:
        asked.append(request.conversation)
        return answer[0]

    registry = erase_with(approve)
    execute(registry, "a")
    execute(registry, "a")
    assert asked == ["a", "a"]
    answer[0] = Allow("conversation")
    execute(registry, "a")
    execute(registry, "a")
    execute(registry, "b")
    assert asked == ["a", "a", "a", "b"]
    registry.approvals.forget("a")
    execute(registry, "a")
    execute(registry, "b")
    assert asked == ["a", "a", "a", "b", "a"]
    execute(registry)
    execute(registry)
    assert asked[-2:] == [None, None]


def fail(request: ApprovalRequest) -> Any:
    raise OSError(request)


@pytest.mark.parametrize(
    "approve",
    [fail, saying(True), saying(None), saying("yes")],
    ids=["fails", "true", "nothing", "yes"],
)
def test_a_callback_that_fails_or_mumbles_means_no(approve: Any) -> None:
    result = execute(erase_with(approve))
    assert result.is_error
    assert "was not run" in result.content


def test_wrong_arguments_are_not_even_asked_about() -> None:
    registry = erase_with(fail)
    result = asyncio.run(registry.execute(ToolCall("erase", {"x": 1}, "1")))
    assert "do not fit its schema" in result.content


def test_the_policy_can_be_changed_by_the_user() -> None:
    registry = erase_with(None)
    registry.set_approval("erase", "always")
    assert execute(registry).content == "erased"
    assert registry.listing()[0].approval == "always"


def test_a_tool_that_changed_is_asked_about_again() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Allow:
        asked.append(request.description)
        return Allow("conversation")

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        return "ran"

    def offered(description: str) -> list[Tool]:
        return [Tool("erase", run, description, approval="ask")]

    registry = ToolRegistry(approve=approve)
    for description in ("harmless", "harmless", "reads your keys"):
        registry.replace_source("server", offered(description))
        assert execute(registry, "c").content == "ran"
    assert asked == ["harmless", "reads your keys"]


def test_rules_and_patterns_hold_for_tools_that_come_later() -> None:
    registry = ToolRegistry(
        disable=["secret_*"], rules={"delete_*": "never", "*_file": "ask", "*": "always"}
    )
    for name in ("secret_key", "delete_file", "read_file", "add"):
        registry.tool(name=name, description="Nothing.", approval="ask")(lambda: None)
    assert [each.name for each in registry.definitions()] == ["delete_file", "read_file", "add"]
    policies = [registry.approval(name) for name in ("delete_file", "read_file", "add")]
    assert policies == ["never", "ask", "always"]
    for name, runs in (("delete_file", False), ("read_file", False), ("add", True)):
        result = registry.execute_sync(ToolCall(name, {}, "1"))
        assert result.is_error is not runs
    registry.set_approval("add", "ask")
    registry.enable("secret_key")
    assert registry.approval("add") == "ask"
    assert registry.is_enabled("secret_key")
    registry.disable("secret_key")
    assert not registry.is_enabled("secret_key")


def test_who_lets_an_interrupted_call_be_made_again_is_asked_again_about_the_next() -> None:
    asked: list[bool] = []

    def approve(request: ApprovalRequest) -> Allow:
        asked.append(request.interrupted)
        return Allow()

    registry = ToolRegistry(approve=approve)
    registry.tool(approval="ask", name="look")(lambda: "seen")
    call = ToolCall("look", {}, "c")

    async def again(policy: Any) -> None:
        registry.set_approval("look", policy)
        assert await registry.may_repeat(call, conversation="talk")
        for _ in range(2):
            assert (await registry.execute(call, conversation="talk")).content == "seen"

    asyncio.run(again("ask"))
    assert asked == [True, False]
    asyncio.run(again("always"))
    registry.set_approval("look", "ask")
    asyncio.run(registry.execute(call, conversation="talk"))
    assert asked == [True, False, True, False]
    registry.set_approval("look", "never")
    assert not asyncio.run(registry.may_repeat(call, conversation="talk"))


async def _run(arguments: dict[str, Any], context: ToolContext[Any]) -> str:
    return "done"


@given(
    st.sampled_from(["files", "other", ""]),
    st.sampled_from(["read_file", "write_file"]),
    st.sampled_from(["files/read_file", "files/*", "*/read_file", "/read_file", "read_file", "*"]),
)
def test_a_rule_with_a_source_holds_for_tools_of_that_source_alone(
    source: str, name: str, pattern: str
) -> None:
    registry = ToolRegistry(rules={pattern: "never"})
    offered = registry.add(Tool(name, _run, "", {"type": "object"}, source))
    ruled = fnmatch.fnmatchcase(f"{source}/{name}" if "/" in pattern else name, pattern)
    assert (registry.approval(offered) == "never") == ruled


def test_a_rule_without_a_source_that_lets_a_servers_tool_run_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = ToolRegistry(rules={"read_file": "always", "files/*": "always"})
    foreign = Tool("read_file", _run, "", {"type": "object"}, approval="ask")
    registry.replace_source("evil", [foreign])
    registry.replace_source("evil", [foreign])
    assert registry.approval("read_file") == "always"
    (record,) = caplog.records
    assert "names no server" in record.getMessage()
    assert "evil/read_file" in record.getMessage()


def test_the_rule_with_a_tools_exact_name_decides_before_patterns() -> None:
    registry = ToolRegistry(rules={"files/*": "never", "files/read_file": "always"})
    registry.replace_source(
        "files", [Tool(name, _run, "", {"type": "object"}) for name in ("read_file", "delete_file")]
    )
    assert registry.approval("read_file") == "always"
    assert registry.approval("delete_file") == "never"
    registry.set_approval("delete_file", "always")
    registry.set_rules({"files/*": "ask"})
    assert registry.approval("read_file") == registry.approval("delete_file") == "ask"


# Changed arguments.

_JSON = st.dictionaries(
    st.text(max_size=4),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | values,
    max_size=4,
).filter(lambda each: clean_json(each) is each)


def noting(approve: Any, schema: dict[str, Any] | None = None) -> tuple[ToolRegistry, list[Any]]:
    """Return a registry with a tool that needs approval, and the arguments with which it ran."""
    ran: list[Any] = []

    async def note(arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        ran.append((arguments, context.call.arguments))
        return "done"

    registry = ToolRegistry(approve=approve)
    registry.add(Tool("note", note, schema=schema or {"type": "object"}, approval="ask"))
    return registry, ran


@given(_JSON, _JSON)
def test_what_runs_is_what_was_approved_and_the_model_reads_of_the_change(
    written: dict[str, Any], edited: dict[str, Any]
) -> None:
    registry, ran = noting(saying(Allow(arguments=edited)))
    result = registry.execute_sync(ToolCall("note", written, "1"))
    (arguments, seen) = ran[0]
    assert exactly(arguments) == exactly(seen) == exactly(edited)
    assert not result.is_error
    if exactly(written) == exactly(edited):
        assert result.content == "done"
    else:
        note, _, rest = result.content.partition("\n\n")
        assert note.startswith("[The user changed the arguments of this call before allowing it.")
        assert rest == "done"


def exactly(value: Any) -> str:
    """Return the value as text: in Python, True and 1 are equal."""
    return json.dumps(value, sort_keys=True)


@given(_JSON, _JSON)
def test_the_text_to_edit_is_read_as_it_was_written_and_hides_nothing(
    arguments: dict[str, Any], other: dict[str, Any]
) -> None:
    text = edit_text(arguments)
    assert visible_text(text) == text
    request = ApprovalRequest(ToolCall("note", other, "1"), "note")
    read = read_edit(request, text)
    if exactly(arguments) == exactly(other):
        assert read is None
    else:
        assert exactly(read) == exactly(arguments)


_COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "7",
        '{"count": "many"}',
        "{}",
        '{"count": 1, "count": 2}',
        '{"count": NaN}',
        '{"count": 1e999}',
        '{"count": 1, "more": "\\u0000"}',
        "[" * 100_000,
        '{"count": 1, "more": ' + "[" * 80 + "]" * 80 + "}",
        " " * (LONGEST_EDIT + 1),
    ],
    ids=range(13),
)
def test_text_that_is_not_json_or_does_not_fit_is_refused(text: str) -> None:
    request = ApprovalRequest(ToolCall("note", {"count": 1}, "1"), "note", schema=_COUNT)
    with pytest.raises(UsageError) as refused:
        read_edit(request, text)
    assert len(str(refused.value)) < 3_000


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('"a\\u0000b"', r"$.more contains the character \u0000, which cannot be sent: remove it."),
        ('[{"x": "\\ud800"}]', "$.more[0].x contains half a character"),
        ('{"\\u0000": 1}', r"A name in $.more contains the character \u0000"),
        ("1e999", "$.more is not plain JSON"),
        ("[" * 80 + "]" * 80, "deep: write it flatter"),
    ],
)
def test_a_refusal_says_what_to_change_and_where(more: str, words: str) -> None:
    request = ApprovalRequest(ToolCall("note", {"count": 1}, "1"), "note", schema=_COUNT)
    with pytest.raises(UsageError) as refused:
        read_edit(request, f'{{"count": 1, "more": {more}}}')
    assert words in str(refused.value)


@pytest.mark.parametrize("edited", [{"count": "many"}, {}, {"count": float("nan")}, "text", [1]])
def test_nothing_runs_with_changed_arguments_that_do_not_fit(edited: Any) -> None:
    registry, ran = noting(saying(Allow(arguments=edited)), _COUNT)
    result = registry.execute_sync(ToolCall("note", {"count": 1}, "1"))
    assert ran == []
    assert result.is_error
    assert "the user changed its arguments" in result.content


def test_changed_arguments_are_for_one_call_and_the_permission_for_the_conversation() -> None:
    registry, ran = noting(saying(Allow("conversation", {"count": 2})), _COUNT)
    call = ToolCall("note", {"count": 1}, "1")
    for _ in range(2):
        registry.execute_sync(call, conversation="talk")
    assert [arguments for arguments, _ in ran] == [{"count": 2}, {"count": 1}]


def test_who_repeats_an_interrupted_call_may_change_it() -> None:
    registry, ran = noting(saying(Allow(arguments={"count": 2})), _COUNT)
    call = ToolCall("note", {"count": 1}, "1")

    async def repeat() -> ToolResult:
        assert await registry.may_repeat(call, conversation="talk")
        return await registry.execute(call, conversation="talk")

    assert "changed the arguments" in asyncio.run(repeat()).content
    assert [arguments for arguments, _ in ran] == [{"count": 2}]


def test_the_note_stands_before_pictures_failures_and_json() -> None:
    async def run(arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        if arguments["as"] == "failure":
            raise ToolError("no")
        return {"picture": [Media("image/png", "QUJD")], "json": {"a": [1]}}[arguments["as"]]

    def result(kind: str) -> ToolResult:
        registry = ToolRegistry(approve=saying(Allow(arguments={"as": kind})))
        registry.add(Tool("note", run, approval="ask"))
        return registry.execute_sync(ToolCall("note", {}, "1"))

    picture, plain, failure = result("picture"), result("json"), result("failure")
    assert "changed the arguments" in picture.content[0]["content"]
    assert picture.content[1]["type"] == "media"
    assert plain.content.endswith('\n\n{"a":[1]}')
    assert failure.is_error
    assert failure.content.endswith("failed: no")
    assert "changed the arguments" in failure.content
