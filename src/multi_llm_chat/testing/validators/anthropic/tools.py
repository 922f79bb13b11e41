"""The tools that an Anthropic request offers, and the choice among them."""

import re
from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.meta_schema import draft2020_fault
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, objects
from multi_llm_chat.testing.validators.violation import Violation

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
