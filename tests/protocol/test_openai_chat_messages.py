"""Content of Chat Completions messages other than text and function calls, read and written back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat import history_from, render
from multi_llm_chat.events import NativeItem
from multi_llm_chat.history.values import Media, Native, Origin, Part, Text, Thinking, ToolCall
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.openai_chat.decode import OpenAIChatDecoder, decode_reply
from multi_llm_chat.protocol.request_draft import LONGEST_TEXT
from multi_llm_chat.testing.validators import validate

Body = dict[str, Any]

CONTEXT = DecodeContext(origin=Origin("openai-chat", "", "gpt-4.1"))
USER: Body = {"role": "user", "content": "hi"}
AND: Body = {"role": "user", "content": "and?"}
PDF = "data:application/pdf;base64,JVBERi0xLjQK"
WAV = "UklGRiQAAABXQVZF"


def call(**extra: Any) -> Body:
    return {
        "id": "abcdefgh1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    } | extra


def answer(**fields: Any) -> Body:
    return {"role": "assistant"} | fields


RESULT: Body = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "ok"}
CUSTOM: Body = {
    "id": "abcdefgh1",
    "type": "custom",
    "custom": {"name": "sql", "input": 'select "1"'},
}

#: Messages that a provider accepts unchanged, by the rule that says so.
SAME: list[tuple[str, str, str, list[Body]]] = [
    ("OAI-11", "openai-chat", "gpt-4.1", [answer(content=[{"type": "text", "text": "Well,"}, {"type": "refusal", "refusal": "no."}]), AND]),
    ("OAI-32", "openai-chat", "gpt-4.1", [answer(tool_calls=[CUSTOM]), RESULT]),
    ("OAI-33", "openai-chat", "gpt-4.1", [{"role": "user", "content": [{"type": "text", "text": "Read"}, {"type": "file", "file": {"file_id": "file-1"}}]}]),
    ("OAI-18", "openai-chat", "gpt-4.1", [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi", "name": "ada"}]),
    ("OAI-DOC", "openai-chat", "gpt-4o-audio", [answer(audio={"id": "audio_1"}), AND]),
    ("GEM-04", "openai-chat", "gemini-3-flash", [answer(tool_calls=[call(extra_content={"google": {"thought_signature": "c2ln"}})]), RESULT]),
    ("MIS-14", "mistral", "mistral-small-latest", [{"role": "user", "content": [{"type": "text", "text": "Read"}, {"type": "document_url", "document_url": PDF}]}]),
    ("MIS-15", "mistral", "voxtral-small-latest", [{"role": "user", "content": [{"type": "text", "text": "Listen"}, {"type": "input_audio", "input_audio": WAV}]}]),
    ("MIS-16", "mistral", "magistral-medium", [answer(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Well."}]), AND]),
    ("ORT-05", "openrouter", "qwen/qwen3", [{"role": "user", "content": [{"type": "text", "text": "Read"}, {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://a.example/a.pdf"}}]}]),
    ("ORT-05", "openrouter", "qwen/qwen3", [answer(content="Read.", annotations=[{"type": "file", "file": {"hash": "x", "name": "a.pdf"}}]), AND]),
    ("ORT-06", "openrouter", "google/gemini-3-flash", [{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "video_url", "video_url": {"url": "https://a.example/a.mp4"}}]}]),
    ("ORT-07", "openrouter", "anthropic/claude", [{"role": "user", "content": [{"type": "text", "text": "Long", "cache_control": {"type": "ephemeral"}}]}]),
    ("ORT-07", "openrouter", "anthropic/claude", [{"role": "system", "content": "Long", "cache_control": {"type": "ephemeral"}}, USER]),
    ("ORT-07", "openrouter", "anthropic/claude", [answer(tool_calls=[call(cache_control={"type": "ephemeral"})]), RESULT]),
    ("ORT-09", "openrouter", "anthropic/claude", [answer(reasoning_details=[{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}], tool_calls=[call()]), RESULT]),
    ("OLL-09", "ollama", "qwen3", [answer(reasoning="hm", tool_calls=[call()]), RESULT]),
    ("VLL-08", "vllm", "qwen3", [answer(reasoning="hm", tool_calls=[call()]), RESULT]),
    ("VLL-08", "together", "deepseek-ai/DeepSeek-V4-Pro", [answer(reasoning="hm", tool_calls=[call()]), RESULT]),
    ("ORT-06", "together", "Qwen/Qwen3.6-Plus", [{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "video_url", "video_url": {"url": "https://a.example/a.mp4"}}]}]),
    ("LCP-09", "llamacpp", "qwen3", [answer(reasoning_content="hm", tool_calls=[call()]), RESULT | {"name": "f"}]),
    ("LCP-08", "llamacpp", "qwen3-vl-8b", [{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]),
    ("DSK-01", "deepseek", "deepseek-v4-pro", [answer(reasoning_content="hm", content="", tool_calls=[call()]), RESULT]),
    ("OAI-26", "groq", "llama-4", [{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "https://a.example/a.png", "detail": "low"}}]}]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "provider", "model", "messages"), SAME)
def test_what_a_provider_takes_goes_back_as_it_came(
    rule: str, provider: str, model: str, messages: list[Body]
):
    whole = messages if messages[0]["role"] != "assistant" else [USER, *messages]
    history = history_from(whole, "openai-chat", provider=provider, model=model)
    rendered = render(history, provider, model=model)
    assert rendered.body["messages"] == whole
    assert rendered.notes == ()


@pytest.mark.parametrize(
    "provider", ["openai-chat", "groq", "mistral", "deepseek", "anthropic", "gemini", "openai"]
)
@pytest.mark.parametrize(("rule", "source", "model", "messages"), SAME)
def test_another_provider_gets_the_words(
    rule: str, source: str, model: str, messages: list[Body], provider: str
):
    if provider == source:
        return
    history = history_from([USER, *messages], "openai-chat", provider=source, model=model)
    sent = json.dumps(render(history, provider).body)
    for word in ("no.", "select", "Well.", "Read", "Listen"):
        if word in json.dumps(messages):
            assert word in sent
    for foreign in ("cache_control", "thought_signature", "annotations", "audio_1"):
        assert foreign not in sent or provider in ("anthropic", "gemini")


def test_a_field_of_a_message_that_the_server_does_not_take_is_noted():
    """GRQ-02."""
    marked = USER | {"cache_control": {"type": "ephemeral"}, "name": "ada"}
    rendered = render(history_from([marked], "openai-chat", provider="groq", model="x"), "groq")
    assert "cache_control" not in rendered.body["messages"][0]
    assert [(note.rule, note.message.partition(": ")[2]) for note in rendered.notes] == [
        ("GRQ-02", "cache_control, name")
    ]


def read(message: Body, **choice: Any) -> tuple[Part, ...]:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"} | choice]}
    return decode_reply(json.dumps(body).encode(), CONTEXT)[0]


def read_stream(*deltas: Body, **choice: Any) -> tuple[tuple[Part, ...], list[Any]]:
    decoder = OpenAIChatDecoder(CONTEXT)
    events: list[Any] = []
    for number, delta in enumerate(deltas):
        more = choice if number + 1 == len(deltas) else {}
        data = {"choices": [{"index": 0, "delta": delta} | more]}
        events += decoder.feed(None, json.dumps(data).encode())
    events += decoder.feed(None, b"[DONE]") + decoder.end()
    return decoder.parts, events


def test_a_custom_call_is_text_however_it_arrives():
    """OAI-32."""
    whole = read(answer(tool_calls=[CUSTOM]))
    begun = {
        "index": 0,
        "id": "abcdefgh1",
        "type": "custom",
        "custom": {"name": "sql", "input": "sel"},
    }
    rest = {"index": 0, "custom": {"input": 'ect "1"'}}
    streamed, _ = read_stream({"tool_calls": [begun]}, {"tool_calls": [rest]})
    assert streamed == whole
    (made,) = whole
    assert isinstance(made, ToolCall)
    assert made.arguments == {"input": 'select "1"'}


def test_a_spoken_answer_is_its_transcript_and_its_sound():
    audio = {"id": "audio_1", "data": WAV, "transcript": "Hello", "expires_at": 9}
    text, sound = read(answer(content=None, audio=audio))
    assert isinstance(text, Text)
    assert isinstance(sound, Media)
    assert (text.content, sound.data) == ("Hello", WAV)
    pieces = (
        {"audio": {"id": "audio_1", "transcript": "Hel"}},
        {"audio": {"data": WAV, "transcript": "lo"}},
        {"audio": {"expires_at": 9}},
    )
    assert read_stream(*pieces)[0] == (text, sound)
    history = [USER, {"role": "chatgpt", "content": [text, sound]}, AND]
    sent = render(history, "openai-chat", model="gpt-4.1").body["messages"]
    assert sent[1] == answer(audio={"id": "audio_1"})
    assert render(history, "groq").body["messages"][1]["content"].startswith("[chatgpt] Hello")


def test_annotations_and_logprobs_stay_with_the_text():
    cited = [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}]
    scores = {"content": [{"token": "Hi", "logprob": -0.1}]}
    (text,) = read(answer(content="Hi", annotations=cited), logprobs=scores)
    assert isinstance(text, Text)
    assert text.extras is not None
    assert text.extras.fields == {"annotations": cited, "logprobs": scores}
    streamed, _ = read_stream({"content": "Hi"}, {"annotations": cited}, logprobs=scores)
    assert streamed == (text,)


@given(words=st.lists(st.text("abc é", max_size=5), min_size=1, max_size=4))
def test_further_choices_are_kept(words: list[str]):
    choices = [
        {"index": at, "message": answer(content=word), "finish_reason": "stop"}
        for at, word in enumerate(words)
    ]
    parts, events = decode_reply(json.dumps({"choices": choices}).encode(), CONTEXT)
    natives = [part for part in parts if isinstance(part, Native)]
    assert [native.raw["message"]["content"] for native in natives] == words[1:]
    assert [event.item for event in events if isinstance(event, NativeItem)] == natives
    history = [USER, {"role": "chatgpt", "content": list(parts)}, AND]
    rendered = render(history, "openai-chat", model="gpt-4.1")
    assert validate("openai-chat", rendered.body, model="gpt-4.1") == []
    sent = rendered.body["messages"][1]["content"]
    if words[0].strip():
        assert sent == words[0]
        assert len([note for note in rendered.notes if "choice" in note.message]) == len(natives)
    else:
        assert all(word in sent for word in words[1:])


def test_a_thought_signature_of_the_message_stays_with_what_the_message_holds():
    """GEM-04: Gemini signs the message where it does not sign the call."""
    signed = {"google": {"thought_signature": "c2ln"}}
    for message in (answer(content="Hi"), answer(tool_calls=[call()])):
        parts = read(message | {"extra_content": signed})
        assert parts == read_stream(message, {"extra_content": signed})[0]
        results = [RESULT] if "tool_calls" in message else []
        history = [USER, {"role": "chatgpt", "content": list(parts)}, *results, AND]
        sent = render(history, "openai-chat", model="gpt-4.1").body["messages"]
        assert sent[1] == message | {"extra_content": signed}


def test_steps_of_the_server_are_native():
    step = {"index": 0, "type": "python", "arguments": '{"code": "print(42)"}', "output": "42"}
    text, native = read(answer(content="It is 42.", executed_tools=[step]))
    assert isinstance(text, Text)
    assert isinstance(native, Native)
    assert "print(42)" in native.text


def test_an_empty_twin_of_a_field_says_nothing():
    """Snowflake sends ``custom``, ``audio`` and ``function_call`` empty; Perplexity an empty delta with the message."""
    empty = {"custom": {"name": "", "input": ""}}
    parts = read(
        answer(content="Let me see.", refusal="", function_call={"name": "", "arguments": ""}, tool_calls=[call(**empty)],
               audio={"id": "", "data": "", "transcript": "", "expires_at": 0}),
        delta={"role": "assistant", "content": ""},
    )  # fmt: skip
    assert parts == (Text("Let me see."), ToolCall("f", {}, "abcdefgh1", "{}"))


@pytest.mark.parametrize("arguments", [None, "null", "", " null\n"])
def test_null_arguments_are_none(arguments: Any):
    """GRQ-08, STR-20: the tool runs, and goes back with an object."""
    made = call(function={"name": "f", "arguments": arguments})
    (read_call,) = read(answer(tool_calls=[made]))
    assert isinstance(read_call, ToolCall)
    assert (read_call.arguments, read_call.error) == ({}, None)
    history = history_from([USER, answer(tool_calls=[made]), RESULT], "openai-chat")
    assert (
        render(history, "groq").body["messages"][1]["tool_calls"][0]["function"]["arguments"]
        == "{}"
    )


def test_ollamas_pictures_and_legacy_calls_are_read():
    messages = [{"role": "user", "content": "See", "images": ["iVBORw0KGgo="]},
                answer(content=None, function_call={"name": "f", "arguments": "{}"}),
                {"role": "function", "name": "f", "content": "ok"}]  # fmt: skip
    sent = render(history_from(messages, "openai-chat"), "openai-chat").body["messages"]
    assert sent[0]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert sent[1]["tool_calls"][0]["function"]["name"] == "f"
    assert sent[2]["content"] == "ok"


def test_reasoning_of_mistral_is_thinking():
    """MIS-16."""
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Well."},
    ]
    thinking, text = read(answer(content=content))
    assert isinstance(thinking, Thinking)
    assert (thinking.content, text) == ("hm", Text("Well."))


def test_a_long_text_is_cut_and_says_so():
    """OAI-24."""
    rendered = render([{"role": "user", "content": "x" * (LONGEST_TEXT + 1)}], "openai-chat")
    sent = rendered.body["messages"][0]["content"]
    assert len(sent) == LONGEST_TEXT
    assert "[cut:" in sent[-100:]
    assert [note.rule for note in rendered.notes] == ["OAI-24"]
