"""Reads tool definitions in any provider's form as ``ToolDefinition`` values.

Rules:
1. One list may mix these forms: MCP (``inputSchema``), Anthropic (``input_schema``), OpenAI Chat
   (``function``), OpenAI Responses (flat, ``parameters``), Gemini (``functionDeclarations`` with
   ``parameters`` or ``parametersJsonSchema``) and ``ToolDefinition``; as mappings or as objects with
   such attributes. The keys of a tool decide its form, never the other tools in the list.
2. Every definition has a name and a valid schema of an object, ``{"type": "object", "properties": {}}``
   if none was given.
3. A tool without a name, or one that only its own provider can run, is skipped and reported.
4. A value that is not a tool at all is the caller's mistake: ``UsageError``.
5. Names are not changed, even duplicate or too long ones: the encoder makes them legal for its dialect.
6. OpenAI's forms that other servers refuse are flattened (RSP-19). A namespace becomes its tools; a tool whose name is taken
   gets the namespace's name as a prefix. A custom tool becomes a function with the text argument ``input``, which is also how
   its calls are read. A tool search that the client runs becomes a function with its parameters.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object, clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.cleanup import MAX_DEPTH, clean_schema

_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_JSON_SCHEMAS: Final = (
    "inputSchema",
    "input_schema",
    "parametersJsonSchema",
    "parameters_json_schema",
)
_FIELDS: Final = ("type", "name", "description", "function", "parameters", *_JSON_SCHEMAS)
#: Types of tools that the client runs; any other type is run by its provider.
_OUR_TYPES: Final = frozenset({None, "", "function", "custom", "object"})
#: The argument of a custom tool, whose calls are free text.
_INPUT: Final = "input"
_EXPECTED: Final = (
    "expected an MCP, Anthropic, OpenAI or Gemini tool definition, such as "
    '{"name": …, "description": …, "inputSchema": {…}}'
)

#: Fields of Gemini's ``Schema`` message as its Python library spells them.
_PROTO_NAMES: Final = {
    "any_of": "anyOf", "max_items": "maxItems", "min_items": "minItems", "max_length": "maxLength",
    "min_length": "minLength", "max_properties": "maxProperties", "min_properties": "minProperties",
    "property_ordering": "propertyOrdering", "additional_properties": "additionalProperties",
    "defs": "$defs", "ref": "$ref",
}  # fmt: skip
_PROTO_COUNTS: Final = frozenset(
    {"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"}
)

#: The limit for messages that contain themselves; cleaning has its own, larger limit.
_MAX_PROTO_NODES: Final = 2_000


class ReadTools(Struct, frozen=True):
    """The tools that can be offered, and a line about each that cannot."""

    definitions: tuple[ToolDefinition, ...] = ()
    skipped: tuple[str, ...] = ()


def read_tools(tools: object) -> ReadTools:
    """Read tool definitions of any form and clean their schemas.

    Args:
        tools: A list of tools, a single one, or ``None``.

    Raises:
        UsageError: A member is not a tool definition.
    """
    found = find_tools(tools)
    definitions = tuple(
        ToolDefinition(tool.name, tool.description, clean_schema(tool.schema))
        for tool in found.definitions
    )
    return ReadTools(definitions, found.skipped)


def find_tools(tools: object) -> ReadTools:
    """Like ``read_tools``, but without cleaning the schemas, which is most of the work.

    Args:
        tools: A list of tools, a single one, or ``None``.

    Raises:
        UsageError: A member is not a tool definition.
    """
    definitions: list[ToolDefinition] = []
    skipped: list[str] = []
    for index, tool in enumerate(_members(tools)):
        if type(tool) is ToolDefinition and _is_clean(tool):  # most tools were read before
            definitions.append(tool)
            continue
        for found in _declared(index, tool):
            if isinstance(found, str):
                skipped.append(f"tool {index}: {found}")
            else:
                definitions.append(_apart(found, tool, definitions))
    return ReadTools(tuple(definitions), tuple(skipped))


def _is_clean(tool: ToolDefinition) -> bool:
    """Whether reading the definition would return an equal one."""
    name, words = tool.name, tool.description
    return (
        (type(name) is str and bool(name.strip()) and clean_text(name) is name)
        and (type(words) is str and clean_text(words) is words)
        and type(tool.schema) is dict
    )


def _apart(found: ToolDefinition, tool: object, before: Iterable[ToolDefinition]) -> ToolDefinition:
    """The tool; a tool of a namespace gets the namespace's name as a prefix if another tool has its name."""
    fields = as_object(tool) or {}
    if fields.get("type") != "namespace" or all(each.name != found.name for each in before):
        return found
    name = f"{clean_text(str(fields.get('name')))}__{found.name}"
    return ToolDefinition(name, found.description, found.schema)


def _members(tools: object) -> Iterable[object]:
    if tools is None:
        return ()
    if isinstance(tools, Mapping | ToolDefinition):
        return (cast("object", tools),)
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes):
        return cast("Iterable[object]", tools)
    raise UsageError(
        f"tools must be a list of tool definitions (actual type: {type(tools).__name__})"
    )


def _declared(index: int, tool: object) -> Iterator[ToolDefinition | str]:
    """Yield the definitions in one member of the list; for an unusable one, yield the reason as text."""
    if isinstance(tool, ToolDefinition):
        yield _definition(tool.name, tool.description, tool.schema)
        return
    fields = _fields(tool)
    if fields is None:
        found = type(tool).__name__
        raise UsageError(
            f"tools[{index}] is no tool definition (actual type: {found}); {_EXPECTED}"
        )
    if fields.get("type") == "namespace":
        yield from _in_namespace(fields)
        return
    declarations = next((fields[key] for key in _DECLARATIONS if fields.get(key)), None)
    if declarations is None:
        yield _read(fields)
        return
    for declaration in _members(declarations):
        inner = _fields(declaration)
        yield "a function declaration that is none" if inner is None else _read_proto(inner)


def _in_namespace(fields: Mapping[str, Any]) -> Iterator[ToolDefinition | str]:
    """Yield the tools of a namespace; namespaces cannot be nested."""
    for tool in _members(fields.get("tools")):
        inner = _fields(tool)
        if inner is None or inner.get("type") == "namespace":
            yield "a member of a namespace that is no tool"
        else:
            yield _read(inner)


def _fields(tool: object) -> Mapping[str, Any] | None:
    """Return a tool's fields by name, or ``None`` for a value without such fields."""
    if isinstance(tool, Mapping):
        return cast("Mapping[str, Any]", tool)
    dump = getattr(tool, "model_dump", None)
    if callable(dump) and not isinstance(tool, type):
        # Pydantic models of the providers' libraries, nested ones included.
        return cast("Mapping[str, Any]", dump(mode="json", by_alias=True, exclude_none=True))
    fields = {
        key: value
        for key in (*_FIELDS, *_DECLARATIONS)
        if (value := getattr(tool, key, None)) is not None
    }
    known = {"name", "function", *_DECLARATIONS} & fields.keys()
    return fields if known and not isinstance(tool, type) else None


def _read(fields: Mapping[str, Any]) -> ToolDefinition | str:
    function = fields.get("function")
    inner = None if function is None else _fields(cast("object", function))
    if inner is not None:
        return _definition(inner.get("name"), inner.get("description"), _schema(inner))
    custom = fields.get("custom")
    if custom is not None and (inner := _fields(cast("object", custom))) is not None:
        return _read_custom(inner)
    schema = _schema(fields)
    if schema is None and fields.get("type") == "custom":
        return _read_custom(fields)
    if schema is not None and fields.get("type") == "tool_search":
        fields = {"name": "tool_search", **fields}
    if schema is None and fields.get("type") not in _OUR_TYPES:
        return f"{fields.get('type')!r} is run by its own provider and cannot be offered to others"
    return _definition(fields.get("name"), fields.get("description"), schema)


def _read_custom(fields: Mapping[str, Any]) -> ToolDefinition | str:
    """Read a tool whose calls are free text; its grammar goes into a description because a schema cannot express it."""
    given = as_object(fields.get("format")) or {}
    rules = as_object(given.get("grammar")) or given
    text: JsonObject = {"type": "string"}
    if isinstance(rules.get("definition"), str):
        text["description"] = f"Text of this {rules.get('syntax')} grammar: {rules['definition']}"
    schema: JsonObject = {"type": "object", "properties": {_INPUT: text}, "required": [_INPUT]}
    return _definition(fields.get("name"), fields.get("description"), schema)


def _read_proto(fields: Mapping[str, Any]) -> ToolDefinition | str:
    schema = next((fields[key] for key in _JSON_SCHEMAS if fields.get(key) is not None), None)
    if schema is None:
        schema = _ProtoReader().schema(fields.get("parameters"))
    return _definition(fields.get("name"), fields.get("description"), schema)


def _schema(fields: Mapping[str, Any]) -> Any:
    keys = (*_JSON_SCHEMAS, "parameters")
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _definition(name: Any, description: Any, schema: Any) -> ToolDefinition | str:
    cleaned = clean_text(name) if isinstance(name, str) else ""
    if not cleaned.strip():
        return "it has no name"
    words = clean_text(description) if isinstance(description, str) else ""
    given = cast("JsonObject", schema) if type(schema) is dict else clean_schema(schema)
    return ToolDefinition(cleaned, words, given)


class _ProtoReader:
    """Converts Gemini's ``Schema`` message to JSON Schema; cleaning corrects the names of types (``STRING``)."""

    def __init__(self) -> None:
        self.remaining = _MAX_PROTO_NODES

    def schema(self, schema: Any, depth: int = 0) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        self.remaining -= 1
        if depth > MAX_DEPTH or self.remaining < 0:
            return {}
        result: JsonObject = {}
        for key, value in cast("Mapping[str, Any]", schema).items():
            keyword: str = _PROTO_NAMES.get(key, key)
            result[keyword] = self.value(keyword, value, depth + 1)
        if result.pop("nullable", False) is True and isinstance(result.get("type"), str):
            result["type"] = [result["type"], "null"]
            if isinstance(result.get("enum"), list):
                result["enum"] = [*result["enum"], None]
        if "example" in result:
            result["examples"] = [result.pop("example")]
        return result

    def value(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in _PROTO_COUNTS and isinstance(value, str) and value.isdecimal():
            # Protobuf's JSON writes 64-bit integers as strings.
            return int(value) if len(value) < 20 else value
        if keyword in {"items", "additionalProperties"}:
            return self.schema(value, depth)
        if keyword == "anyOf" and isinstance(value, list | tuple):
            return [self.schema(item, depth) for item in cast("list[Any]", value)]
        if keyword in {"properties", "$defs"} and isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {name: self.schema(item, depth) for name, item in entries}
        return value
