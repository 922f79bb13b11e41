"""Forms of histories and answers from recordings, which stay unchanged."""

import json
from base64 import b64encode
from typing import Any

import pytest

from multi_llm_chat import history_from, render
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Finish
from multi_llm_chat.history.values import Text, ToolCall, Turn
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.testing.validators import validate

TOOLS: list[Any] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("f", "g")]


def call(name: str, signature: str = "c2ln") -> dict[str, Any]:
    made: dict[str, Any] = {"functionCall": {"id": f"id_{name}", "name": name, "args": {}}}
    return {"role": "model", "parts": [made | {"thoughtSignature": signature}]}


def response(name: str) -> dict[str, Any]:
    return {"functionResponse": {"id": f"id_{name}", "name": name, "response": {"result": "ok"}}}


def test_calls_in_neighbouring_turns_that_are_answered_together_are_one_step() -> None:
    """GEM-20: two contents of the model, one with the value that skips the check, answered in one content."""
    question = {"role": "user", "parts": [{"text": "hi"}]}
    answers = {"role": "user", "parts": [response("f"), response("g")]}
    contents = [question, call("f"), call("g"), answers]
    model = "gemini-3-flash-preview"
    history = history_from(contents, "gemini", provider="gemini", model=model)
    rendered = render(history, "gemini", model=model, tools=TOOLS)
    step = {"role": "model", "parts": [*call("f")["parts"], *call("g")["parts"]]}
    assert rendered.body["contents"] == [question, step, answers]
    assert rendered.notes == ()
    assert validate("gemini", rendered.body, model=model) == []


def test_a_call_of_an_earlier_turn_that_is_answered_alone_stays_apart() -> None:
    history = [
        Turn("user", (Text("hi"),)),
        Turn("claude", (ToolCall("f", {}, "a"),)),
        Turn("claude", (Text("and"), ToolCall("g", {}, "b"))),
        {"role": "tool", "content": [{"type": "tool_result", "name": "g", "tool_call_id": "b", "content": "ok"}]},
    ]  # fmt: skip
    body = render(history, "anthropic", tools=TOOLS).body
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]  # fmt: skip


@pytest.mark.parametrize(
    ("base_url", "parts"), [(None, [{"text": ""}]), ("https://vertex.example/v1", None)]
)
def test_ai_studio_takes_blank_text_and_other_places_do_not(
    base_url: str | None, parts: list[Any] | None
) -> None:
    """GEM-08."""
    history = [Turn("user", (Text(""),))]
    body = render(history, "gemini", system_prompt="Say hi.", base_url=base_url).body
    assert body["contents"][0]["parts"] == (parts or [{"text": "Continue."}])


def test_a_stream_without_server_sent_events_is_a_list_of_frames() -> None:
    exchange = Exchange([Turn("user", (Text("hi"),))], "gemini", stream=False)
    exchange.begin(200, {"content-type": "application/json"})
    exchange.receive(
        b'[{"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},'
        b' {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}]}]'
    )
    exchange.end()
    assert [part.content for part in exchange.turn.parts if isinstance(part, Text)] == ["Hello"]


def test_annotations_of_an_answer_go_back_to_openrouter() -> None:
    """ORT-05: they save a second reading of the file."""
    exchange = Exchange([Turn("user", (Text("hi"),))], "openrouter", stream=False)
    exchange.begin(200, {"content-type": "application/json"})
    note = {"type": "file", "file": {"hash": "x", "name": "a.pdf"}}
    message = f'{{"role": "assistant", "content": "Read.", "annotations": [{_json(note)}]}}'
    exchange.receive(f'{{"choices": [{{"message": {message}, "finish_reason": "stop"}}]}}'.encode())
    exchange.end()
    more = [Turn("user", (Text("hi"),)), exchange.turn, Turn("user", (Text("and?"),))]
    sent = render(more, "openrouter").body["messages"]
    assert sent[1] == {"role": "assistant", "content": "Read.", "annotations": [note]}


def _json(value: dict[str, Any]) -> str:
    return str(value).replace("'", '"')


@pytest.mark.parametrize(
    ("provider", "key"),
    [("openrouter", "cache_control"), ("openai-chat", "prompt_cache_breakpoint")],
)
def test_marks_for_the_cache_stay_on_their_parts(provider: str, key: str) -> None:
    """ORT-07, and OpenAI's own breakpoints."""
    part = {"type": "text", "text": "long", key: {"type": "ephemeral"}}
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": [part]},
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "a", "content": [part]},
    ]
    history = history_from(messages, "openai-chat", provider=provider, model="x")
    assert render(history, provider, model="x", tools=TOOLS).body["messages"] == messages


def test_a_text_behind_a_picture_of_a_result_is_moved_with_a_note() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}  # fmt: skip
    mixed = [{"type": "text", "text": "a"}, picture, {"type": "text", "text": "b"}]
    messages: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": mixed}]},
    ]  # fmt: skip
    history = history_from(messages, "anthropic", provider="anthropic", model="claude-sonnet-5")
    rendered = render(history, "anthropic", model="claude-sonnet-5", tools=TOOLS)
    assert [note.message for note in rendered.notes] == [
        "put the texts of a tool result before its media"
    ]


def test_an_error_behind_the_words_of_a_stream_keeps_the_words() -> None:
    """STR-22."""
    exchange = Exchange([Turn("user", (Text("hi"),))], "openrouter")
    exchange.begin(200, {"content-type": "text/event-stream"})
    exchange.receive(b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n')
    exchange.receive(b'data: {"error": {"message": "upstream failed", "code": 502}}\n\n')
    with pytest.raises(ProviderError) as failed:
        exchange.end()
    assert isinstance(failed.value.partial, Turn)
    assert [part.content for part in failed.value.partial.parts if isinstance(part, Text)] == [
        "Hel"
    ]


def _round_trip(
    messages: list[Any], provider: str, dialect: str, model: str
) -> tuple[list[Any], tuple[Note, ...]]:
    """Return the messages as written for the provider and model that they came from, and the notes."""
    turns = history_from(messages, dialect, provider=provider, model=model)
    sent = render(turns, provider, model=model)
    key = "contents" if dialect == "gemini" else "messages"
    return sent.body[key], sent.notes


_USER: Any = {"role": "user", "content": "hi"}
_ASKS: Any = {
    "role": "assistant",
    "tool_calls": [
        {"id": "abcdefgh1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ],
}
_RESULT: Any = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "ok"}
_PDF = "data:application/pdf;base64,JVBERi0="


@pytest.mark.parametrize("provider", ["openai-chat", "azure", "groq", "mistral", "openrouter"])
def test_a_tool_message_keeps_the_name_that_its_sender_gave_it(provider: str) -> None:
    """``name`` of tool messages: crewAIInc/crewAI lib/crewai/tests/cassettes (48 accepted requests)."""
    named = _RESULT | {"name": "f"}
    for result in (named, _RESULT):
        messages = [_USER, _ASKS, result, _USER]
        assert _round_trip(messages, provider, "openai-chat", "openai/gpt-4o")[0] == messages


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openrouter", "openai/gpt-4.1-mini"),
        ("mistral", "mistral-small-latest"),
        ("mistral", "ministral-3b-latest"),
        ("deepseek", "deepseek-v4-flash"),
    ],
)
def test_a_history_that_opens_with_a_call_stays_where_that_was_accepted(
    provider: str, model: str
) -> None:
    """0xPlaygrounds/rig tests/cassettes/{openrouter,mistral}/history_roundtrip_matrix, deepseek/wire_shape_matrix."""
    asks = _ASKS | {"content": "", "reasoning_content": ""} if provider == "deepseek" else _ASKS
    messages = [asks, _RESULT, _USER]
    sent, notes = _round_trip(messages, provider, "openai-chat", model)
    assert (sent, notes) == (messages, ())
    assert validate(provider, {"model": model, "messages": sent}, model=model) == []


def test_an_early_mistral_model_still_gets_the_user_first() -> None:
    sent, _ = _round_trip([_ASKS, _RESULT, _USER], "mistral", "openai-chat", "open-mistral-7b")
    assert sent[0]["role"] == "user"


def test_claude_behind_openrouter_continues_the_beginning_of_an_answer() -> None:
    """crmne/ruby_llm spec/fixtures/vcr_cassettes/chat_with_params_openrouter_claude-haiku-4-5_supports_top_k_param.yml."""
    messages = [_USER, {"role": "assistant", "content": "{"}]
    model = "anthropic/claude-haiku-4.5"
    assert _round_trip(messages, "openrouter", "openai-chat", model) == (messages, ())
    newest = _round_trip(messages, "openrouter", "openai-chat", "anthropic/claude-opus-5.5")
    assert newest[0][-1]["role"] == "user"


def test_a_file_without_a_name_gets_none_behind_openrouter() -> None:
    """activeagents/activeagent test/fixtures/vcr_cassettes/docs/providers/open_router/pdf.yml."""
    part = {"type": "file", "file": {"file_data": _PDF}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Read it."}, part]}]
    assert _round_trip(messages, "openrouter", "openai-chat", "openai/gpt-4o") == (messages, ())


def test_mistral_reads_the_name_of_a_document_and_an_unset_prefix() -> None:
    """0xPlaygrounds/rig tests/cassettes/mistral/multimodal_content, history_roundtrip_matrix."""
    part = {"type": "document_url", "document_url": _PDF, "document_name": "report.pdf"}
    messages = [
        {"role": "user", "content": [part, {"type": "text", "text": "Read it."}]},
        {"role": "assistant", "content": "Done.", "prefix": False},
        _USER,
    ]
    model = "mistral-small-latest"
    assert _round_trip(messages, "mistral", "openai-chat", model) == (messages, ())


@pytest.mark.parametrize(
    ("mime", "content"), [("audio/mp3", b"ID3\x04"), ("audio/x-wav", b"RIFF\0\0\0\0WAVE")]
)
def test_gemini_gets_the_spelling_of_a_sound_that_its_sender_used(
    mime: str, content: bytes
) -> None:
    """``audio/mp3`` is Google's own word for it (ai.google.dev/gemini-api/docs/audio, read 2026-11)."""
    blob = {"mimeType": mime, "data": b64encode(content).decode()}
    contents = [{"role": "user", "parts": [{"inlineData": blob}, {"text": "What is said?"}]}]
    assert _round_trip(contents, "gemini", "gemini", "gemini-2.5-flash") == (contents, ())


@pytest.mark.parametrize(
    ("provider", "rule"), [("anthropic", "ANT-39"), ("gemini", "GEM-29"), ("openai", "OAI-26")]
)
def test_a_picture_under_the_type_of_its_bytes_is_noted(provider: str, rule: str) -> None:
    """Arize-ai/openinference … test_anthropic_instrumentation_image_input_messages.yaml: a JPEG that is called PNG."""
    data = b64encode(b"\xff\xd8\xff\xe0" + bytes(40)).decode()
    picture = {"type": "media", "mime": "image/png", "data": data}
    sent = render([{"role": "user", "content": [picture]}], provider)
    assert [note.rule for note in sent.notes] == [rule]
    assert "image/jpeg" in sent.notes[0].message
    honest = render([{"role": "user", "content": [picture | {"mime": "image/jpg"}]}], provider)
    assert honest.notes == ()


def test_a_finish_reason_of_gemini_may_be_a_number() -> None:
    """open-telemetry/opentelemetry-python-contrib … vertexai/tests/cassettes/test_function_call_choice.yaml."""
    part = {"text": "Yes.", "thoughtSignature": "c2ln"}
    for number, word in ((1, "stop"), (2, "length"), (3, "safety"), (77, "other")):
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": number}
        exchange = Exchange([_USER], "gemini", stream=False)
        exchange.begin(200, {"content-type": "application/json"})
        exchange.receive(json.dumps({"candidates": [candidate]}).encode())
        events = exchange.end()
        assert [event.reason for event in events if isinstance(event, Finish)] == [word]
        if word == "stop":
            assert "c2ln" in str(exchange.turn)


GIF = "data:image/gif;base64," + b64encode(b"GIF89a" + bytes(20)).decode()


@pytest.mark.parametrize(
    ("provider", "model", "kind"),
    [
        ("mistral", "mistral-small-latest", "gif"),
        ("dashscope", "qwen3-vl-flash", "gif"),
        ("openrouter", "qwen/qwen3.5-35b-a3b", "gif"),
        ("cerebras", "gemma-4-31b", "png"),
    ],
)
def test_a_picture_that_the_server_takes_stays_a_picture(
    provider: str, model: str, kind: str
) -> None:
    """MIS-14, QWN-03, CER-03: 36 requests were recorded."""
    png = "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    picture = {"type": "image_url", "image_url": {"url": GIF if kind == "gif" else png}}
    question = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    sent, notes = _round_trip([question], provider, "openai-chat", model)
    assert (sent, notes) == ([question], ())
    body = {"model": model, "messages": sent, "stream": True}
    assert validate(provider, body, model=model) == []


def test_a_model_of_text_on_cerebras_gets_words_for_a_picture() -> None:
    """CER-03: "Multimodal is not enabled for your organization and model"."""
    picture = {"type": "image_url", "image_url": {"url": GIF}}
    question = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    rendered = render(history_from([question], "openai_chat"), "cerebras", model="gpt-oss-120b")
    assert rendered.body["messages"][0]["content"] == "What is it?\n\n[attachment: image/gif]"
    assert [note.rule for note in rendered.notes] == ["OAI-11"]


@pytest.mark.parametrize(
    ("provider", "model", "identifier", "is_kept"),
    [
        ("huggingface", "moonshotai/Kimi-K2-Instruct-0905:groq", "functions.f:0", True),
        ("openrouter", "moonshotai/kimi-k2.5", "functions.f:0", True),
        ("openrouter", "anthropic/claude-haiku-4.5", "functions.f:0", False),
        ("llamacpp", "openai/gpt-oss-20b", "mvVq65j66dyGRizURhbdNCEnSO56GhXx", True),
        ("llamacpp", "default", "mvVq65j66dyGRizURhbdNCEnSO56GhXx", False),
        ("vllm", "Qwen/Qwen3-8B", "chatcmpl-tool-1", True),
        ("vllm", "mistralai/Mistral-Small-3.2", "chatcmpl-tool-1", False),
        ("huggingface", "mistralai/Mistral-7B-Instruct-v0.3", "chatcmpl-tool-1", False),
    ],
)
def test_an_id_that_the_server_made_goes_back_where_its_template_takes_any(
    provider: str, model: str, identifier: str, is_kept: bool
) -> None:
    """KMI-04, LCP-06, VLL-07, ORT-02: only Mistral's templates want nine letters and digits."""
    made = {"id": identifier, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": identifier, "content": "ok"},
    ]
    history = history_from(messages, "openai_chat", provider=provider, model=model)
    rendered = render(history, provider, model=model, tools=TOOLS)
    sent = [call["id"] for each in rendered.body["messages"] for call in each.get("tool_calls", [])]
    assert (sent == [identifier]) is is_kept
    assert (rendered.notes == ()) is is_kept
    assert validate(provider, rendered.body, model=model) == []


def test_words_and_a_signed_call_in_two_contents_of_gemini_are_one_step() -> None:
    """GEM-01: no user turn is put between them; recorded for gemini-pro-latest (mastra-ai/mastra)."""
    question = {"role": "user", "parts": [{"text": "hi"}]}
    words = {"role": "model", "parts": [{"text": "I will search."}]}
    contents = [question, words, call("f"), {"role": "user", "parts": [response("f")]}]
    model = "gemini-pro-latest"
    history = history_from(contents, "gemini", provider="gemini", model=model)
    rendered = render(history, "gemini", model=model, tools=TOOLS)
    step = {"role": "model", "parts": [*words["parts"], *call("f")["parts"]]}
    assert rendered.body["contents"] == [question, step, contents[-1]]
    assert rendered.notes == ()


@pytest.mark.parametrize(("model", "is_sent"), [("gemini-flash-latest", True), ("gemini-2.0-flash", False)])  # fmt: skip
def test_gemini_takes_a_gif_from_generation_three_on(model: str, is_sent: bool) -> None:
    """GEM-29: 12 requests were recorded; generation 2 refuses it (discuss.ai.google.dev/t/71468)."""
    data = GIF.partition(",")[2]
    shown = {"role": "user", "parts": [{"inlineData": {"mimeType": "image/gif", "data": data}}]}
    history = history_from([shown], "gemini", provider="gemini", model=model)
    rendered = render(history, "gemini", model=model)
    assert (rendered.body["contents"] == [shown]) is is_sent
    assert (rendered.notes == ()) is is_sent


def test_gemini_reads_text_files_of_any_type() -> None:
    """GEM-29: text/csv was recorded (posit-dev/chatlas)."""
    table = {"mimeType": "text/csv", "data": b64encode(b"a,b\n1,2\n").decode()}
    shown = {"role": "user", "parts": [{"inlineData": table}]}
    history = history_from([shown], "gemini", provider="gemini", model="gemini-3.5-flash")
    assert render(history, "gemini", model="gemini-3.5-flash").body["contents"] == [shown]


@pytest.mark.parametrize(
    ("dialect", "provider", "key"),
    [("openai_chat", "openai-chat", "messages"), ("openai_responses", "openai", "input")],
)
def test_openai_takes_a_blank_message(dialect: str, provider: str, key: str) -> None:
    """OAI-10, RSP-11: a blank question is sent as it is; recorded for gpt-4o and gpt-5-mini (Mirascope)."""
    messages = [{"role": "user", "content": ""}]
    rendered = render(history_from(messages, dialect), provider)
    assert [each["content"] for each in rendered.body[key]] in ([""], [[{"type": "input_text", "text": ""}]])  # fmt: skip
    assert rendered.notes == ()


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
def test_blank_messages_of_chat_stay(role: str) -> None:
    """OAI-09: a message is read and written again as it was."""
    messages: list[dict[str, Any]] = [
        {"role": role, "content": ""},
        {"role": "user", "content": "x"},
    ]
    assert _round_trip(messages, "openai-chat", "openai-chat", "gpt-4o") == (messages, ())


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_blank_messages_of_responses_stay(role: str) -> None:
    """RSP-11: a blank message of the user or the system is read and written again as it was; the model's may stand before its calls."""
    items = [{"type": "message", "role": role, "content": text} for text in ("", "x")]
    once = render(history_from(items, "openai_responses"), "openai")
    twice = render(history_from(once.body["input"], "openai_responses"), "openai")
    assert once.body["input"] == twice.body["input"]
    assert [each["role"] for each in once.body["input"]] == [role, role]
    assert once.notes == ()


def test_openai_takes_a_blank_answer() -> None:
    """OAI-09: only missing content is refused; blank answers were recorded for gpt-4o (OlympiaAI/raix)."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "hello?"},
    ]
    assert _round_trip(messages, "openai-chat", "openai-chat", "gpt-4o") == (messages, ())
    said = [{"role": "user", "content": [{"type": "text", "text": each} for each in ("hi", "hello?")]}]  # fmt: skip
    assert render(messages, "anthropic").body["messages"] == said


def test_openai_takes_a_blank_result() -> None:
    """OAI-09: recorded for gpt-4o (OlympiaAI/raix)."""
    made = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
    ]
    assert _round_trip(messages, "openai-chat", "openai-chat", "gpt-4o") == (messages, ())


def test_results_of_one_turn_may_stand_in_any_order() -> None:
    """OAI-03: recorded behind OpenRouter (braintrustdata/braintrust-sdk-javascript); Gemini wants the order of the calls."""
    made = [{"id": name * 9, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"]  # fmt: skip
    results = [{"role": "tool", "tool_call_id": name * 9, "content": name} for name in "ba"]
    messages: list[Any] = [_USER, {"role": "assistant", "tool_calls": made}, *results, _USER]
    for provider in ("openai-chat", "openrouter", "mistral", "vllm"):
        assert _round_trip(messages, provider, "openai-chat", "m") == (messages, ())
    history = history_from(messages, "openai-chat")
    for provider in ROWS:
        rendered = render(history, provider, tools=TOOLS)
        assert validate(provider, rendered.body, model=rendered.model) == []
    (answers,) = [each for each in render(history, "gemini").body["contents"] if "functionResponse" in each["parts"][0]]  # fmt: skip
    assert [part["functionResponse"]["name"] for part in answers["parts"][:2]] == ["a", "b"]


def test_results_in_another_order_follow_their_calls_to_new_ids() -> None:
    made = [{"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"]  # fmt: skip
    results = [{"role": "tool", "tool_call_id": f"call-{name}", "content": name} for name in "ba"]
    messages: list[Any] = [_USER, {"role": "assistant", "tool_calls": made}, *results, _USER]
    sent, _ = _round_trip(messages, "mistral", "openai-chat", "mistral-small-latest")
    called = {call["id"]: call["function"]["name"] for call in sent[1]["tool_calls"]}
    assert [(called[each["tool_call_id"]], each["content"]) for each in sent[2:4]] == [("b", "b"), ("a", "a")]  # fmt: skip


def test_words_behind_a_call_are_put_before_it_for_claude() -> None:
    """ANT-02: recorded for claude-haiku-4-5 (anomalyco/opencode, rejects-malformed-assistant-tool-order)."""
    parts = (Text("First."), ToolCall("f", {}, "a"), Text("Then."), ToolCall("g", {}, "b"))
    history = [Turn("user", (Text("hi"),)), Turn("claude", parts)]
    rendered = render(history, "anthropic", model="claude-haiku-4-5", tools=TOOLS)
    said = rendered.body["messages"][1]["content"]
    assert [block.get("text") or block["name"] for block in said] == ["First.", "Then.", "f", "g"]
    assert ("ANT-02", "put words before the calls of a turn") in {(note.rule, note.message) for note in rendered.notes}  # fmt: skip
    assert validate("anthropic", rendered.body, model="claude-haiku-4-5") == []
    said[1], said[2] = said[2], said[1]
    (violation,) = validate("anthropic", rendered.body, model="claude-haiku-4-5")
    assert (violation.rule, violation.status) == ("ANT-02", 400)


def test_thinking_behind_a_call_goes_before_it_with_the_words_that_follow() -> None:
    """ANT-12: once the words have gone, the message may not end with the thinking that led to them."""
    call: dict[str, Any] = {
        "type": "tool_call",
        "content": {"name": "now", "arguments": {}, "tool_call_id": "a"},
    }
    origin = {"provider": "anthropic", "model": "claude-sonnet-5"}
    thought = {"type": "thinking", "content": "Hm.", "origin": origin, "opaque": {"signature": "x"}}
    history: list[Any] = [{"role": "claude", "content": [call, thought, "It is late."]}]
    rendered = render(history, "anthropic", model="claude-sonnet-5")
    said = rendered.body["messages"][0]["content"]
    assert [block["type"] for block in said] == ["thinking", "text", "tool_use"]
    assert validate("anthropic", rendered.body, model="claude-sonnet-5") == []


def test_a_call_with_an_empty_text_of_its_own_stays_a_call() -> None:
    """A proxy that writes every key of every block (coder/aibridge)."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "text": ""}
    messages: list[Any] = [_USER, {"role": "assistant", "content": [block]}]
    history = history_from(messages, "anthropic", provider="anthropic", model="claude-haiku-4-5")
    body = render(history, "anthropic", model="claude-haiku-4-5", tools=TOOLS).body
    (called,) = body["messages"][1]["content"]
    assert (called["type"], called["input"]) == ("tool_use", {"a": 1})


def test_a_legacy_function_call_is_noted() -> None:
    """OAI-DOC: recorded (openai/openai-dotnet, ChatToolTests/FunctionsWork)."""
    messages: list[Any] = [
        _USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "ok"},
    ]
    sent, notes = _round_trip(messages, "openai-chat", "openai-chat", "gpt-4o-mini")
    assert sent[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert [note.rule for note in notes] == ["OAI-DOC"]


def test_a_strict_tool_without_parameters_is_foreseen() -> None:
    """OAI-22: recorded (openai/openai-dotnet); Responses closes an object itself (opentelemetry-js-contrib)."""
    function: dict[str, Any] = {"name": "f", "strict": True}
    body = {"model": "gpt-4o", "messages": [_USER], "tools": [{"type": "function", "function": function}]}  # fmt: skip
    (violation,) = validate("openai-chat", body, model="gpt-4o")
    assert violation.rule == "OAI-22"
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = {"type": "function", "parameters": schema} | function
    assert validate("openai", {"model": "gpt-4o", "input": "hi", "tools": [tool]}) == []
