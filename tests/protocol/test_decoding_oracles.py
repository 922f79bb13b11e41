"""Our client and the official SDKs read the same content from the whole corpus, over real HTTP.

Where the corpus says that an SDK cannot read a stream as the provider meant it (an unknown quirk, or an
error), the test checks that too: the SDK fails, or reads something else.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, cast

import pytest
from tests.protocol.corpus import Case, Outcome, as_json, cases, expected_parts

from multi_llm_chat import create_provider
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, Finish
from multi_llm_chat.history.values import Part, Text, Thinking, ToolCall
from multi_llm_chat.protocol.retry import RetryPolicy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings in the SDKs' sources are not ours to fix
    import anthropic
    import openai
    from google import genai
    from google.genai import types as gemini_types
    from openai.lib.streaming._deltas import accumulate_delta


class Reading(NamedTuple):
    """What a client read from a stream."""

    text: str
    calls: list[tuple[str, Any]]
    finish: str
    signatures: list[str]


class UnreadableError(Exception):
    """The SDK could not read a whole reply."""


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


#: The provider row of each dialect, whose address serves the corpus.
ROWS = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
ONCE = RetryPolicy(attempts=1, repair=False)


def ask(case: Case, server: str) -> Outcome:
    """Return what our client reads from a stream."""
    address = f"{server}/{case.dialect}/{case.name}"
    row = ROWS[case.dialect]
    with create_provider(row, api_key="none", base_url=address, retry=ONCE) as provider:
        stream = provider.stream([{"role": "user", "content": "x"}])
        events: list[Event] = []
        try:
            for event in stream:
                events.append(event)  # noqa: PERF402  what came before an error counts too
        except ProviderError as error:
            return Outcome(events, error.partial.parts if error.partial else (), error)
        return Outcome(events, stream.reply.turn.parts, None)


def ours(case: Case, server: str) -> Reading:
    outcome = ask(case, server)
    if outcome.error is not None:
        raise UnreadableError from outcome.error
    finish = outcome.events[-1]
    assert isinstance(finish, Finish)
    return Reading(
        "".join(part.content for part in outcome.parts if isinstance(part, Text)),
        [
            (part.name, part.raw_arguments or "" if "openai" in case.dialect else part.arguments)
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


def read_chat(case: Case, server: str) -> Reading:
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
    return Reading(
        str(message.get("content") or ""),
        [(call["function"]["name"], call["function"].get("arguments") or "") for call in calls],
        finish,
        [],
    )


def read_responses(case: Case, server: str) -> Reading:
    with openai.OpenAI(
        base_url=f"{server}/openai_responses/{case.name}", api_key="none", max_retries=0
    ) as client:
        events = list(client.responses.create(model="m", input="x", stream=True))
    last = events[-1]
    if last.type not in {"response.completed", "response.incomplete"}:
        raise UnreadableError(last.type)
    response = cast("Any", last).response
    details = response.incomplete_details
    return Reading(
        response.output_text,
        [(item.name, item.arguments) for item in response.output if item.type == "function_call"],
        details.reason if details else response.status,
        [item.encrypted_content for item in response.output if item.type == "reasoning"],
    )


def read_anthropic(case: Case, server: str) -> Reading:
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
    return Reading(
        "".join(block.text for block in blocks if block.type == "text"),
        [(block.name, block.input) for block in blocks if block.type == "tool_use"],
        message.stop_reason or "",
        [getattr(block, kept[block.type]) for block in blocks if block.type in kept],
    )


def read_gemini(case: Case, server: str) -> Reading:
    options = gemini_types.HttpOptions(base_url=f"{server}/gemini/{case.name}")
    parts: list[Any] = []
    finish = ""
    with genai.Client(api_key="none", http_options=options) as client:
        for chunk in client.models.generate_content_stream(model="m", contents="x"):
            for candidate in chunk.candidates or []:
                parts += (candidate.content and candidate.content.parts) or []
                finish = candidate.finish_reason.name if candidate.finish_reason else finish
    wire = json.loads(gemini_types.Content(parts=parts).model_dump_json(by_alias=True))
    return Reading(
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


READERS: dict[str, Callable[[Case, str], Reading]] = {
    "openai_chat": read_chat,
    "openai_responses": read_responses,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
}


def in_the_corpus(*, oracle: bool) -> pytest.MarkDecorator:
    chosen = [case for case in cases() if case.expected["oracle"] is oracle]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.id)


@in_the_corpus(oracle=True)
def test_the_vendors_sdk_reads_as_our_client_does(case: Case, server: str) -> None:
    assert READERS[case.dialect](case, server) == ours(case, server)


@in_the_corpus(oracle=False)
def test_what_the_vendors_sdk_is_no_judge_of_it_fails_to_read_or_reads_otherwise(
    case: Case, server: str
) -> None:
    try:
        theirs = READERS[case.dialect](case, server)
        mine = ours(case, server)
    except Exception:  # noqa: BLE001  whatever an SDK or our client raises: one came to no reply
        return
    assert theirs != mine, "the SDK reads this as we do: mark it as an oracle"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_the_whole_client_reads_what_the_corpus_says(case: Case, server: str) -> None:
    outcome = ask(case, server)
    error = case.expected.get("error")
    assert (type(outcome.error).__name__ if outcome.error else None) == (error and error["type"])
    reported = [
        {name: value for name, value in part.items() if name != "tool_call_id"}
        for part in map(as_json, outcome.parts)
    ]
    # Ids that a server omits depend on the history; the decoders' own tests cover them.
    assert reported == [
        {name: value for name, value in part.items() if name != "tool_call_id"}
        for part in expected_parts(case)
    ]
