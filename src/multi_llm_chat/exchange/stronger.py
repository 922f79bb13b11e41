"""The stronger repairs: how a rejected question is asked once more.

Rules:
1. A repair takes a question and returns another one; which repair answers which rejection is
   the catalogue's matter (``wire.rejections``).
2. A repair gives up form, never words: what cannot be sent as it is, is told as text.
3. Every key of the catalogue has a repair; an unknown key changes nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from multi_llm_chat.exchange.question import Question
from multi_llm_chat.exchange.rendering import target_of
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.result_parts import split_result
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
from multi_llm_chat.providers import provider_row
from multi_llm_chat.repair import Note, Target, frame, repair
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.wire.encoding import media_label
from multi_llm_chat.wire.tool_definitions import read_tools

_ANYTHING: Final = re.compile(r".*", re.DOTALL)
_NOTHING: Final = re.compile(r"(?!)")

#: What remains of a schema when it is told as plainly as possible.
_PLAIN_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object"})


def stronger(question: Question, key: str) -> Question:
    """The question with the repair of this name."""
    change = _REPAIRS.get(key)
    return question if change is None else change(question)


def _drop_thinking(question: Question) -> Question:
    turns = [
        _with_parts(turn, [part for part in turn.parts if not isinstance(part, Thinking)])
        for turn in question.turns
    ]
    return replace(question, turns=tuple(turn for turn in turns if turn.parts))


def _disable_thinking(question: Question) -> Question:
    settled = _drop_thinking(question)
    return replace(settled, options=replace(settled.options, thinking=False))


def _reasoning_none(question: Question) -> Question:
    setting: JsonObject = (
        {"reasoning": {"effort": "none"}}
        if provider_row(question.provider).dialect == "openai_responses"
        else {"reasoning_effort": "none"}
    )
    options = replace(question.options, thinking=None, extra=question.options.extra | setting)
    return replace(question, options=options)


def _flatten_tools(question: Question) -> Question:
    """Calls and results as text of those who made them; pairing comes first, so none is lost."""
    turns: list[Turn] = []
    for turn in _repaired(question):
        parts: list[Part] = [told for part in turn.parts for told in _told(part)]
        turns.append(_with_parts(turn, parts, "user" if turn.role == "tool" else turn.role))
    return replace(question, turns=tuple(turns))


def _drop_tools(question: Question) -> Question:
    settled = _flatten_tools(question)
    return replace(settled, tools=(), options=replace(settled.options, tool_choice=None))


def _shorten_ids(question: Question) -> Question:
    return replace(question, turns=_repaired(question, id_pattern=_NOTHING))


def _rename_tools(question: Question) -> Question:
    offered = read_tools(question.tools).definitions
    used = [part.name for part in _parts(question) if isinstance(part, ToolCall | ToolResult)]
    originals = dict.fromkeys([*(tool.name for tool in offered), *used])
    plain = {name: f"tool_{number}" for number, name in enumerate(originals, 1)}
    choice = question.options.tool_choice
    return replace(
        question,
        turns=tuple(
            _with_parts(turn, [_renamed(part, plain) for part in turn.parts])
            for turn in question.turns
        ),
        tools=tuple(
            ToolDefinition(plain[tool.name], tool.description or tool.name, tool.schema)
            for tool in offered
        ),
        options=replace(question.options, tool_choice=plain.get(choice or "", choice)),
        names={sent: question.names.get(name, name) for name, sent in plain.items()},
    )


def _plain_schemas(question: Question) -> Question:
    tools = tuple(
        ToolDefinition(tool.name, tool.description, _plain_object(tool.schema))
        for tool in read_tools(question.tools).definitions
    )
    return replace(question, tools=tools)


def _alternate(question: Question) -> Question:
    target = _target(question, alternates=True, answers_after_tools=True, system="leading")
    notes: list[Note] = []
    placed = repair(question.turns, target, question.policy).placed
    turns: list[Turn] = []
    for _, turn in frame(placed, target, notes):
        before = turns[-1] if turns else None
        if before is not None and turn.role == before.role and not _calls(before):
            turns[-1] = _with_parts(before, [*before.parts, *turn.parts])
        else:
            turns.append(turn)
    return replace(question, turns=tuple(turns))


def _drop_options(question: Question) -> Question:
    # The schema stays: without it the answer would be of no use to who asked for one.
    return replace(question, options=Options(schema=question.options.schema))


def _drop_media(question: Question) -> Question:
    turns = tuple(
        _with_parts(turn, [_without_media(part) for part in turn.parts]) for turn in question.turns
    )
    return replace(question, turns=turns)


def _same(question: Question) -> Question:
    return question


_REPAIRS: Final[Mapping[str, Callable[[Question], Question]]] = {
    "drop_thinking": _drop_thinking,
    "disable_thinking": _disable_thinking,
    "reasoning_none": _reasoning_none,
    "flatten_tools": _flatten_tools,
    "drop_tools": _drop_tools,
    "shorten_ids": _shorten_ids,
    "rename_tools": _rename_tools,
    "plain_schemas": _plain_schemas,
    "alternate": _alternate,
    "drop_options": _drop_options,
    "drop_media": _drop_media,
    "resend": _same,
}


def _target(question: Question, **changes: Any) -> Target:
    """What the provider demands of a history, tool names and ids aside unless changed."""
    row = provider_row(question.provider)
    target = target_of(
        row,
        question.model or row.default_model,
        speaker=question.speaker,
        base_url=question.base_url,
    )
    return replace(target, **{"id_pattern": _ANYTHING, "name_pattern": _ANYTHING} | changes)


def _repaired(question: Question, **changes: Any) -> tuple[Turn, ...]:
    return repair(question.turns, _target(question, **changes), question.policy).turns


def _with_parts(turn: Turn, parts: Iterable[Part], role: str | None = None) -> Turn:
    return replace(turn, parts=tuple(parts), role=role or turn.role)


def _parts(question: Question) -> Iterable[Part]:
    return (part for turn in question.turns for part in turn.parts)


def _calls(turn: Turn) -> bool:
    return any(isinstance(part, ToolCall) for part in turn.parts)


def _told(part: Part) -> Sequence[Part]:
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
