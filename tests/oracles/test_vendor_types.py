"""The vendors' own types validate our requests, for any history.

Pydantic checks an ``Iterable`` only when it is iterated, so the types are converted to have
a list for every ``Iterable``.
"""

import collections.abc
import types
import typing
import warnings
from typing import Any

import jsonschema_rs
import typing_extensions
from anthropic.types import message_create_params as anthropic_params
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from tests.protocol.test_never_a_400 import MODELS, REQUESTS
from tests.strategies.histories import nasty_histories

from multi_llm_chat import render
from multi_llm_chat.protocol.providers import ROWS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its sources contain escapes that newer Pythons warn about
    from google.genai import types as gemini_types


_REQUIRED = (typing.Required, typing_extensions.Required)
_OPTIONAL = (typing.NotRequired, typing_extensions.NotRequired)


def _walked(value: Any, seen: dict[Any, Any]) -> Any:
    """Return the type with lists for iterables, inside unions, annotations and typed dicts."""
    if typing_extensions.is_typeddict(value):
        return _walked_dict(value, seen)
    origin = typing.get_origin(value)
    if origin is None or origin is typing.Literal:
        return value
    walked = tuple(_walked(argument, seen) for argument in typing.get_args(value))
    if origin in (typing.Union, types.UnionType):
        return typing.Union[walked]  # noqa: UP007
    if origin is typing.Annotated:
        return typing.Annotated[walked]
    return (list if origin is collections.abc.Iterable else origin)[walked]


def _walked_dict(value: Any, seen: dict[Any, Any]) -> Any:
    if value in seen:
        return seen[value]
    # A recursive reference keeps the SDK's own type.
    seen[value] = value
    hints = typing_extensions.get_type_hints(value, include_extras=True)
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        # With string annotations the class itself does not know which keys are required.
        required = typing.get_origin(hint) in _REQUIRED or (
            name in value.__required_keys__ and typing.get_origin(hint) not in _OPTIONAL
        )
        mark = typing_extensions.Required if required else typing_extensions.NotRequired
        fields[name] = mark[_walked(_bare(hint), seen)]
    # Created at run time, which a type checker cannot follow.
    make: Any = typing_extensions.TypedDict
    made: Any = make(value.__name__, fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    seen[value] = made
    return made


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) in _REQUIRED + _OPTIONAL else hint


def _adapter(typed_dict: Any) -> TypeAdapter[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's types shadow attributes of pydantic's
        return TypeAdapter(_walked(typed_dict, {}))


CHAT = _adapter(chat_params.CompletionCreateParamsNonStreaming)
RESPONSES = _adapter(responses_params.ResponseCreateParamsNonStreaming)
ANTHROPIC = _adapter(anthropic_params.MessageCreateParamsNonStreaming)

HISTORIES = {"history": nasty_histories, "request": REQUESTS}


def body_of(
    provider: str, model: str, history: list[Any], request: dict[str, Any]
) -> dict[str, Any]:
    whole: dict[str, Any] = request | {"stream": False}
    return render(history, provider, model=model, **whole).body


@given(model=st.sampled_from(MODELS["openai-chat"]), **HISTORIES)
def test_openais_chat_types_take_every_request(
    model: str, history: list[Any], request: dict[str, Any]
):
    CHAT.validate_python(body_of("openai-chat", model, history, request))


@given(model=st.sampled_from(MODELS["openai"]), **HISTORIES)
def test_openais_responses_types_take_every_request(
    model: str, history: list[Any], request: dict[str, Any]
):
    body = body_of("openai", model, history, request)
    for number, item in enumerate(body["input"]):
        if item.get("type") == "reasoning":
            # The type requires an id, but the API refuses one that it has not stored (RSP-06).
            item["id"] = f"rs_{number}"
        if item.get("role") == "assistant":
            # Likewise; Codex sends messages without the type's required keys
            # (RULES, section 11), and LCP-14 requires the list.
            item |= {"id": f"msg_{number}", "status": "completed"}
            item["content"] = [part | {"annotations": []} for part in item["content"]]
    RESPONSES.validate_python(body)


@given(model=st.sampled_from(MODELS["anthropic"]), **HISTORIES)
def test_anthropics_types_take_every_request(
    model: str, history: list[Any], request: dict[str, Any]
):
    body = body_of("anthropic", model, history, request)
    # The SDK's types omit sampling options; older models still accept them.
    body.pop("temperature", None)
    body.pop("top_p", None)
    ANTHROPIC.validate_python(body)


class GenerateContent(BaseModel):
    """The generateContent request as google-genai's own models describe it; they forbid extra keys."""

    model_config = ConfigDict(extra="forbid")

    contents: list[gemini_types.Content]
    tools: list[gemini_types.Tool] | None = None
    toolConfig: gemini_types.ToolConfig | None = None
    systemInstruction: gemini_types.Content | None = None
    generationConfig: gemini_types.GenerationConfig | None = None


@given(model=st.sampled_from(MODELS["gemini"]), **HISTORIES)
def test_googles_types_take_every_request(model: str, history: list[Any], request: dict[str, Any]):
    GenerateContent.model_validate(body_of("gemini", model, history, request))


def schemas_of(body: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for tool in body.get("tools", []):
        for one in tool.get("functionDeclarations", [tool.get("function", tool)]):
            found += [
                one[key]
                for key in ("parameters", "input_schema", "parametersJsonSchema")
                if key in one
            ]
    return found


@given(provider=st.sampled_from(sorted(ROWS)), request=REQUESTS)
def test_every_tool_schema_that_is_sent_is_a_schema(provider: str, request: dict[str, Any]):
    for schema in schemas_of(render([], provider, **request).body):
        jsonschema_rs.meta.validate(
            schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        )
        if provider == "mistral":
            jsonschema_rs.meta.validate(
                schema | {"$schema": "http://json-schema.org/draft-07/schema#"}
            )
        jsonschema_rs.validator_for(schema)


def test_the_types_do_refuse():
    """Without this the tests above might pass because nothing is checked."""
    refused: list[tuple[TypeAdapter[Any], dict[str, Any]]] = [
        (CHAT, {"model": "m", "messages": [{"role": "bogus", "content": "x"}]}),
        (CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}], "bogus": 1}),
        (RESPONSES, {"model": "m", "input": [{"type": "function_call", "name": "f"}]}),
        (ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "think"}]}]}),
        (ANTHROPIC, {"model": "m", "messages": [{"role": "user", "content": "x"}]}),
    ]  # fmt: skip
    for adapter, body in refused:
        try:
            adapter.validate_python(body)
        except ValidationError:
            continue
        raise AssertionError(f"taken: {body}")
