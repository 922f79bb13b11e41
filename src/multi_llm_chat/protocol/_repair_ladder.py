"""The stronger repairs: how a rejected request is sent once more.

Rules:
1. A repair takes a request and returns another one; which repair answers which rejection is
   the catalogue's matter (``protocol._rejections``).
2. A repair gives up form, never words: what cannot be sent as it is becomes text.
3. Every key of the catalogue has a repair; an unknown key changes nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.protocol.rendered_request import target_of
from multi_llm_chat.protocol.request_draft import media_label
from multi_llm_chat.repair.engine import repair
from multi_llm_chat.repair.framing import frame
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.request import ModelRequest, Options, ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools

_ANYTHING: Final = re.compile(r".*", re.DOTALL)
_NOTHING: Final = re.compile(r"(?!)")

#: What remains of a schema in its plainest form.
_PLAIN_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object"})


def stronger(request: ModelRequest, key: str) -> tuple[ModelRequest, Mapping[str, str]]:
    """The request with the repair of this name.

    The second value leads from the names of tools that were renamed back to those in ``request``.
    """
    request = replace(request, messages=None)  # what was refused was not of our making
    if key == "rename_tools":
        return _rename_tools(request)
    change = _REPAIRS.get(key)
    return (request if change is None else change(request)), {}


def _drop_thinking(request: ModelRequest) -> ModelRequest:
    turns = [
        _with_parts(turn, [part for part in turn.parts if not isinstance(part, Thinking)])
        for turn in request.turns
    ]
    return replace(request, turns=tuple(turn for turn in turns if turn.parts))


def _disable_thinking(request: ModelRequest) -> ModelRequest:
    settled = _drop_thinking(request)
    return replace(settled, options=replace(settled.options, thinking=False))


def _reasoning_none(request: ModelRequest) -> ModelRequest:
    setting: JsonObject = (
        {"reasoning": {"effort": "none"}}
        if provider_row(request.provider).dialect == "openai_responses"
        else {"reasoning_effort": "none"}
    )
    options = replace(request.options, thinking=None, extra=request.options.extra | setting)
    return replace(request, options=options)


def _flatten_tools(request: ModelRequest) -> ModelRequest:
    """Calls and results as text of their speakers; pairing comes first, so none is lost."""
    turns: list[Turn] = []
    for turn in _repaired(request):
        parts: list[Part] = [text for part in turn.parts for text in _as_text(part)]
        turns.append(_with_parts(turn, parts, "user" if turn.role == "tool" else turn.role))
    return replace(request, turns=tuple(turns))


def _drop_tools(request: ModelRequest) -> ModelRequest:
    settled = _flatten_tools(request)
    return replace(settled, tools=(), options=replace(settled.options, tool_choice=None))


def _shorten_ids(request: ModelRequest) -> ModelRequest:
    return replace(request, turns=_repaired(request, id_pattern=_NOTHING))


def _rename_tools(request: ModelRequest) -> tuple[ModelRequest, Mapping[str, str]]:
    offered = read_tools(request.tools).definitions
    used = [part.name for part in _parts(request) if isinstance(part, ToolCall | ToolResult)]
    originals = dict.fromkeys([*(tool.name for tool in offered), *used])
    plain = {name: f"tool_{number}" for number, name in enumerate(originals, 1)}
    choice = request.options.tool_choice
    changed = replace(
        request,
        turns=tuple(
            _with_parts(turn, [_renamed(part, plain) for part in turn.parts])
            for turn in request.turns
        ),
        tools=tuple(
            ToolDefinition(plain[tool.name], tool.description or tool.name, tool.schema)
            for tool in offered
        ),
        options=replace(request.options, tool_choice=plain.get(choice or "", choice)),
    )
    return changed, {sent: name for name, sent in plain.items()}


def _plain_schemas(request: ModelRequest) -> ModelRequest:
    tools = tuple(
        ToolDefinition(tool.name, tool.description, _plain_object(tool.schema))
        for tool in read_tools(request.tools).definitions
    )
    return replace(request, tools=tools)


def _alternate(request: ModelRequest) -> ModelRequest:
    target = _target(
        request,
        alternates=True,
        answers_after_tools=True,
        system="leading",
        opens="user",
        ends="user",
    )
    notes: list[Note] = []
    placed = repair(request.turns, target, request.policy).placed
    turns: list[Turn] = []
    for _, turn in frame(placed, target, notes):
        before = turns[-1] if turns else None
        if before is not None and turn.role == before.role and not _calls(before):
            turns[-1] = _with_parts(before, [*before.parts, *turn.parts])
        else:
            turns.append(turn)
    return replace(request, turns=tuple(turns))


def _drop_options(request: ModelRequest) -> ModelRequest:
    # The schema stays: without it the answer would be of no use to who asked for one.
    return replace(request, options=Options(schema=request.options.schema))


def _drop_media(request: ModelRequest) -> ModelRequest:
    turns = tuple(
        _with_parts(turn, [_without_media(part) for part in turn.parts]) for turn in request.turns
    )
    return replace(request, turns=turns)


def _same(request: ModelRequest) -> ModelRequest:
    return request


_REPAIRS: Final[Mapping[str, Callable[[ModelRequest], ModelRequest]]] = {
    "drop_thinking": _drop_thinking,
    "disable_thinking": _disable_thinking,
    "reasoning_none": _reasoning_none,
    "flatten_tools": _flatten_tools,
    "drop_tools": _drop_tools,
    "shorten_ids": _shorten_ids,
    "plain_schemas": _plain_schemas,
    "alternate": _alternate,
    "drop_options": _drop_options,
    "drop_media": _drop_media,
    "resend": _same,
}


def _target(request: ModelRequest, **changes: Any) -> Target:
    """What the provider demands of a history, tool names and ids aside unless changed."""
    row = provider_row(request.provider)
    target = target_of(
        row,
        request.model or row.default_model,
        speaker=request.speaker,
        base_url=request.base_url,
    )
    return replace(target, **{"id_pattern": _ANYTHING, "name_pattern": _ANYTHING} | changes)


def _repaired(request: ModelRequest, **changes: Any) -> tuple[Turn, ...]:
    return repair(request.turns, _target(request, **changes), request.policy).turns


def _with_parts(turn: Turn, parts: Iterable[Part], role: str | None = None) -> Turn:
    return replace(turn, parts=tuple(parts), role=role or turn.role)


def _parts(request: ModelRequest) -> Iterable[Part]:
    return (part for turn in request.turns for part in turn.parts)


def _calls(turn: Turn) -> bool:
    return any(isinstance(part, ToolCall) for part in turn.parts)


def _as_text(part: Part) -> Sequence[Part]:
    if isinstance(part, ToolCall):
        return (Text(f"[used {part.name} {compact_json(part.arguments)}]"),)
    if isinstance(part, ToolResult):
        text, media = split_result(part.content)
        failed = " (failed)" if part.is_error else ""
        return (Text(f"[result of {part.name or 'the tool'}{failed}: {text}]"), *media)
    return () if isinstance(part, Thinking) else (part,)


def _renamed(part: Part, names: Mapping[str, str]) -> Part:
    if isinstance(part, ToolCall | ToolResult):
        return replace(part, name=names[part.name])
    return part


def _without_media(part: Part) -> Part:
    if isinstance(part, Media):
        return Text(media_label(part))
    if isinstance(part, ToolResult):
        text, media = split_result(part.content)
        if media:
            return replace(part, content="\n".join([text, *map(media_label, media)]).strip())
    return part


def _plain_object(schema: JsonObject) -> JsonObject:
    empty: JsonObject = {"properties": {}}
    return empty | _plain(schema, depth=0) | {"type": "object"}


def _plain(schema: JsonObject, depth: int) -> JsonObject:
    """Types, properties and descriptions; what is deeper than any tool needs becomes anything."""
    kind = schema.get("type")
    written: JsonObject = {"type": kind if kind in _PLAIN_TYPES else "string"}
    if isinstance(schema.get("description"), str):
        written["description"] = schema["description"]
    if written["type"] == "array":
        written["items"] = _plain(_mapping(schema.get("items")), depth + 1)
    properties: dict[str, Any] = _mapping(schema.get("properties"))
    if properties and depth < 8:
        written["type"] = "object"
        written["properties"] = {
            name: _plain(_mapping(inner), depth + 1) for name, inner in properties.items()
        }
    return written


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
