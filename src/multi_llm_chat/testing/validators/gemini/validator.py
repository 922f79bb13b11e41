"""The judge of Gemini generateContent requests: its tools and settings, and everything together."""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.gemini.contents import (
    NAME,
    check_contents,
    check_known,
    check_system_instruction,
    read,
    snake,
)
from multi_llm_chat.testing.validators.gemini.schema import check_schema
from multi_llm_chat.testing.validators.gemini.turns import check_turns, needs_signatures
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_integer,
    as_number,
    as_object,
    as_string,
)
from multi_llm_chat.testing.validators.violation import Violation

# Tools and settings.

_TOOL = frozenset(
    {
        "functionDeclarations",
        "googleSearch",
        "googleSearchRetrieval",
        "googleMaps",
        "codeExecution",
        "urlContext",
        "computerUse",
        "fileSearch",
        "mcpServers",
    }
)
_DECLARATION = frozenset(
    {
        "name",
        "description",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
        "behavior",
    }
)
_TOOL_CONFIG = frozenset(
    {"functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"}
)
_CALLING = frozenset({"mode", "allowedFunctionNames", "streamFunctionCallArguments"})
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_GENERATION = frozenset(
    {
        "temperature",
        "topP",
        "topK",
        "candidateCount",
        "maxOutputTokens",
        "stopSequences",
        "responseLogprobs",
        "logprobs",
        "presencePenalty",
        "frequencyPenalty",
        "seed",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "responseFormat",
        "mediaResolution",
        "speechConfig",
        "thinkingConfig",
        "imageConfig",
        "enableEnhancedCivicAnswers",
        "enableAffectiveDialog",
        "audioTranscriptionConfig",
        "translationConfig",
        "continuationToken",
    }
)
_THINKING = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
_NUMBERS = ("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty")
_INTEGERS = ("candidateCount", "maxOutputTokens", "logprobs", "seed")


def declarations(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The function declarations of all tools, each with its path."""
    found: list[tuple[str, dict[str, Any]]] = []
    for index, tool in enumerate(as_array(body.get("tools")) or []):
        listed = as_array(read(tool).get("functionDeclarations")) or []
        for position, item in enumerate(listed):
            declaration = as_object(item)
            if declaration is not None:
                path = f"tools[{index}].function_declarations[{position}]"
                found.append((path, declaration))
    return found


def check_tools(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the tools and the function declarations in them."""
    tools = body.get("tools")
    listed = as_array(tools)
    if tools is None:
        return
    for index, item in enumerate([tools] if listed is None else listed):
        tool = as_object(item)
        path = f"tools[{index}]"
        if tool is None:
            yield say.INVALID.fill(path=path, kind="Tool", value=say.shown(item))
            continue
        yield from check_known(path, tool, _TOOL)
        if not any(value is not None and value != [] for value in read(tool).values()):
            reason = "required one_of 'tool_type' must have one initialized field"
            yield say.FIELD.fill(path=f"{path}.tool_type", reason=reason)
    seen: set[str] = set()
    for path, declaration in declarations(body):
        yield from _check_declaration(path, declaration)
        name = as_string(declaration.get("name")) or ""
        if name in seen:
            yield say.DUPLICATE.fill(name=name)
        seen.add(name)


def _check_declaration(path: str, declaration: dict[str, Any]) -> Iterator[Violation]:
    yield from check_known(path, declaration, _DECLARATION)
    fields = read(declaration)
    if not NAME.fullmatch(as_string(fields.get("name")) or ""):
        yield say.NAME.fill(path=f"{path}.name")
    for member in ("parameters", "response"):
        if member in fields:
            yield from check_schema(f"{path}.{member}", fields[member])
    if "parametersJsonSchema" in fields:
        if "parameters" in fields:
            yield say.BOTH_SCHEMAS.fill(path=path)
        schema = as_object(fields["parametersJsonSchema"])
        if schema is None or schema.get("type") != "object":
            yield say.JSON_SCHEMA_ROOT.fill(path=path)


def check_tool_config(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge ``toolConfig``: it has something to configure."""
    config = as_object(body.get("toolConfig"))
    if config is None:
        return
    yield from check_known("tool_config", config, _TOOL_CONFIG)
    calling = as_object(read(config).get("functionCallingConfig"))
    if calling is None:
        return
    path = "tool_config.function_calling_config"
    yield from check_known(path, calling, _CALLING)
    fields = read(calling)
    mode = fields.get("mode", "AUTO")
    if not isinstance(mode, str) or mode.upper() not in _MODES:
        yield say.INVALID.fill(path=f"{path}.mode", kind="Mode", value=say.shown(mode))
    declared = {declaration.get("name") for _, declaration in _named(body)}
    if not declared and not body.get("tools"):
        yield say.CONFIG_WITHOUT_TOOLS.fill()
    yield from _check_allowed(path, mode, fields.get("allowedFunctionNames"), declared)


def _named(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = declarations(body)
    return [(path, item) for path, item in found if isinstance(item.get("name"), str)]


def _check_allowed(
    path: str, mode: object, names: object, declared: set[Any]
) -> Iterator[Violation]:
    allowed = as_array(names)
    if not allowed:
        return
    if mode not in ("ANY", "VALIDATED", "any", "validated"):
        reason = (
            "Allowed function names should be set only when function calling mode is ANY or "
            "VALIDATED."
        )
        yield say.PLAIN.fill(reason=reason)
    for name in allowed:
        if not isinstance(name, str) or name not in declared:
            reason = "should be a subset of the declared function names"
            yield say.FIELD.fill(path=f"{path}.allowed_function_names", reason=reason)


def check_generation_config(body: dict[str, Any], model: str) -> Iterator[Violation]:
    """Judge ``generationConfig``."""
    value = body.get("generationConfig")
    config = as_object(value)
    if config is None:
        if value is not None:
            shown = say.shown(value)
            yield say.INVALID.fill(path="generation_config", kind="message", value=shown)
        return
    path = "generation_config"
    yield from check_known(path, config, _GENERATION)
    fields = read(config)
    yield from _check_numbers(path, fields)
    # recorded (refused): maruel/genai providers/gemini, the models behind gemini-*-latest
    if fields.get("responseLogprobs") and re.search(r"gemini-[3-9]|-latest", model):
        yield say.PLAIN.fill(reason="Logprobs is not enabled for this model")
    if "responseSchema" in fields:
        yield from check_schema(f"{path}.response_schema", fields["responseSchema"])
    if len(as_array(fields.get("stopSequences")) or []) > 5:
        reason = "at most 5 stop sequences are supported"
        yield say.FIELD.fill(path=f"{path}.stop_sequences", reason=reason)
    is_json = fields.get("responseMimeType") == "application/json"
    if is_json and declarations(body) and not needs_signatures(model):
        reason = "Function calling with a response mime type: 'application/json' is unsupported"
        yield say.PLAIN.fill(reason=reason)
    yield from _check_thinking(fields.get("thinkingConfig"), model)


def _check_numbers(path: str, fields: dict[str, Any]) -> Iterator[Violation]:
    for name in _NUMBERS:
        if name in fields and as_number(fields[name]) is None:
            shown = say.shown(fields[name])
            yield say.INVALID.fill(path=f"{path}.{snake(name)}", kind="TYPE_FLOAT", value=shown)
    for name in _INTEGERS:
        if name in fields and as_integer(fields[name]) is None:
            shown = say.shown(fields[name])
            yield say.INVALID.fill(path=f"{path}.{snake(name)}", kind="TYPE_INT32", value=shown)
    temperature = as_number(fields.get("temperature"))
    if temperature is not None and not 0 <= temperature <= 2:
        yield say.TEMPERATURE.fill(value=temperature)


def _check_thinking(value: object, model: str) -> Iterator[Violation]:
    config = as_object(value)
    if config is None:
        return
    yield from check_known("generation_config.thinking_config", config, _THINKING)
    fields = read(config)
    if "thinkingBudget" in fields and "thinkingLevel" in fields:
        reason = "You can only set only one of thinking budget and thinking level."
        yield say.LEVEL.fill(reason=reason)
    elif "thinkingLevel" in fields and not needs_signatures(model):
        yield say.LEVEL.fill(reason="Thinking level is not supported for this model.")
    elif "thinkingLevel" in fields:
        level = str(fields["thinkingLevel"]).lower()
        refused = next((words for names, words in _REFUSED_LEVELS if names.search(model)), ())
        if level not in _LEVELS or level in refused:
            yield say.LEVEL.fill(reason=f"Thinking level {level} is not supported for this model.")
    elif "thinkingBudget" in fields and not _takes_budget(fields["thinkingBudget"], model):
        yield say.LEVEL.fill(reason="The thinking budget is invalid for this model.")


_LEVELS = ("minimal", "low", "medium", "high")
#: Levels that models are documented not to take (GEM-28).
_REFUSED_LEVELS = (
    (re.compile(r"gemini-3-pro"), ("minimal", "medium")),
    (re.compile(r"gemini-3\.1-pro|gemini-3\.[78]-flash(?!-lite)"), ("minimal",)),
)


def _takes_budget(budget: object, model: str) -> bool:
    if budget == -1 or not isinstance(budget, int):
        return budget == -1
    if "2.5-pro" in model:
        return 128 <= budget <= 32_768
    if "2.5-flash-lite" in model:
        return budget == 0 or 512 <= budget <= 24_576
    return "2.5-flash" not in model or 0 <= budget <= 24_576


# The judge.

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
        "modelArmorConfig",
        "serviceTier",
        "store",
    }
)


#: What a cached content has, and a request that uses it may not.
_OF_THE_CACHE = frozenset({"systemInstruction", "tools", "toolConfig"})


def validate_gemini(body: object, model: str | None) -> Iterator[Violation]:
    """Judge a request to ``:generateContent`` or ``:streamGenerateContent``."""
    request = as_object(body)
    if request is None:
        yield say.PLAIN.fill(reason="Invalid JSON payload received. Expected an object.")
        return
    yield from check_known("", request, _REQUEST)
    fields = read(request)
    if fields.get("cachedContent") and not _OF_THE_CACHE.isdisjoint(fields):
        yield say.CACHED.fill()
    name = model if model is not None else as_string(fields.get("model")) or ""
    yield from check_contents(fields)
    yield from check_system_instruction(fields)
    yield from check_tools(fields)
    yield from check_tool_config(fields)
    yield from check_generation_config(fields, name)
    yield from check_turns(fields, name)
