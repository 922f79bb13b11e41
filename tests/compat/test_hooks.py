"""Handlers that an application customises: hooks, its own bus, cancelling, compression, its own provider."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock  # noqa: TID251 - the mock is what is tested

import pytest
from tests.compat.applications import DIALECTS, HANDLERS, Application, model_of, payload_for

from multi_llm_chat import LLMProvider
from multi_llm_chat.compat.handlers import (
    Cancellation,
    EventTools,
    GptHandler,
    GptStreamingProcessor,
    StreamContext,
    StreamingRequest,
    StreamResult,
    serve_tools,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.testing.simulator import Call, Gate, Say, Simulator, encode_reply
from multi_llm_chat.tools import ToolRegistry


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture
def registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    def get_weather(location: str) -> str:
        """Get weather"""
        return f"Sunny in {location}"

    return tools


def weather(location: str) -> Call:
    return Call("get_weather", {"location": location})


# Hooks.


@pytest.mark.parametrize("name", ["convert_tool_definition", "_convert_tool_definition"])
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_replaced_conversion_is_called_with_the_definition_in_anthropics_form(
    provider: str, name: str, registry: ToolRegistry
):
    seen: list[Any] = []

    def convert(self: Any, definition: Any) -> Any:
        seen.append(definition)
        base = HANDLERS[provider]
        return base.convert_tool_definition(self, definition | {"description": "Mine"})

    handler = type("Mine", (HANDLERS[provider],), {name: convert})(tools=registry)
    payload = handler.prepare_payload(payload_for(provider, "Hi"), model=model_of(provider))
    assert [sorted(one) for one in seen] == [["description", "input_schema", "name"]]
    assert "Mine" in json.dumps(payload["tools"])
    assert len(payload["tools"]) == 1


@pytest.mark.parametrize("name", ["handle_tool_calls", "_handle_tool_calls"])
def test_a_replaced_handling_of_calls_is_called_and_may_use_ours(
    name: str, simulator: Simulator, registry: ToolRegistry
):
    seen: list[Any] = []

    def handle(self: Any, calls: Any, response: Any, context: StreamContext) -> StreamResult:
        seen.append((calls, context.original_payload))
        return GptHandler.handle_tool_calls(self, calls, response, context)

    handler = type("Mine", (GptHandler,), {name: handle})(tools=registry)
    simulator.script.add(Say(calls=[weather("Paris")]), Say("It is sunny."))
    result = Application(simulator, "openai-chat", handler).ask("Weather?")
    assert result.text == "It is sunny."
    [(calls, payload)] = seen
    assert calls[0]["function"]["name"] == "get_weather"
    assert payload["messages"][0]["content"] == "Weather?"


def test_a_handling_that_gives_a_response_gives_the_result(
    simulator: Simulator, registry: ToolRegistry
):
    class Mine(GptHandler):
        def _handle_tool_calls(self, tool_calls: Any, standard_response: Any, context: Any) -> Any:
            return {"choices": [{"message": {"role": "assistant", "content": "Mine."}}]}

    simulator.script.add(Say(calls=[weather("Paris")]))
    result = Application(simulator, "openai-chat", Mine(tools=registry)).ask("Weather?")
    assert result.success
    assert result.response["choices"][0]["message"]["content"] == "Mine."


def test_a_replaced_continuation_is_sent(simulator: Simulator, registry: ToolRegistry):
    class Mine(GptHandler):
        def build_continuation_payload(
            self, original_payload: Any, assistant_response: Any, tool_results: Any
        ) -> Any:
            payload = super().build_continuation_payload(
                original_payload, assistant_response, tool_results
            )
            assert [sorted(one) for one in tool_results] == [
                ["content", "name", "role", "tool_call_id"]
            ]
            return payload | {"user": f"round {len(payload['messages'])}"}

    simulator.script.add(
        Say(calls=[weather("Paris")]), Say(calls=[weather("Rome")]), Say("Both are sunny.")
    )
    result = Application(simulator, "openai-chat", Mine(tools=registry)).ask("Weather?")
    assert (result.text, result.error) == ("Both are sunny.", None)
    assert [request.body.get("user") for request in simulator.requests] == ["u-1", "round 3", "round 5"]  # fmt: skip
    assert [request.violations for request in simulator.requests] == [()] * 3


@pytest.mark.parametrize("provider", DIALECTS)
def test_tools_and_their_prompt_may_be_given_as_in_seed_003(provider: str):
    tool = {"name": "web_search", "description": "Search", "input_schema": {"type": "object"}}
    handler = HANDLERS[provider](provider=provider)
    payload = payload_for(provider, "Hi")
    before = json.dumps(payload)
    assert json.dumps(handler.prepare_payload(payload, [], "Use tools.")) == before
    prepared = handler.prepare_payload(payload, [tool], "Use tools.", model=model_of(provider))
    assert "web_search" in json.dumps(prepared["tools"])
    assert "Use tools." in json.dumps(prepared)
    again = handler.prepare_payload(prepared, [tool], "Be brief.", model=model_of(provider))
    written = json.dumps(again)
    assert written.index("Use tools.") < written.index("Be brief.")


def test_a_registry_of_the_context_runs_the_calls(simulator: Simulator):
    class Registry:
        def execute_tool(self, name: str, arguments: dict[str, Any]) -> str:
            if arguments["location"] == "nowhere":
                raise ValueError("no such place")
            return f"{name}: sunny in {arguments['location']}"

    simulator.script.add(Say(calls=[weather("Paris"), weather("nowhere")]), Say("Done."))
    application = Application(simulator, "openai-chat", GptHandler())
    result = application.ask("Weather?", tool_registry=Registry())
    results = [part for part in result.turns[1].parts if isinstance(part, ToolResult)]
    assert [part.content for part in results] == [
        "get_weather: sunny in Paris",
        "Error: no such place",
    ]
    assert result.text == "Done."


class OwnContext:
    """The earlier systems' own context: exactly these four attributes."""

    def __init__(self, application: Application, payload: dict[str, Any]) -> None:
        self.original_payload = payload
        self.make_request = application.context().make_request
        self.tool_registry = self
        self.output: list[Any] = []

    def execute_tool(self, name: str, _: Any) -> str:
        return f"{name} ran"

    def emit_stream_output(self, pieces: Any) -> None:
        self.output.extend(pieces)


def mocked(own: OwnContext) -> Any:
    mock = MagicMock()
    mock.original_payload = own.original_payload
    mock.make_request.side_effect = own.make_request
    mock.emit_stream_output.side_effect = own.emit_stream_output
    mock.tool_registry.execute_tool.return_value = "get_weather ran"
    return mock


@pytest.mark.parametrize("is_mock", [False, True])
def test_context_and_request_may_be_the_applications_own(is_mock: bool, simulator: Simulator):
    simulator.script.add(Say(calls=[weather("Paris")]), Say("Sunny."), Say("Again."))
    handler: Any = GptHandler()
    application = Application(simulator, "openai-chat", handler)
    payload = payload_for("openai-chat", "Weather?")
    own = OwnContext(application, payload)
    context = mocked(own) if is_mock else own
    request: Any = MagicMock(payload=payload) if is_mock else SimpleNamespace(payload=payload)
    result = handler.process_stream(application.send(payload), request, {}, context)
    assert (result.text, result.error) == ("Sunny.", None)
    kinds = ["tool_start", "tool_result", "text"]
    assert [piece["type"] for piece in own.output] == kinds
    assert own.output[1]["tool_result"] == "get_weather ran"
    call = {"id": "call_9", "function": {"name": "get_weather", "arguments": "{}"}}
    again = handler._handle_tool_calls([call], {}, context)
    assert (again.success, again.text) == (True, "Again.")
    assert handler._execute_tools([call], context)[0]["content"] == "get_weather ran"


def test_a_request_without_a_payload_is_an_error_that_says_so():
    handler: Any = GptHandler()
    result = handler.process_stream(b"", object(), {}, StreamContext())
    assert not result.success
    assert "no payload" in str(result.error)


# The application's own bus.


class Bus:
    """A minimal bus; it calls handlers where an event is emitted."""

    def __init__(self, sends: str) -> None:
        self.handlers: dict[str, list[Callable[[Any], object]]] = {}
        self.emitted: list[str] = []
        setattr(self, sends, self._send)

    def subscribe(self, name: str, handler: Callable[[Any], object]) -> None:
        self.handlers.setdefault(name, []).append(handler)

    def _send(self, name: str, payload: Any) -> None:
        self.emitted.append(name)
        for handler in self.handlers.get(name, []):
            handler(payload)


@pytest.mark.parametrize("sends", ["emit_event", "publish"])
def test_a_foreign_bus_carries_tools_and_their_events(
    sends: str, simulator: Simulator, registry: ToolRegistry
):
    bus = Bus(sends)
    stop = serve_tools(registry, bus)
    simulator.script.add(Say(calls=[weather("Paris"), weather("Rome")]), Say("Sunny."))
    result = Application(simulator, "openai-chat", GptHandler(bus)).ask("Weather?")
    assert (result.text, result.error) == ("Sunny.", None)
    assert bus.emitted.count("tool_start") == bus.emitted.count("tool_result") == 2
    assert bus.emitted.count("execute_tool_request") == 2
    assert bus.emitted.count("tool_execution_response") == 2
    stop()


@pytest.mark.parametrize("sends", ["emit_event", "publish"])
def test_a_processor_on_its_own_takes_a_foreign_bus(sends: str):
    bus = Bus(sends)
    processor = GptStreamingProcessor(bus, logging.getLogger("mine"))
    processor.process(encode_reply("openai-chat", Say(calls=[weather("Paris")])).body)
    assert processor.has_tool_calls()
    assert bus.emitted == ["tool_start"]


def test_the_seeds_snippet_answers_on_a_foreign_bus_without_ids():
    bus: Any = Bus("emit_event")

    def on_execute(data: dict[str, Any]) -> None:
        bus.emit_event("tool_execution_response", {"result": f"{data['tool_name']} ran"})

    bus.subscribe("execute_tool_request", on_execute)

    def on_definitions(_: dict[str, Any]) -> None:
        bus.emit_event("enabled_tools_response", {"tool_definitions": []})

    bus.subscribe("get_enabled_tools_request", on_definitions)
    tools = EventTools(bus)
    assert tools.definitions() == ()
    assert tools.submit(ToolCall("search", {}, "c1")).result(20).content == "search ran"


def test_what_is_no_bus_is_refused():
    with pytest.raises(UsageError, match="no event system"):
        GptHandler(object())


def test_what_listeners_raise_is_logged_and_does_not_stop_the_run(
    simulator: Simulator, registry: ToolRegistry, caplog: pytest.LogCaptureFixture
):
    pieces: list[Any] = []

    def broken(*_: Any) -> None:
        raise RuntimeError("my mistake")

    bus: Any = Bus("emit_event")
    serve_tools(registry, bus)
    bus.subscribe("tool_start", broken)
    simulator.script.add(Say(calls=[weather("Paris")]), Say("Sunny."))
    application = Application(simulator, "openai-chat", GptHandler(bus, logging.getLogger("mine")))
    payload = application.handler.prepare_payload(payload_for("openai-chat", "Weather?"))
    request = StreamingRequest("request", payload, pieces.append)
    context = application.context(emit_stream_output=broken)
    result = application.handler.process_stream(application.send(payload), request, {}, context)
    assert result.text == "Sunny."
    assert [piece["type"] for piece in pieces if piece["type"] != "text"] == ["tool_start", "tool_result"]  # fmt: skip
    assert [record.name for record in caplog.records if record.levelname == "WARNING"].count("mine")
    assert "my mistake" in caplog.text


# Cancelling.


@pytest.mark.parametrize("provider", DIALECTS)
def test_a_run_is_cancelled_while_its_reply_streams(
    provider: str, simulator: Simulator, registry: ToolRegistry
):
    gate = Gate(after_frames=6)
    simulator.script.add(Say("One two three four five six seven", delta_size=4, faults=[gate]))
    handler = HANDLERS[provider](tools=registry, provider=provider)
    application = Application(simulator, provider, handler)

    speaking = threading.Event()

    def note(_: Any) -> None:
        speaking.set()

    def cancel() -> None:
        speaking.wait(20)
        gate.wait_reached()
        handler.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    # The gate stays closed: only the cancellation ends this.
    result = application.ask("Count.", emit_stream_output=note)
    canceller.join()
    gate.open()
    assert (result.stop_reason, result.error) == ("cancelled", None)
    assert "seven" not in result.text


def test_a_run_is_cancelled_while_a_tool_runs(simulator: Simulator):
    tools = ToolRegistry()
    started, ended = threading.Event(), threading.Event()

    @tools.tool
    async def wait() -> str:
        """Waits."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    simulator.script.add(Say(calls=[Call("wait", {})]))
    cancellation = Cancellation()
    application = Application(simulator, "openai-chat", GptHandler(tools=tools))
    canceller = threading.Thread(target=lambda: (started.wait(20), cancellation.cancel()))
    canceller.start()
    result = application.ask("Wait.", cancellation=cancellation)
    canceller.join()
    assert ended.wait(20)
    assert result.stop_reason == "cancelled"
    assert [turn.role for turn in result.turns] == ["chatgpt", "tool"]
    assert len(simulator.requests) == 1


# Compression.


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_a_continuation_fits_the_models_window(
    provider: str, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
):
    """181 KB of results were sent to a model with a window of 8,192 tokens."""
    monkeypatch.setenv("DEFAULT_MAX_CONTEXT_LENGTH", "8192")
    tools = ToolRegistry(max_output=200_000)

    @tools.tool
    def read_page(number: int) -> str:
        """Read a page."""
        return f"page {number} " + "lorem ipsum " * 2_500

    model = "my-model"
    says = [Say(calls=[Call("read_page", {"number": number})]) for number in range(4)]
    simulator.script.add(*says, Say("Read."))
    handler = HANDLERS[provider](tools=tools, provider=provider)
    application = Application(simulator, provider, handler)
    payload = payload_for(provider, "Read four pages.") | {"model": model}
    handler.prepare_payload(payload)
    result = application.follow(payload, model=model)
    assert (result.text, result.error) == ("Read.", None)
    assert result.compressions
    assert all(len(request.content) < 60_000 for request in simulator.requests)
    assert [request.violations for request in simulator.requests] == [()] * 5
    results = [part for turn in result.turns for part in turn.parts if isinstance(part, ToolResult)]
    assert [len(str(part.content)) > 20_000 for part in results] == [True] * 4  # nothing is lost


# The application's own provider.


def test_a_handler_asks_a_provider_with_code_of_its_own(registry: ToolRegistry):
    class Mine(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            last = history[-1]["content"][0]
            if last["type"] == "text":
                call = {"name": tools[0]["name"], "arguments": {"location": "Paris"}}
                yield {"type": "tool_call", "content": call}
            else:
                yield {"type": "text", "content": f"I read: {last['content']}"}

    handler = GptHandler(tools=registry, provider=Mine())
    payload = handler.prepare_payload(payload_for("openai-chat", "Weather?"))
    response: dict[str, Any] = {}
    result = handler.process_stream(None, StreamingRequest("r", payload), response, StreamContext())
    assert (result.text, result.error) == ("I read: Sunny in Paris", None)
    assert response["choices"][0]["message"]["content"] == "I read: Sunny in Paris"


def test_the_seeds_private_names_work(registry: ToolRegistry):
    """Seed 004, "verifiche": each method that it lists can be called."""
    bus: Any = Bus("emit_event")
    serve_tools(registry, bus)
    handler: Any = GptHandler(bus, logging.getLogger("mine"))
    assert handler.supports_tools() == True  # noqa: E712 - as the seed writes it
    assert (handler.logger.name, handler.event_system is not None) == ("mine", True)
    [definition] = handler._request_tool_definitions()
    assert handler._convert_tool_definition(definition)["function"]["parameters"] == definition["input_schema"]  # fmt: skip
    assert handler._execute_tool_via_event("get_weather", {"location": "Paris"}) == "Sunny in Paris"
    call = {"id": "call_123", "function": {"name": "get_weather", "arguments": '{"location": "Rome"}'}}  # fmt: skip
    results = handler._execute_tools([call], StreamContext())
    assert results == [
        {"tool_call_id": "call_123", "role": "tool", "name": "get_weather", "content": "Sunny in Rome"}
    ]  # fmt: skip
    payload: dict[str, Any] = {"model": "gpt-4", "messages": [{"role": "user", "content": "Weather?"}]}  # fmt: skip
    reply = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call | {"type": "function"}]}}]}  # fmt: skip
    continued = handler._build_continuation_payload(payload, reply, results)
    assert [message["role"] for message in continued["messages"]] == ["user", "assistant", "tool"]
    assert len(payload["messages"]) == 1
    handler._on_tool_execution_response({"result": "late"})
    handler._on_enabled_tools_response({"tool_definitions": []})
