"""The official SDKs, asked over real HTTP, read the same streams to the same content."""

import json
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, cast

import pytest
from tests.dialects.corpus import Case, cases, run

from multi_llm_chat.events import Finish
from multi_llm_chat.history.values import Part, Text, Thinking, ToolCall

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDKs' own sources are not ours to mend
    import anthropic
    import openai
    from google import genai
    from google.genai import types as gemini_types
    from openai.lib.streaming._deltas import accumulate_delta


class Reading(NamedTuple):
    """What a reader made of a stream."""

    text: str
    calls: list[tuple[str, Any]]
    finish: str
    signatures: list[str]


class CorpusHandler(BaseHTTPRequestHandler):
    """Answers every request below ``/dialect/name/`` with that stream."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        dialect, name = self.path.split("/")[1:3]
        stream = next(c.stream for c in cases() if (c.dialect, c.name) == (dialect, name))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(stream)))
        self.end_headers()
        self.wfile.write(stream)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), CorpusHandler) as listener:
        thread = Thread(target=listener.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()
        thread.join()


def oracle_cases(dialect: str) -> pytest.MarkDecorator:
    chosen = [case for case in cases() if case.dialect == dialect and case.expected["oracle"]]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.id)


def ours(case: Case, *, raw_calls: bool) -> Reading:
    outcome = run(case.dialect, [case.stream])
    finish = outcome.events[-1]
    assert isinstance(finish, Finish)
    return Reading(
        "".join(part.content for part in outcome.parts if isinstance(part, Text)),
        [
            (part.name, part.raw_arguments or "" if raw_calls else part.arguments)
            for part in outcome.parts
            if isinstance(part, ToolCall)
        ],
        finish.raw,
        [signature for part in outcome.parts for signature in signatures(part)],
    )


def signatures(part: Part) -> list[str]:
    if not isinstance(part, Thinking):
        return []
    names = ("signature", "redacted", "encrypted_content", "thoughtSignature")
    return [part.opaque[name] for name in names if name in part.opaque]


@oracle_cases("openai_chat")
def test_the_openai_sdk_reads_chat_alike(case: Case, server: str) -> None:
    with openai.OpenAI(
        base_url=f"{server}/openai_chat/{case.name}", api_key="none", max_retries=0
    ) as client:
        message: dict[object, object] = {}
        finish = ""
        for chunk in client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], stream=True
        ):
            for choice in chunk.choices:
                message = accumulate_delta(message, cast("Any", choice.delta.to_dict()))
                finish = choice.finish_reason or finish
    calls = cast("list[dict[str, Any]]", message.get("tool_calls") or [])
    reading = Reading(
        str(message.get("content") or ""),
        [(call["function"]["name"], call["function"].get("arguments") or "") for call in calls],
        finish,
        [],
    )
    assert ours(case, raw_calls=True) == reading


@oracle_cases("openai_responses")
def test_the_openai_sdk_reads_responses_alike(case: Case, server: str) -> None:
    with openai.OpenAI(
        base_url=f"{server}/openai_responses/{case.name}", api_key="none", max_retries=0
    ) as client:
        events = list(client.responses.create(model="m", input="x", stream=True))
    last = events[-1]
    assert last.type in {"response.completed", "response.incomplete"}
    response = cast("Any", last).response
    details = response.incomplete_details
    reading = Reading(
        response.output_text,
        [(item.name, item.arguments) for item in response.output if item.type == "function_call"],
        details.reason if details else response.status,
        [item.encrypted_content for item in response.output if item.type == "reasoning"],
    )
    assert ours(case, raw_calls=True) == reading


@oracle_cases("anthropic")
def test_the_anthropic_sdk_reads_alike(case: Case, server: str) -> None:
    with (
        anthropic.Anthropic(
            base_url=f"{server}/anthropic/{case.name}", api_key="none", max_retries=0
        ) as client,
        client.messages.stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}]
        ) as stream,
    ):
        message = stream.get_final_message()
    blocks = cast("list[Any]", message.content)
    kept = {"thinking": "signature", "redacted_thinking": "data"}
    reading = Reading(
        "".join(block.text for block in blocks if block.type == "text"),
        [(block.name, block.input) for block in blocks if block.type == "tool_use"],
        message.stop_reason or "",
        [getattr(block, kept[block.type]) for block in blocks if block.type in kept],
    )
    assert ours(case, raw_calls=False) == reading
    outcome = run(case.dialect, [case.stream])
    ids = [part.tool_call_id for part in outcome.parts if isinstance(part, ToolCall)]
    assert ids == [block.id for block in blocks if block.type == "tool_use"]


@oracle_cases("gemini")
def test_the_google_sdk_reads_alike(case: Case, server: str) -> None:
    options = gemini_types.HttpOptions(base_url=f"{server}/gemini/{case.name}")
    parts: list[Any] = []
    finish = ""
    with genai.Client(api_key="none", http_options=options) as client:
        for chunk in client.models.generate_content_stream(model="m", contents="x"):
            for candidate in chunk.candidates or []:
                parts += (candidate.content and candidate.content.parts) or []
                finish = candidate.finish_reason.name if candidate.finish_reason else finish
    wire = json.loads(gemini_types.Content(parts=parts).model_dump_json(by_alias=True))
    reading = Reading(
        "".join(part.text or "" for part in parts if not part.thought),
        [(p.function_call.name, p.function_call.args or {}) for p in parts if p.function_call],
        finish,
        [
            # The SDK writes the bytes back in the URL-safe alphabet.
            part["thoughtSignature"].replace("-", "+").replace("_", "/")
            for part in wire["parts"]
            if part.get("thoughtSignature")
        ],
    )
    assert ours(case, raw_calls=False) == reading
