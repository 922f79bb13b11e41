"""The judge of Gemini generateContent requests."""

from collections.abc import Iterator

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.gemini.contents import (
    check_contents,
    check_system_instruction,
)
from multi_llm_chat.testing.validators.gemini.fields import check_known, read
from multi_llm_chat.testing.validators.gemini.tools import (
    check_generation_config,
    check_tool_config,
    check_tools,
)
from multi_llm_chat.testing.validators.gemini.turns import check_turns
from multi_llm_chat.testing.validators.typed_views import as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation

_REQUEST = frozenset(
    {
        "contents",
        "tools",
        "toolConfig",
        "safetySettings",
        "systemInstruction",
        "generationConfig",
        "cachedContent",
        "labels",
        "model",
        "serviceTier",
        "store",
    }
)


def validate_gemini(body: object, model: str | None) -> Iterator[Violation]:
    """Judge a request to ``:generateContent`` or ``:streamGenerateContent``."""
    request = as_object(body)
    if request is None:
        yield say.PLAIN.fill(reason="Invalid JSON payload received. Expected an object.")
        return
    yield from check_known("", request, _REQUEST)
    fields = read(request)
    name = model if model is not None else as_string(fields.get("model")) or ""
    yield from check_contents(fields)
    yield from check_system_instruction(fields)
    yield from check_tools(fields)
    yield from check_tool_config(fields)
    yield from check_generation_config(fields, name)
    yield from check_turns(fields, name)
