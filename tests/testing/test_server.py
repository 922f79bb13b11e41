"""The server itself: HTTP, scripts, rules, the program, and cleanup."""

import asyncio
import gc
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from typing import Any

import pytest
from tests.testing.simulator_clients import ALL_ROWS, ask

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.errors import UsageError
from multi_llm_chat.testing import Simulator as ReexportedSimulator
from multi_llm_chat.testing.simulator import (
    Call,
    Gate,
    Prebuilt,
    RecordedRequest,
    Reply,
    Say,
    Script,
    Simulator,
    always,
    demo,
    echo,
    encode_reply,
)
from multi_llm_chat.testing.simulator.__main__ import main
from multi_llm_chat.testing.simulator.demonstration import agent, arguments_for

BODY = json.dumps({"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi"}]}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
SIZED = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


def _talk(simulator: Simulator, *pieces: bytes) -> bytes:
    """Send raw bytes; return everything that arrives until the server closes."""
    with socket.create_connection(("127.0.0.1", simulator.port), timeout=30) as client:
        for piece in pieces:
            client.sendall(piece)
        received = bytearray()
        while piece := client.recv(65536):
            received += piece
    return bytes(received)


CLOSING = SIZED.replace(b"Host", b"Connection: close\r\nHost")


def test_a_connection_is_kept_alive() -> None:
    with (
        Simulator(always(Say("Yes."))) as simulator,
        closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30)) as connection,
    ):
        used: set[Any] = set()
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", BODY)
            with connection.getresponse() as response:
                assert json.loads(response.read())["choices"][0]["message"]["content"] == "Yes."
            used.add(connection.sock)
        assert len(used) == 1
        assert len(simulator.requests) == 3


def test_pipelined_requests_are_answered_in_order() -> None:
    with Simulator([Say("First."), Say("Second.")]) as simulator:
        received = _talk(simulator, SIZED + CLOSING)
    assert received.index(b"First.") < received.index(b"Second.")


def test_a_chunked_request_is_read() -> None:
    half = len(BODY) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:half], BODY[half:]))
    head = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    with Simulator([Say("Yes.")]) as simulator:
        received = _talk(simulator, head, chunks[:9], chunks[9:], b"0\r\n\r\n")
        assert simulator.requests[0].content == BODY
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_request_that_comes_byte_by_byte_is_read() -> None:
    with Simulator([Say("Yes.")]) as simulator:
        received = _talk(simulator, *(CLOSING[i : i + 1] for i in range(len(CLOSING))))
    assert b"Yes." in received


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70000,
    ],
)
def test_nonsense_is_refused(nonsense: bytes) -> None:
    with Simulator() as simulator:
        assert _talk(simulator, nonsense).startswith(b"HTTP/1.1 400 ")


def test_a_streamed_reply_is_exactly_the_encoded_frames() -> None:
    say = Say("Hello.", calls=[Call("f", {"a": 1})])
    asked = json.loads(BODY) | {"stream": True}
    body = json.dumps(asked).encode()
    request = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with Simulator([say]) as simulator:
        received = _talk(simulator, request)
    frames = encode_reply("openai-chat", say, body=asked).frames
    expected = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)
    assert received.endswith(b"\r\n\r\n" + expected + b"0\r\n\r\n")


def test_gemini_streams_an_array_without_sse() -> None:
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    with (
        Simulator([Say("A longer answer.")]) as simulator,
        closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30)) as connection,
    ):
        connection.request("POST", "/v1beta/models/g:streamGenerateContent", json.dumps(body))
        with connection.getresponse() as response:
            chunks = json.loads(response.read())
    texts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in chunks]
    assert texts == ["A longer", " answer."]


def test_prebuilt_replies_are_sent_for_any_request() -> None:
    frames = encode_reply("openai-chat", Say("Fast.")).frames
    prebuilt = {"/fast": Prebuilt.stream(frames), "/whole": Prebuilt.whole(b"{}")}
    with (
        Simulator(prebuilt=prebuilt) as simulator,
        closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30)) as connection,
    ):
        for path, expected in (("/fast", b"".join(frames)), ("/whole", b"{}")):
            connection.request("POST", path, b"not even JSON")
            with connection.getresponse() as response:
                assert response.read() == expected
        assert len(simulator.requests) == 0


def test_each_provider_may_have_its_own_script() -> None:
    script = Script({"anthropic": [Say("From one.")]})
    script.add(Say("From all."))
    with Simulator(script) as simulator:
        assert ask(simulator, "gemini").text == "From all."
        assert ask(simulator, "anthropic").text == "From one."


def test_rules_may_stand_between_replies() -> None:
    with Simulator([Say("One."), echo]) as simulator:
        texts = [ask(simulator, "openai").text for _ in range(2)]
    assert texts == ["One.", "What is the weather in Rome?"]


def test_what_a_rule_raises_reaches_the_test() -> None:
    def broken(request: RecordedRequest) -> Reply:
        raise KeyError(request.provider)

    with pytest.raises(KeyError, match="groq"), Simulator(broken) as simulator:
        assert ask(simulator, "groq").error is not None


def test_many_clients_are_served_at_once() -> None:
    gates = [Gate() for _ in range(20)]
    with Simulator([Say("Yes, indeed.", faults=[gate]) for gate in gates]) as simulator:
        texts: list[str] = []
        clients = [
            threading.Thread(target=lambda: texts.append(ask(simulator, "openai-chat").text))
            for _ in gates
        ]
        for client in clients:
            client.start()
        for gate in gates:
            gate.wait_reached()
        assert len(simulator.requests.wait_for(20)) == 20
        for gate in gates:
            gate.open()
        for client in clients:
            client.join()
    assert texts == ["Yes, indeed."] * 20


def test_it_can_be_used_in_an_event_loop() -> None:
    async def talk() -> str:
        gate = Gate()
        async with Simulator([Say("Hello, loop.", faults=[gate])]) as simulator:
            asking = asyncio.create_task(asyncio.to_thread(ask, simulator, "anthropic"))
            await gate.reached.arrived()
            gate.open()
            return (await asking).text

    assert asyncio.run(talk()) == "Hello, loop."


def test_a_client_that_connects_while_it_stops_leaves_nothing() -> None:
    """Python complains about a socket that is collected before it was closed."""
    for _ in range(20):
        with Simulator() as simulator, ExitStack() as clients:
            for _ in range(20):
                address = ("127.0.0.1", simulator.port)
                clients.enter_context(socket.create_connection(address))
            simulator.stop()
        gc.collect()


def test_nothing_is_left_after_stop() -> None:
    before = threading.active_count()
    simulator = Simulator([Say("Yes.")]).start()
    port = simulator.port
    ask(simulator, "openai")
    simulator.stop()
    simulator.stop()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)
    with pytest.raises(UsageError, match="not running"):
        _ = simulator.url


def test_it_is_started_once_and_knows_its_providers() -> None:
    with Simulator() as simulator:
        with pytest.raises(UsageError, match="already"):
            simulator.start()
        with pytest.raises(UsageError, match="Unknown provider 'nobody'"):
            simulator.base_url("nobody")
        with pytest.raises(OSError, match=r"[Aa]ddress"):
            Simulator(port=simulator.port).start()
    assert ReexportedSimulator is Simulator


def test_it_needs_no_client_library() -> None:
    code = (
        "import sys; import multi_llm_chat.testing.simulator as s\n"
        "with s.Simulator([s.Say('x')]): pass\n"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'httpx', 'openai')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_the_demo_calls_a_tool_and_words_its_result(provider: str, stream: bool) -> None:
    with Simulator(demo) as simulator:
        said = ask(simulator, provider, stream=stream)
        assert [(call.name, call.arguments) for call in said.calls] == [
            ("get_weather", {"city": "Rome"})
        ]
        result = {
            "type": "tool_result",
            "name": "get_weather",
            "content": "25 °C and sunny",
            "tool_call_id": said.calls[0].tool_call_id,
        }
        question = {"role": "user", "content": "What is the weather in Rome?"}
        history = [question, said.turn, {"role": "tool", "content": [result]}]
        answer = ask(simulator, provider, stream=stream, history=history)
        assert answer.error is None
        assert "25 °C and sunny" in answer.text
        assert answer.calls == []


def test_the_demo_has_recognisable_speakers() -> None:
    with Simulator(demo) as simulator:
        hello = [{"role": "user", "content": "Hello!"}]
        texts = {
            ask(simulator, name, history=hello).text for name in ("openai", "gemini", "anthropic")
        }
    assert len(texts) == 3


@pytest.mark.parametrize(
    ("question", "tool", "expected"),
    [
        (
            "What is 12 * (3 + 4)?",
            {"expression": {"type": "string"}},
            {"expression": "12 * (3 + 4)"},
        ),
        (
            "Please calculate 2 + 40",
            {"a": {"type": "integer"}, "b": {"type": "number"}},
            {"a": 2, "b": 40.0},
        ),
    ],
)
def test_the_demo_calculates_with_a_tool(question: str, tool: Any, expected: Any) -> None:
    schema = {"type": "object", "properties": tool, "required": list(tool)}
    offered = [{"name": "calculator", "description": "Arithmetic", "inputSchema": schema}]
    with Simulator(demo) as simulator:
        history = [{"role": "user", "content": question}]
        outcome = ask(simulator, "anthropic", history=history, tools=offered)
    assert outcome.calls[0].arguments == expected


def test_the_program_prints_its_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()
    stop.set()
    assert main(["--port", "0", "--script", "demo"], stop) == 0
    printed = capsys.readouterr().out
    assert "Listening on http://127.0.0.1:" in printed
    assert all(f"/{name}" in printed for name in ALL_ROWS)


def test_the_program_reports_that_its_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with Simulator() as simulator, pytest.raises(SystemExit):
        main(["--port", str(simulator.port)])
    assert "Cannot listen" in capsys.readouterr().err


def test_the_program_ends_with_an_interrupt() -> None:
    command = [sys.executable, "-m", "multi_llm_chat.testing.simulator"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("Listening on http://127.0.0.1:")
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 0


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who are you?", "I am claude"),
        ("Which tools do you have?", "get_weather"),
        ("Count to five", "four, five"),
        ("Tell me a story", "You said: “Tell me a story”"),
    ],
)
def test_the_demo_understands_a_few_prompts(question: str, expected: str) -> None:
    with Simulator(demo) as simulator:
        outcome = ask(simulator, "anthropic", history=[{"role": "user", "content": question}])
    assert expected in outcome.text


def test_the_demo_fills_every_kind_of_parameter() -> None:
    schema: dict[str, Any] = {
        "properties": {
            "unit": {"enum": ["celsius", "kelvin"]},
            "cities": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"days": {"type": "integer"}}},
            "exact": {"type": "boolean"},
            "number": {"type": "number"},
        },
        "required": ["unit", "cities", "place", "exact", "number"],
    }
    question = "The weather for 3 days in New York, in kelvin?"
    assert arguments_for(schema, question) == {
        "unit": "kelvin",
        "cities": [question],
        "place": {"days": 3},
        "exact": True,
        "number": 3.0,
    }


def test_head_is_answered_without_a_body() -> None:
    head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Simulator([Say("Yes.")]) as simulator:
        received = _talk(simulator, head, CLOSING)
    first, _, rest = received.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert b"content-length: 0" in first.lower()
    assert rest.startswith(b"HTTP/1.1 200")
    assert b"Yes." in rest


def test_a_gemini_model_is_not_named_twice() -> None:
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}).encode()
    request = b"POST /v1beta/models/%s:generateContent HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-goog-api-key: k\r\nContent-Length: %d\r\n\r\n%s"  # fmt: skip
    with Simulator(always(Say("Yes."))) as simulator:
        assert b"Yes." in _talk(simulator, request % (b"gemini-3.7-flash", len(body), body))
        refused = _talk(simulator, request % (b"models/gemini-3.7-flash", len(body), body))
    assert refused.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    ("beta", "status"), [("context-management-2025-06-27", b"200"), ("effort-2025-11-24", b"400")]
)
def test_fields_of_a_beta_need_its_header(beta: str, status: bytes) -> None:
    """ANT-50, ANT-53."""
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    body = json.dumps({"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "context_management": edits}).encode()  # fmt: skip
    request = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nConnection: close\r\nanthropic-version: 2023-06-01\r\nanthropic-beta: claude-code-20250219,%s\r\nContent-Length: %d\r\n\r\n%s"  # fmt: skip
    with Simulator(always(Say("Yes."))) as simulator:
        received = _talk(simulator, request % (beta.encode(), len(body), body))
    assert received.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat", "gemini"])
def test_the_agents_model_takes_two_rounds_of_its_shell(provider: str) -> None:
    schema = {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}}, "required": ["command", "timeout"]}  # fmt: skip
    tools = [{"name": "Bash", "inputSchema": schema}]
    history: list[Any] = [{"role": "user", "content": "Write a note."}]
    with Simulator(agent) as simulator:
        for line in ("echo forty-two > note.txt", "cat note.txt"):
            said = ask(simulator, provider, history=history, tools=tools)
            call = said.calls[0]
            assert call.arguments == {"command": line, "timeout": 60_000}
            result = {"type": "tool_result", "name": "Bash", "content": "forty-two", "tool_call_id": call.tool_call_id}  # fmt: skip
            history += [said.turn, {"role": "tool", "content": [result]}]
        last = ask(simulator, provider, history=history, tools=tools)
    assert last.text == "The note says: forty-two"


def test_a_text_and_a_call_are_replies() -> None:
    script: Any = ["One.", Call("f", {"x": 1})]
    with Simulator(script) as simulator:
        provider = create_provider("claude", api_key="none", base_url=simulator.base_url("anthropic"))  # fmt: skip
        assert provider.complete("Hi").text == "One."
        assert provider.complete("Hi", tools=[{"name": "f", "inputSchema": {"type": "object"}}]).tool_calls[0].arguments == {"x": 1}  # fmt: skip
        provider.close()


def test_what_is_no_reply_is_refused_when_the_script_is_written() -> None:
    wrong: Any = [5]
    with pytest.raises(UsageError, match="not int"):
        Simulator(wrong)
