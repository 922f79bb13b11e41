"""Each rule of the catalogue refuses its minimal violation and accepts its corrected counterpart."""

import json
from typing import Any

import pytest
from tests.testing import anthropic_cases, gemini_cases, openai_cases, row_cases
from tests.testing.cases import SCHEMA, USER, Case, chat, tool, user

from multi_llm_chat.testing import PROVIDERS, Violation, error_body, validate

CASES: list[Case] = [
    *openai_cases.CHAT_CASES,
    *openai_cases.RESPONSES_CASES,
    *anthropic_cases.CASES,
    *gemini_cases.CASES,
    *row_cases.CASES,
]
_IDENTITIES = [case.identity for case in CASES]

#: Rules that a request body cannot show: server flags, replies, opaque payloads.
_NOT_IN_A_BODY = {
    "OAI-03", "OAI-04",  # worded and tested as OAI-01 and OAI-02
    "RSP-04", "RSP-13",  # which reasoning belonged to an item; what is allowed
    "ANT-27",  # Bedrock
    "GEM-06", "GEM-07",  # genuineness and history of signatures
    "GRQ-04", "GRQ-05", "DSK-02", "XAI-04", "ORT-01", "ORT-04", "AZR-02",  # replies
    "OLL-07",  # the native endpoint
    "VLL-04", "LCP-05", "LCP-08",  # flags of the server
}  # fmt: skip
_SIZES = {
    "OAI": 23, "RSP": 14, "ANT": 27, "GEM": 22, "GRQ": 7, "CER": 3, "FWK": 2, "MIS": 13, "DSK": 7,
    "XAI": 4, "ORT": 4, "OLL": 8, "VLL": 8, "LCP": 8, "AZR": 3,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=_IDENTITIES)
def test_the_offender_is_refused_by_its_rule(case: Case) -> None:
    found = validate(case.provider, case.rejected, model=case.model)
    assert found
    assert found[0].rule == case.rule
    assert case.text in found[0].message
    assert found[0].status == case.status


@pytest.mark.parametrize("case", CASES, ids=_IDENTITIES)
def test_the_repaired_counterpart_is_accepted(case: Case) -> None:
    assert validate(case.provider, case.accepted, model=case.model) == []


def test_no_case_has_the_name_of_another() -> None:
    assert len(set(_IDENTITIES)) == len(_IDENTITIES)


def test_every_rule_that_a_body_can_show_has_a_case() -> None:
    wanted = {f"{prefix}-{n:02}" for prefix, size in _SIZES.items() for n in range(1, size + 1)}
    assert wanted - _NOT_IN_A_BODY - {case.rule for case in CASES} == set()


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_wraps_an_error(provider: str) -> None:
    body = error_body(provider, Violation("X-01", "it is wrong", 400, "messages", "code"))
    assert "it is wrong" in json.dumps(body)


def test_an_unknown_provider_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="Unknown provider 'nobody'"):
        validate("nobody", {})


_IMAGE_TEXT = {"type": "image_url", "image_url": "https://example.com/a.png"}
_OPUS_3 = "claude-3-opus-20240229"
_ANSWERED_APART: list[Any] = [
    {"role": "user", "parts": [{"text": "Ask both."}]},
    {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in "fg"]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "g", "response": {"a": 2}}}]},
    {"role": "user", "parts": [{"text": "And now answer."}]},
]
_NUMBERED = {"name": "f", "parameters": {"type": 6, "properties": {"a": {"type": 1}}}}
_OTHER_ID: list[Any] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "ok"}]},
]  # fmt: skip

#: Forms that a provider accepts according to recordings (VCR cassettes of Arize-ai/openinference, crewAIInc/crewAI,
#: DataDog/dd-trace-py, open-telemetry/opentelemetry-python-contrib and activeagents/activeagent, 2026-11).
RECORDED: dict[str, tuple[str, Any, str]] = {
    "null-response-format": ("openai-chat", chat(USER, response_format=None), "gpt-4o"),
    "null-tools": ("openai-chat", chat(USER, tools=None), "gpt-4o-mini"),
    "picture-as-text": ("openai-chat", chat(user([_IMAGE_TEXT])), "gpt-4-vision-preview"),
    "any-tool-behind-openrouter": ("openrouter", chat(USER, tools=[tool()], tool_choice="any"), "google/gemini-2.0-flash-001"),
    "azure-spells-gpt-3.5": ("azure", chat(USER, max_tokens=20, temperature=0, model="gpt-35-turbo"), "gpt-35-turbo"),
    "responses-in-neighbours": ("gemini", {"contents": _ANSWERED_APART}, "gemini-2.5-flash"),
    "types-as-numbers": ("gemini", {"contents": _ANSWERED_APART[:1], "tools": [{"functionDeclarations": [_NUMBERED]}]}, "gemini-2.5-pro"),
    "claude-3-opus-compares-no-ids": ("anthropic", {"model": _OPUS_3, "max_tokens": 9, "messages": _OTHER_ID, "tools": [{"name": "f", "input_schema": SCHEMA}]}, _OPUS_3),
}  # fmt: skip


@pytest.mark.parametrize(("provider", "body", "model"), RECORDED.values(), ids=RECORDED)
def test_a_form_that_was_recorded_as_accepted_is_accepted(
    provider: str, body: Any, model: str
) -> None:
    assert validate(provider, body, model=model) == []
