"""The judge of Anthropic Messages requests.

Members are judged in the order in which api.anthropic.com was seen to report them, then unknown
keys, then the conversation, then what the model itself refuses.

What the compiler of strict schemas refuses, over all strict tools of a request and its output format (ANT-42, ANT-43):
1. More than 20 strict tools, 24 optional parameters and 16 parameters with unions; fewer of each in one schema.
2. A definition that refers to itself, directly or through others.
3. A property that is a boolean schema.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.anthropic.messages import (
    check_conversation,
    check_messages,
    check_system,
)
from multi_llm_chat.testing.validators.anthropic.thinking import (
    check_effort,
    check_thinking,
    check_thinking_blocks,
    check_thinking_with_request,
    claude_model,
)
from multi_llm_chat.testing.validators.anthropic.turns import check_pairing
from multi_llm_chat.testing.validators.function_schema import walk
from multi_llm_chat.testing.validators.meta_schema import draft2020_fault
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_number,
    as_object,
    as_string,
    is_of_kind,
    members,
    objects,
)
from multi_llm_chat.testing.validators.violation import Violation

# Tools, and the choice among them.

_TOOL_KEYS = frozenset(
    {
        "name",
        "description",
        "input_schema",
        "type",
        "cache_control",
        "strict",
        "defer_loading",
        "allowed_callers",
        "eager_input_streaming",
        "input_examples",
    }
)
_CHOICE_KEYS = {
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "tool": frozenset({"type", "name", "disable_parallel_tool_use"}),
    "none": frozenset({"type"}),
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS = ("oneOf", "allOf", "anyOf")


def check_tools(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the ``tools`` member."""
    if "tools" not in body:
        return
    items = as_array(body["tools"])
    if items is None:
        yield say.wrong_type("tools", "array")
        return
    for index, item in enumerate(items):
        tool = as_object(item)
        if tool is None:
            yield say.wrong_type(f"tools.{index}", "object")
        elif tool.get("type") in (None, "custom"):
            yield from _check_custom(f"tools.{index}.custom", tool)


def check_tool_names(body: dict[str, Any]) -> Iterator[Violation]:
    """Names are unique; this is seen after the shapes."""
    names = [as_string(tool.get("name")) for tool in objects(body.get("tools"))]
    named = [name for name in names if name is not None]
    if len(set(named)) != len(named):
        yield say.TOOL_NAMES_UNIQUE.fill()


def _check_custom(path: str, tool: dict[str, Any]) -> Iterator[Violation]:
    name = tool.get("name")
    if "name" not in tool:
        yield say.REQUIRED.fill(path=f"{path}.name")
    elif not isinstance(name, str):
        yield say.wrong_type(f"{path}.name", "string")
    elif not _NAME.fullmatch(name):
        yield say.TOOL_NAME.fill(path=f"{path}.name")
    if "description" in tool and not isinstance(tool["description"], str):
        yield say.wrong_type(f"{path}.description", "string")
    yield from _check_schema(f"{path}.input_schema", tool)
    for key in tool:
        if key not in _TOOL_KEYS:
            yield say.EXTRA.fill(path=f"{path}.{key}")


def _check_schema(path: str, tool: dict[str, Any]) -> Iterator[Violation]:
    if "input_schema" not in tool:
        yield say.REQUIRED.fill(path=path)
        return
    schema = as_object(tool["input_schema"])
    if schema is None:
        yield say.wrong_type(path, "object")
        return
    if "type" not in schema:
        yield say.SCHEMA_TYPE.fill(path=path, reason="Field required")
    elif schema["type"] != "object":
        yield say.SCHEMA_TYPE.fill(path=path, reason="Input should be 'object'")
    if any(word in schema for word in _COMBINATORS):
        yield say.SCHEMA_ROOT.fill(path=path)
    properties = schema.get("properties")
    names = as_object(properties)
    if properties is not None and names is None:
        yield say.wrong_type(f"{path}.properties", "object")
    elif not all(_PROPERTY.fullmatch(name) for name in names or {}):
        yield say.SCHEMA_KEYS.fill(path=path)
    # Null stands for absence in these two members, as the published types say.
    stated = {
        word: value
        for word, value in schema.items()
        if value is not None or word not in {"properties", "required"}
    }
    if draft2020_fault(stated) is not None:
        yield say.SCHEMA_DRAFT.fill(path=path)


def check_tool_choice(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the ``tool_choice`` member by itself."""
    if "tool_choice" not in body:
        return
    choice = as_object(body["tool_choice"])
    if choice is None:
        yield say.wrong_type("tool_choice", "object")
        return
    kind = choice.get("type")
    if kind is None:
        yield say.REQUIRED.fill(path="tool_choice.type")
        return
    if not isinstance(kind, str) or kind not in _CHOICE_KEYS:
        expected = ", ".join(f"'{name}'" for name in sorted(_CHOICE_KEYS))
        yield say.BLOCK_KIND.fill(path="tool_choice", kind=kind, expected=expected)
        return
    for key in choice:
        if key not in _CHOICE_KEYS[kind]:
            yield say.EXTRA.fill(path=f"tool_choice.{kind}.{key}")
    if kind == "tool" and not isinstance(choice.get("name"), str):
        yield say.REQUIRED.fill(path="tool_choice.tool.name")


def check_choice_among_tools(body: dict[str, Any]) -> Iterator[Violation]:
    """Only what is offered can be chosen."""
    choice = as_object(body.get("tool_choice"))
    if choice is None:
        return
    tools = objects(body.get("tools"))
    if not tools:
        yield say.CHOICE_WITHOUT_TOOLS.fill()
    elif choice.get("type") == "tool" and isinstance(choice.get("name"), str):
        name = choice["name"]
        if not any(tool.get("name") == name for tool in tools):
            yield say.CHOICE_UNKNOWN.fill(name=name)


# The judge.


class _Member(msgspec.Struct, frozen=True):
    """The type and range of one top-level member."""

    kind: str
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()


#: In the order of report; the members with checks of their own come before these.
_MEMBERS: dict[str, _Member] = {
    "output_config": _Member("shape"),
    "cache_control": _Member("object", nullable=True),
    "max_tokens": _Member("integer", low=0),
    "metadata": _Member("shape"),
    "stop_sequences": _Member("array"),
    "temperature": _Member("decimal", low=0, high=1),
    "service_tier": _Member("value", values=("auto", "standard_only")),
    "top_k": _Member("integer", low=0),
    "top_p": _Member("decimal", low=0, high=1),
    "stream": _Member("boolean"),
    "speed": _Member("value", nullable=True, values=("standard", "fast")),
    "inference_geo": _Member("string", nullable=True),
    "diagnostics": _Member("object", nullable=True),
    "user_profile_id": _Member("string"),
}
_KNOWN = frozenset(_MEMBERS) | {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "system",
    "thinking",
    "container",
    "mcp_servers",  # with the beta header of the connector (ANT-49)
}
_BREAKPOINTS = 4


#: Members of betas, and how the names of their betas begin (ANT-50, ANT-53).
_BETAS: dict[str, tuple[str, ...]] = {
    "context_management": ("context-management-", "compact-"),
    "mcp_servers": ("mcp-client-", "mcp-servers-"),
    "output_format": ("structured-outputs-",),
    "fallbacks": ("server-side-fallback-",),
    "context_hint": ("context-hint-",),
    "request_tags": ("request-tags-",),
}


def _is_announced(key: str, headers: Mapping[str, str] | None) -> bool:
    """Whether the member's beta is among those of the request; unknown headers are taken to name it."""
    prefixes = _BETAS.get(key)
    if prefixes is None or headers is None or "anthropic-beta" not in headers:
        return prefixes is not None and (headers is None or not headers)
    values = headers["anthropic-beta"].split(",")
    return any(value.strip().startswith(prefixes) for value in values)


def validate_anthropic(
    body: object, model: str | None, headers: Mapping[str, str] | None = None
) -> Iterator[Violation]:
    """Judge a request to ``/v1/messages``."""
    request = as_object(body)
    if request is None:
        yield say.TYPE.fill(path="body", reason="Input should be an object")
        return
    claude = claude_model(model if model is not None else as_string(request.get("model")) or "")
    yield from _check_model(request)
    yield from check_tool_choice(request)
    yield from check_tools(request)
    yield from check_messages(request)
    yield from check_system(request)
    yield from check_thinking(request, claude)
    yield from _check_members(request)
    for key in request:
        if key not in _KNOWN and not _is_announced(key, headers):
            yield say.EXTRA.fill(path=key)
    yield from check_conversation(request, claude)
    yield from check_pairing(
        request, wants_tools=claude.wants_tools, compares_ids=claude.compares_ids
    )
    yield from check_tool_names(request)
    yield from check_strict_schemas(request)
    yield from check_choice_among_tools(request)
    yield from check_thinking_with_request(request, claude)
    yield from check_effort(request, claude)
    yield from check_thinking_blocks(request, claude)
    yield from _check_breakpoints(request)


def _check_model(request: dict[str, Any]) -> Iterator[Violation]:
    if "model" not in request:
        yield say.REQUIRED.fill(path="model")
    elif not isinstance(request["model"], str):
        yield say.wrong_type("model", "string")
    elif not request["model"]:
        yield say.TYPE.fill(path="model", reason="String should have at least 1 character")


def _check_members(request: dict[str, Any]) -> Iterator[Violation]:
    if "max_tokens" not in request:
        yield say.REQUIRED.fill(path="max_tokens")
    for name, member in _MEMBERS.items():
        if name in request and not (request[name] is None and member.nullable):
            yield from _check_member(name, member, request[name])
    for index, sequence in enumerate(as_array(request.get("stop_sequences")) or []):
        if not isinstance(sequence, str):
            yield say.wrong_type(f"stop_sequences.{index}", "string")
    for key in members(request.get("metadata")):
        if key != "user_id":
            yield say.EXTRA.fill(path=f"metadata.{key}")


def _check_member(name: str, member: _Member, value: object) -> Iterator[Violation]:
    if member.kind == "value":
        if value not in member.values:
            names = " or ".join(f"'{item}'" for item in member.values)
            yield say.TYPE.fill(path=name, reason=f"Input should be {names}")
        return
    if not is_of_kind(value, member.kind):
        yield say.wrong_type(name, member.kind)
        return
    number = as_number(value)
    if number is None:
        return
    if member.high is not None and not (member.low or 0) <= number <= member.high:
        yield say.VALUE.fill(path=name, reason="range: 0..1")
    elif member.low is not None and number < member.low:
        yield say.VALUE.fill(path=name, reason="must be greater than or equal to 0")


def _check_breakpoints(request: dict[str, Any]) -> Iterator[Violation]:
    blocks = [request, *objects(request.get("tools")), *objects(request.get("system"))]
    for message in objects(request.get("messages")):
        for block in objects(message.get("content")):
            blocks.append(block)
            blocks.extend(objects(block.get("content")))
    count = sum(1 for block in blocks if block.get("cache_control") is not None)
    if count > _BREAKPOINTS:
        yield say.CACHE_BREAKPOINTS.fill(count=count)


_TOOLS = 20
_OPTIONAL = 24
_UNIONS = 16


def check_strict_schemas(body: dict[str, Any]) -> Iterator[Violation]:
    """Count over all strict schemas, and look into each."""
    yield from _check_answer_format("output_format", body.get("output_format"))
    chosen = members(body.get("output_config")).get("format")
    yield from _check_answer_format("output_config.format", chosen)
    tools = [
        (f"tools.{index}.custom", as_object(tool.get("input_schema")) or {})
        for index, tool in enumerate(objects(body.get("tools")))
        if tool.get("strict") is True
    ]
    if len(tools) > _TOOLS:
        yield say.STRICT_TOOLS.fill(count=len(tools))
    form = as_object(members(members(body.get("output_config")).get("format")).get("schema"))
    schemas = [*tools, *([("output_config.format.schema", form)] if form is not None else [])]
    optional = sum(_optional(schema) for _, schema in schemas)
    if optional > _OPTIONAL:
        yield say.STRICT_OPTIONAL.fill(count=optional)
    unions = sum(_unions(schema) for _, schema in schemas)
    if unions > _UNIONS:
        yield say.STRICT_UNIONS.fill(count=unions)
    for path, schema in tools:
        yield from _check_strict_schema(path, schema)
    if any(_optional(schema) >= _OPTIONAL or _unions(schema) >= _UNIONS for _, schema in schemas):
        yield say.STRICT_COMPLEX.fill()


def _check_answer_format(path: str, form: object) -> Iterator[Violation]:
    """The schema of the answer stands directly in its format, not one level deeper as in OpenAI's."""
    given = members(form)
    if given.get("type") == "json_schema" and as_object(given.get("schema")) is None:
        yield say.REQUIRED.fill(path=f"{path}.schema")
    for _, schema in walk(given.get("schema")):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            yield say.FORMAT_OPEN.fill(path=f"{path}.schema")
            return


def _optional(root: dict[str, Any]) -> int:
    return sum(
        len(set(members(schema.get("properties"))) - set(as_array(schema.get("required")) or []))
        for _, schema in walk(root)
    )


def _unions(root: dict[str, Any]) -> int:
    return sum(
        1 for _, schema in walk(root) if isinstance(schema.get("type"), list) or "anyOf" in schema
    )


def _check_strict_schema(path: str, root: dict[str, Any]) -> Iterator[Violation]:
    definitions = members(root.get("$defs")) | members(root.get("definitions"))
    for name, definition in definitions.items():
        if name in _reachable(definition, definitions):
            yield say.STRICT_CIRCLE.fill(path=path, name=name)
            break
    for _, schema in walk(root):
        if any(isinstance(child, bool) for child in members(schema.get("properties")).values()):
            yield say.STRICT_BOOLEAN.fill(path=path)
            break


def _reachable(start: object, definitions: dict[str, Any]) -> set[str]:
    """The names of all definitions that a schema refers to, also through others."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for _, schema in walk(pending.pop()):
            name = (as_string(schema.get("$ref")) or "").rpartition("/")[2]
            if name in definitions and name not in found:
                found.add(name)
                pending.append(definitions[name])
    return found
