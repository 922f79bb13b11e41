"""Which violation is reported first, and in which envelope."""

import json
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.testing.cases import (
    USER,
    asks,
    call,
    chat,
    claude,
    content,
    gemini,
    responses,
    result,
    tool,
    user,
)

from multi_llm_chat.testing import Violation, error_body, validate

_FOUND = Violation("X-01", "it is wrong", 400, "messages", "a_code")


def test_openai_answers_with_its_error_object() -> None:
    expected = snapshot(
        {
            "error": {
                "message": "it is wrong",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "a_code",
            }
        }
    )
    for provider in ("openai", "openai-chat", "azure", "together", "ollama", "huggingface"):
        assert error_body(provider, _FOUND) == expected


def test_anthropic_answers_without_param_or_code() -> None:
    body = error_body("anthropic", _FOUND)
    assert body["type"] == "error"
    assert body["error"] == snapshot({"type": "invalid_request_error", "message": "it is wrong"})


def test_gemini_answers_with_a_google_status() -> None:
    assert error_body("gemini", _FOUND) == snapshot(
        {"error": {"code": 400, "message": "it is wrong", "status": "INVALID_ARGUMENT"}}
    )


def test_mistral_answers_in_two_shapes() -> None:
    assert error_body("mistral", Violation("MIS-01", "bad id", 400, None, "3280")) == snapshot(
        {
            "object": "error",
            "message": "bad id",
            "type": "invalid_function_call",
            "param": None,
            "code": "3280",
        }
    )
    extra = Violation("MIS-11", "Extra inputs are not permitted", 422, "body.x", "extra_forbidden")
    assert error_body("mistral", extra)["message"] == snapshot(
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "x"],
                    "msg": "Extra inputs are not permitted",
                    "input": None,
                }
            ]
        }
    )


def test_openrouter_hides_the_upstream_error_in_its_metadata() -> None:
    error = error_body("openrouter", _FOUND)["error"]
    assert error["message"] == "Provider returned error"
    assert json.loads(error["metadata"]["raw"])["error"]["message"] == "it is wrong"


def test_llamacpp_calls_its_500_a_server_error() -> None:
    body = error_body("llamacpp", Violation("LCP-01", "parse error", 500))
    assert body == snapshot(
        {"error": {"code": 500, "message": "parse error", "type": "server_error"}}
    )


@pytest.mark.parametrize(
    ("provider", "key"), [("xai", "error"), ("cerebras", "message"), ("lmstudio", "error")]
)
def test_some_rows_answer_with_a_bare_text(provider: str, key: str) -> None:
    assert error_body(provider, _FOUND)[key] == "it is wrong"


@pytest.mark.parametrize(
    ("provider", "body", "first"),
    [
        ("openai-chat", chat(user(7), zzz=1), "Unknown parameter: 'zzz'."),
        ("openai-chat", {"zzz": 1}, "you must provide a model parameter"),
        ("openai-chat", chat(user(None), user(7)), "Invalid type for 'messages[1].content'"),
        ("openai-chat", chat(user(None), n="x"), "Invalid type for 'n'"),
        ("anthropic", claude(user([]), zzz=1), "zzz: Extra inputs are not permitted"),
        ("anthropic", claude(USER, tools="x", tool_choice=7), "tool_choice: Input should be"),
        ("anthropic", claude(USER, system=7, temperature="x"), "system: Input should be"),
        ("anthropic", claude(user([]), temperature="x"), "temperature: Input should be"),
        ("openai", responses(USER | {"bogus": 1}, zzz=1), "Unknown parameter: 'zzz'."),
        ("openai", responses({}, truncation="x"), "Invalid value: ''. Supported values are: 'assistant'"),
        ("gemini", gemini(content("model"), zzz=1), 'Invalid JSON payload received. Unknown name "zzz"'),
    ],
)  # fmt: skip
def test_the_first_violation_is_the_one_the_provider_reports(
    provider: str, body: Any, first: str
) -> None:
    assert validate(provider, body)[0].message.startswith(first)


def test_what_is_only_mishandled_comes_last() -> None:
    body = chat(USER, asks(call(arguments="")), result(content=[{"type": "text", "text": "x"}]))
    assert [found.status for found in validate("ollama", body)] == [400, 200]


def test_all_violations_are_found_not_only_the_first() -> None:
    body = chat(USER, result(), tools=[tool("a.b"), tool("")], tool_choice="x")
    rules = [found.rule for found in validate("openai-chat", body)]
    assert rules == snapshot(["OAI-08", "OAI-08", "OAI-15", "OAI-01"])


ACCEPTED_BY_OPENAI: list[Any] = [
    chat(USER, USER, {"role": "system", "content": "late"}, USER),
    chat({"role": "assistant", "content": "first"}, USER),
    chat(USER, {"role": "assistant", "content": "last"}),
    chat(USER, asks(content=None), result()),
    chat(USER, {"role": "assistant", "tool_calls": [call()]}, result(content="")),
    chat(USER | {"name": "ann", "unknown": 1}),
    chat(user(""), temperature=None, stop=None, tools=[tool(parameters={})]),
    chat(USER, asks(), result(), asks(), result()),
]


@pytest.mark.parametrize("body", ACCEPTED_BY_OPENAI)
def test_openai_chat_takes_what_it_is_known_to_take(body: Any) -> None:
    assert validate("openai-chat", body) == []
