"""Requests that the validators accept are also valid for the providers' own SDK types."""

import warnings
from typing import Any

import pytest
from anthropic.types import message_create_params as anthropic_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from pydantic import BaseModel, ConfigDict, TypeAdapter
from tests.testing import anthropic_cases, gemini_cases, openai_cases
from tests.testing.cases import Case

from multi_llm_chat.testing.validators.gemini.contents import camel

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its sources contain escapes that newer Pythons warn about
    from google.genai import types as gemini_types


def _adapter(typed_dict: Any) -> TypeAdapter[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's types shadow attributes of pydantic's
        return TypeAdapter(typed_dict)


_CHAT = _adapter(chat_params.CompletionCreateParamsNonStreaming)
_RESPONSES = _adapter(responses_params.ResponseCreateParamsNonStreaming)
_ANTHROPIC = _adapter(anthropic_params.MessageCreateParamsNonStreaming)

#: Members that the API accepts although the SDK's types omit them.
_SAMPLING = ("temperature", "top_p", "top_k")


def _identity(case: Case) -> str:
    return case.identity


@pytest.mark.parametrize("case", openai_cases.CHAT_CASES, ids=_identity)
def test_openai_chat_types_accept_what_we_accept(case: Case) -> None:
    _CHAT.validate_python(case.accepted)


@pytest.mark.parametrize("case", openai_cases.RESPONSES_CASES, ids=_identity)
def test_openai_responses_types_accept_what_we_accept(case: Case) -> None:
    _RESPONSES.validate_python(case.accepted)


@pytest.mark.parametrize("case", anthropic_cases.CASES, ids=_identity)
def test_anthropic_types_accept_what_we_accept(case: Case) -> None:
    body = {key: value for key, value in case.accepted.items() if key not in _SAMPLING}
    _ANTHROPIC.validate_python(body)


class _Request(BaseModel):
    """The generateContent request as google-genai's own models describe it."""

    model_config = ConfigDict(extra="forbid")

    contents: list[gemini_types.Content]
    tools: list[gemini_types.Tool] | None = None
    toolConfig: gemini_types.ToolConfig | None = None
    systemInstruction: gemini_types.Content | None = None
    generationConfig: gemini_types.GenerationConfig | None = None


@pytest.mark.parametrize("case", gemini_cases.CASES, ids=_identity)
def test_gemini_types_accept_what_we_accept(case: Case) -> None:
    _Request.model_validate({camel(key): value for key, value in case.accepted.items()})
