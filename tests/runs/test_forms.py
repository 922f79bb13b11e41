"""A tool server that asks the user during a call: the run reports the form, with the call that it belongs to."""

import asyncio

from tests.tools.conftest import everyday

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.events import Event, FormRequested, ToolFinished, ToolStarted
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.testing.simulator import Call, Say, Simulator
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer, McpServers
from multi_llm_chat.tools.mcp._server_requests import Answers, Callbacks, holding
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.tool import FORM_OBSERVER, ToolContext

PATIENCE = 60.0


def test_a_run_reports_the_form_of_its_tool_server():
    asked: list[Elicitation] = []

    async def elicit(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("accept", {"colour": "red"})

    registry = ToolRegistry(timeout=PATIENCE)
    replies = [Say(calls=[Call("paint", {})]), Say("It is red.")]
    with (
        Simulator(replies) as simulator,
        McpServers({"mcpServers": {"e": everyday()}}, registry, elicit=elicit, patience=PATIENCE),
        create_provider("openai", api_key="k", base_url=simulator.base_url("openai")) as provider,
        ChatService([provider], tools=registry) as service,
    ):
        events = list(service.process_message("Paint it."))
    (form,) = [event for event in events if isinstance(event, FormRequested)]
    assert (form.server, form.message, form.call.name) == ("e", "Which colour?", "paint")
    assert "colour" in form.schema["properties"]
    assert _order(events) == [ToolStarted, FormRequested, ToolFinished]
    (question,) = asked
    assert question.call is not None
    assert question.call.name == "paint"
    assert len(question.conversations) == 1


def _order(events: list[Event]) -> list[type[Event]]:
    return [type(e) for e in events if isinstance(e, (ToolStarted, FormRequested, ToolFinished))]


def test_a_server_of_the_older_protocol_does_not_say_which_call_asks():
    asked: list[Elicitation] = []
    reported: list[str] = []

    async def elicit(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("decline")

    def context(number: int, conversation: str) -> ToolContext:
        FORM_OBSERVER.set(lambda form: reported.append(form.call.tool_call_id))
        call = ToolCall("paint", {}, str(number))
        return ToolContext(call, conversation=conversation, loop=asyncio.get_running_loop())

    async def ask(*conversations: str) -> Elicitation:
        calls = [context(number, each) for number, each in enumerate(conversations)]
        answers = Answers(
            ServerSettings("e"), Callbacks(elicit=elicit), lambda: holding(calls), lambda: calls
        )
        await answers.ask(Elicitation("e", "Which colour?"))
        await asyncio.sleep(0)
        return asked.pop()

    one = asyncio.run(ask("a", "a"))
    assert one.conversations == ("a",)
    assert one.call == ToolCall("paint", {}, "1")  # the latest
    assert reported == ["1"]
    several = asyncio.run(ask("a", "b", "a"))
    assert several.conversations == ("a", "b")
    assert several.call is None
    assert reported == ["1"]  # no run reports a form that may belong to another run
