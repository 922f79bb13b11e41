"""Approvals of tools that one process requests and another one decides."""

import asyncio
from collections.abc import Generator

import pytest

from multi_llm_chat.chat.approvals import (
    deciding_in,
    read_decision,
    read_request,
    write_decision,
)
from multi_llm_chat.chat.tool_scope import ScopedTools, scope_of
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.store import (
    Store,
    begin_run,
    create,
    open_store,
    read_conversation_state,
    take_run,
)
from multi_llm_chat.store.questions import Question, answer_question
from multi_llm_chat.tools import Allow, Decision, Deny, ToolRegistry

ERASE = ToolCall("erase", {"path": "/古い"}, "call_1")


@pytest.fixture
def store() -> Generator[Store]:
    with open_store(":memory:") as store:
        yield store


def begin(host: RunHost) -> RunHost:
    """Begin a run in the conversation, owned by this process."""
    somebody = host.store.as_user("somebody")
    somebody.run(create, identifier="talk")
    run = somebody.run(begin_run, "talk", "claude", base=None)
    assert somebody.run(take_run, run, host.owner, 60_000) is not None
    return host


def tools_of(store: Store) -> ScopedTools:
    return tools_in(begin(RunHost(store)))


def tools_in(host: RunHost) -> ScopedTools:
    registry = ToolRegistry(approve=deciding_in(lambda: host))

    @registry.tool(approval="ask")
    def erase(path: str) -> str:
        """Erase a file."""
        return f"erased {path}"

    del erase
    return ScopedTools(registry, scope_of("somebody", "talk"))


async def asked(store: Store) -> Question:
    """Wait for the conversation's question, and return it."""
    while True:
        standing = await store.as_user("somebody").arun(read_conversation_state, "talk")
        if standing is not None and standing.questions:
            return standing.questions[0]
        await asyncio.sleep(0)


async def decided(store: Store, tools: ScopedTools, decision: Decision) -> ToolResult:
    calling = asyncio.ensure_future(tools.execute(ERASE))
    question = await asked(store)
    request = read_request(question)
    assert (request.call, request.tool, request.description) == (ERASE, "erase", "Erase a file.")
    owner = store.as_user("somebody")
    assert await owner.arun(answer_question, "talk", question.id, write_decision(decision))
    return await calling


async def no_question(store: Store) -> None:
    standing = await store.as_user("somebody").arun(read_conversation_state, "talk")
    assert standing is not None
    assert standing.questions == ()


def test_a_call_waits_until_somebody_who_looks_decides(store: Store):
    async def run() -> None:
        tools = tools_of(store)
        denied = await decided(store, tools, Deny("not today"))
        assert denied.is_error
        assert "not today" in denied.content
        assert (await decided(store, tools, Allow())).content == "erased /古い"
        changed = await decided(store, tools, Allow(arguments={"path": "/新"}))
        assert changed.content.endswith("erased /新")
        assert (await decided(store, tools, Allow("conversation"))).content == "erased /古い"
        assert (await tools.execute(ERASE)).content == "erased /古い"  # not asked again
        await no_question(store)

    asyncio.run(run())


def test_who_is_stopped_asks_nothing_any_more(store: Store):
    async def run() -> None:
        calling = asyncio.ensure_future(tools_of(store).execute(ERASE))
        question = await asked(store)
        calling.cancel()
        await asyncio.wait({calling})
        await no_question(store)
        owner, allowed = store.as_user("somebody"), write_decision(Allow())
        assert not await owner.arun(answer_question, "talk", question.id, allowed)

    asyncio.run(run())


def test_a_conversation_that_is_not_there_yet_is_waited_for():
    async def run() -> None:
        with open_store(":memory:") as store:
            host = RunHost(store)
            calling = asyncio.ensure_future(tools_in(host).execute(ERASE))
            begin(host)
            question = await asked(store)
            await store.as_user("somebody").arun(
                answer_question, "talk", question.id, write_decision(Allow())
            )
            assert (await calling).content == "erased /古い"

    asyncio.run(run())


def test_tools_outside_a_conversation_do_not_ask_for_approval(store: Store):
    registry = ToolRegistry(approve=deciding_in(lambda: RunHost(store)))
    registry.tool(name="erase", approval="ask")(str.upper)
    result = asyncio.run(registry.execute(ToolCall("erase", {"self": "x"}, "1"), conversation="c"))
    assert result.is_error
    assert "there is no user to ask" in result.content


@pytest.mark.parametrize(
    "decision",
    [Allow(), Allow("conversation"), Allow("once", {"path": "/新"}), Deny(), Deny("no")],
)
def test_a_decision_is_read_as_it_was_written(decision: Decision):
    assert read_decision(write_decision(decision)) == decision


def test_an_answer_that_is_none_denies():
    assert read_decision({"maybe": True}) == Deny()
