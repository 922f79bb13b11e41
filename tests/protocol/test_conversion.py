"""Conversion between our history and other systems' message lists."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies.histories import nasty_histories

from multi_llm_chat import UsageError, history_from, render
from multi_llm_chat.protocol.conversion import dialect_of, history_to
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import ROWS, provider_row

TEXT = {"type": "text", "content": "hi"}
CALL = {"type": "tool_call", "content": {"name": "f", "arguments": {"a": 1}, "tool_call_id": "c1"}}


def result(name: str = "") -> dict[str, Any]:
    return {"type": "tool_result", "name": name, "content": "ok", "tool_call_id": "c1"}


NATIVE: dict[str, list[Any]] = {
    "openai-chat": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
    "openai-responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "ok"}]}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"result": "ok"}}}]},
    ],
    "flat": [
        {"id": "1", "role": "user", "content": "hi"},
        {"id": "2", "role": "assistant", "content": "", "tool_use": {"id": "c1", "name": "f", "input": {"a": 1}}},
        {"id": "3", "role": "tool", "content": "ok", "tool_call_id": "c1"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("dialect", sorted(NATIVE))
def test_the_same_exchange_is_read_from_every_form(dialect: str):
    turns = history_from(NATIVE[dialect], dialect)
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]
    assert [turn["content"] for turn in turns] == [
        [TEXT],
        [CALL],
        [result("f" if dialect == "gemini" else "")],
    ]


@pytest.mark.parametrize("dialect", sorted(NATIVE))
@pytest.mark.parametrize("provider", sorted(ROWS))
def test_what_was_read_in_one_form_is_written_in_any_other(dialect: str, provider: str):
    messages = history_to(history_from(NATIVE[dialect], dialect), provider)
    body = render(history_from(NATIVE[dialect], dialect), provider).body
    assert messages == body[DIALECTS[provider_row(provider).dialect].messages]
    assert len(messages) == 3


def test_geminis_names_are_read_in_snake_case_too():
    contents = [
        {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "f", "args": {"a": 1}}, "thought_signature": "c2ln"}]},
        {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "f", "response": {"error": "no"}}}]},
        {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}, {"file_data": {"mime_type": "image/png", "file_uri": "https://x/y"}}]},
    ]  # fmt: skip
    model, tool, user = history_from(contents, "gemini", model="m")
    assert model["content"][0] == {
        "type": "thinking",
        "content": "",
        "origin": {"provider": "gemini", "model": "m"},
        "opaque": {"thoughtSignature": "c2ln"},
    }
    assert model["content"][1] == CALL
    assert tool["content"] == [result("f") | {"content": "no", "is_error": True}]
    assert [part["type"] for part in user["content"]] == ["media", "media"]


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.parametrize("names", [("",), ("a, b.png", ""), ("one", "two")])
def test_the_media_of_a_result_come_back_from_gemini(names: tuple[str, ...]):
    media = [
        {"type": "media", "mime": "image/png", "data": PNG} | ({"name": name} if name else {})
        for name in names
    ]
    answer = result("f") | {"content": [TEXT, *media]}
    history = [
        {"role": "user", "content": [TEXT]},
        {"role": "gemini", "content": [CALL]},
        {"role": "tool", "content": [answer]},
    ]
    once = render(history, "gemini", model="gemini-3.7-flash").body["contents"]
    read = history_from(once, "gemini", provider="gemini")
    text, *shown = read[-1]["content"][0]["content"]
    assert text["content"].startswith("hi\n[attachment: ")
    assert shown == media
    assert render(read, "gemini", model="gemini-3.7-flash").body["contents"] == once


def test_openais_deprecated_function_calls_are_read():
    messages = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "ok"},
    ]
    call, answer = history_from(messages, "openai-chat")
    assert call["content"][0]["content"]["tool_call_id"] == "call_0_0"
    assert answer == {
        "role": "tool",
        "content": [{"type": "tool_result", "name": "f", "content": "ok"}],
    }


def test_pictures_sounds_and_files_are_read():
    data = "data:image/png;base64,AAAA"
    parts = [
        {"type": "image_url", "image_url": {"url": data}},
        {"type": "image_url", "image_url": "https://x/y.png"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {
            "type": "file",
            "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        },
        {"type": "refusal", "refusal": "no"},
    ]
    (turn,) = history_from([{"role": "user", "content": parts}], "openai-chat")
    read = [
        {key: value for key, value in part.items() if key != "extras"} for part in turn["content"]
    ]
    assert read == [
        {"type": "media", "mime": "image/png", "data": "AAAA"},
        {"type": "media", "mime": "image/png", "url": "https://x/y.png"},
        {"type": "media", "mime": "audio/wav", "data": "AAAA"},
        {"type": "media", "mime": "application/pdf", "data": "AAAA", "name": "a.pdf"},
        {"type": "text", "content": "no"},
    ]


def test_anthropics_documents_and_failed_results_are_read():
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
    }
    plain = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
    }
    failed = {"type": "tool_result", "tool_use_id": "c1", "content": [document], "is_error": True}
    tool, user = history_from([{"role": "user", "content": [failed, plain]}], "anthropic")
    media = {"type": "media", "mime": "application/pdf", "data": "AAAA"}
    assert tool["content"] == [result() | {"content": [media], "is_error": True}]
    assert user["content"] == [{"type": "media", "mime": "text/plain", "data": "d29yZHM="}]


def test_reasoning_is_stamped_with_where_it_came_from():
    messages = [{"role": "assistant", "content": "x", "reasoning_content": "hm"}]
    (turn,) = history_from(messages, "deepseek", model="deepseek-reasoner")
    assert turn["content"][0]["origin"] == {"provider": "deepseek", "model": "deepseek-reasoner"}
    (moved,) = history_from(messages, "openai-chat", provider="groq", model="m")
    assert moved["content"][0]["origin"] == {"provider": "groq", "model": "m"}


@pytest.mark.parametrize(
    ("name", "dialect"),
    [("chat", "openai_chat"), ("OpenAI-Chat", "openai_chat"), ("responses", "openai_responses"), ("openai", "openai_responses"), ("claude", "anthropic"), ("google", "gemini"), ("groq", "openai_chat")],
)  # fmt: skip
def test_a_dialect_is_known_by_its_name_or_a_providers(name: str, dialect: str):
    assert dialect_of(name) == dialect


def test_openai_alone_means_whichever_the_messages_are():
    assert dialect_of("openai", NATIVE["openai-chat"]) == "openai_chat"
    assert dialect_of("openai", NATIVE["openai-responses"]) == "openai_responses"


def test_an_unknown_dialect_is_named_with_the_known_ones():
    with pytest.raises(UsageError, match=r"Unknown dialect 'smoke'; known are: .*anthropic"):
        history_from([], "smoke")


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize("messages", [7, {"role": "user"}, None])
def test_messages_are_a_list(dialect: str, messages: Any):
    with pytest.raises(UsageError, match="Messages must be a list"):
        history_from(messages, dialect)


@pytest.mark.parametrize(
    "dialect", ["openai-chat", "openai-responses", "anthropic", "gemini", "flat"]
)
@pytest.mark.parametrize("value", [7, {"role": "user", "content": 7, "parts": 7}])
def test_one_bad_message_is_kept_as_words(dialect: str, value: Any):
    history = history_from(
        [{"role": "user", "content": "x", "parts": [{"text": "x"}]}, value], dialect
    )
    assert len(history) == 2
    assert "7" in str(history[1]["content"])


@settings(max_examples=60)
@given(history=nasty_histories, provider=st.sampled_from(sorted(ROWS)))
def test_reading_back_what_was_written_changes_no_message(history: list[Any], provider: str):
    row = provider_row(provider)
    messages = history_to(history, provider)
    again = history_to(
        history_from(messages, provider, provider=provider, model=row.default_model), provider
    )
    assert again == messages


def test_reasoning_details_are_read_without_the_text_beside_them():
    details = [{"type": "reasoning.encrypted", "data": "abc", "id": "r1"}]
    message = {"role": "assistant", "content": "x", "reasoning_details": details}
    history = history_from([message], "openrouter", model="z/z")
    assert history[0]["content"][0]["opaque"] == {"reasoning_details": details}
    assert history_to(history, "openrouter", model="z/z")[1] == message
