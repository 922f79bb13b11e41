"""The stronger repairs: how a rejected request is changed and sent again, and how the conversation remembers that.

Rules:
1. A repair takes a request and returns a changed one; ``protocol._rejections`` decides which repair
   answers which rejection.
2. A repair changes the form, but never loses text: content that cannot be sent as it is becomes text.
3. Every key of the catalogue has a repair; an unknown key changes nothing.
4. If the request is rejected again after the matching repair, the rungs of ``LADDER`` follow, each once, with at most
   ``MOST_REPAIRS`` repairs in all. A rung that changes nothing is skipped.
5. ``newest_turns`` is the only repair that loses text: it is the last rung, and the answer's turn says so.
6. If the error text to which ``drop_options`` belongs names one option, only that option is left out: ``drop_option:NAME``.

Rules of the memory (SPEC 2.8: no conversation is refused twice for the same reason):
1. The turn that answers a repaired request has the repairs in ``meta["repairs"]``: who refused, and by which rule. So the
   memory is saved, branched, exported and resumed with the conversation, and needs no table of its own.
2. A later request to the same provider, endpoint and model is repaired before it is sent.
3. Most repairs apply to every later request, and every later answer records them again. Those in ``POSITIONAL``
   concern the content of the history at that time: they apply to the turns before the one that records them.
4. ``meta`` may come from an imported history: unknown names of repairs are skipped.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.history.json_values import as_object, as_text, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.capabilities import claude_family
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

#: The types of a schema in its plainest form.
_PLAIN_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object"})


#: The ``meta`` of a tool's turn that was written as the user's.
_FLATTENED: Final[JsonObject] = {"flattened": True}

#: The repairs that are tried one after the other if the matching one did not help.
LADDER: Final = ("drop_thinking", "describe_media", "flatten_tools", "newest_turns")
MOST_REPAIRS: Final = 4
#: The prefix of the repairs that leave out one option; below, the options that have the same name in every dialect that refuses them.
_ONE_OPTION: Final = "drop_option:"
_SINGLE_OPTIONS: Final = (
    "temperature", "top_p", "seed", "stop", "parallel_tool_calls", "service_tier", "metadata",
)  # fmt: skip
#: Repairs that concern the content of the history, not how it is written.
POSITIONAL: Final = ("new_container", "describe_media", "newest_turns")


def next_repair(
    request: ModelRequest, matching: str | None, tried: Collection[str]
) -> tuple[str, ModelRequest, Mapping[str, str]] | None:
    """The next repair of a refused request, with the repaired request and its renamed tools; None if no repair is left.

    ``matching`` is the repair that answers the refusal; without one, the ladder continues only if a repair was already tried.
    """
    if len(tried) >= MOST_REPAIRS or (matching is None and not tried):
        return None
    if matching == "resend":
        return None if matching in tried else ("resend", request, {})
    for key in dict.fromkeys((matching, *LADDER)):
        if key is None or key in tried:
            continue
        changed, renamed = stronger(request, key)
        if changed != request:
            return key, changed, renamed
    return None


def named_option(request: ModelRequest, message: str) -> str | None:
    """The repair that leaves out the first option that the error text names; None if it names no option that is set."""
    options = request.options
    names = [name for name in _SINGLE_OPTIONS if getattr(options, name) not in (None, ())]
    places = {
        found.start(): name
        for name in (*options.extra, *names)
        if (found := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message))
    }
    return _ONE_OPTION + places[min(places)] if places else None


def stronger(request: ModelRequest, key: str) -> tuple[ModelRequest, Mapping[str, str]]:
    """The request with the repair of this name.

    The second value maps the names of renamed tools to those in ``request``.
    """
    # The caller's own ``messages`` were refused, so the turns are sent instead. A repaired request continues no earlier one.
    request = replace(request, messages=None, previous=None)
    if key == "rename_tools":
        return _rename_tools(request)
    if key.startswith(_ONE_OPTION):
        return _drop_option(request, key.removeprefix(_ONE_OPTION)), {}
    change = _REPAIRS.get(key)
    return (request if change is None else change(request)), {}


def _drop_thinking(request: ModelRequest) -> ModelRequest:
    turns = [
        _with_parts(turn, [part for part in turn.parts if not isinstance(part, Thinking)])
        for turn in request.turns
    ]
    settled = replace(request, turns=tuple(turn for turn in turns if turn.parts))
    binding = as_object(request.options.extra.get("thinking")) or {}
    if "block_binding" not in binding:
        return settled
    extra = {key: value for key, value in request.options.extra.items() if key != "thinking"}
    return replace(settled, options=replace(request.options, extra=extra))


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
    """Write calls and results as text of their speakers; pairing comes first, so that none is lost."""
    turns: list[Turn] = []
    for turn in _repaired(request):
        parts: list[Part] = [text for part in turn.parts for text in _as_text(part)]
        if turn.role == "tool":
            turn = replace(turn, role="user", meta=_FLATTENED)
        turns.append(_with_parts(turn, parts))
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
    repaired = repair(request.turns, target, request.policy)
    turns: list[Turn] = []
    for turn in frame(repaired.turns, repaired.sources, target, notes)[0]:
        before = turns[-1] if turns else None
        if before is not None and turn.role == before.role and not _calls(before):
            turns[-1] = _with_parts(before, [*before.parts, *turn.parts])
        else:
            turns.append(turn)
    return replace(request, turns=tuple(turns))


def _drop_options(request: ModelRequest) -> ModelRequest:
    # The schema stays: a caller that asked for structured output could not use an answer without it.
    return replace(request, options=Options(schema=request.options.schema))


def _drop_option(request: ModelRequest, name: str) -> ModelRequest:
    options = request.options
    if name in options.extra:
        extra = {key: value for key, value in options.extra.items() if key != name}
        return replace(request, options=replace(options, extra=extra))
    if name in _SINGLE_OPTIONS:
        options = replace(options, **{name: getattr(Options(), name)})
    return replace(request, options=options)


def _drop_media(request: ModelRequest) -> ModelRequest:
    turns = tuple(
        _with_parts(turn, [_without_media(part) for part in turn.parts]) for turn in request.turns
    )
    return replace(request, turns=turns)


def _drop_block(request: ModelRequest) -> ModelRequest:
    """Let Anthropic drop the thinking whose prefix has changed, instead of refusing the request (ANT-30)."""
    if provider_row(request.provider).dialect != "anthropic":
        return request
    if not claude_family(request.model or "").binds_thinking:
        return _drop_thinking(request)
    given = as_object(request.options.extra.get("thinking")) or {}
    thinking = given | {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    options = replace(request.options, extra=request.options.extra | {"thinking": thinking})
    return replace(request, options=options)


def _new_container(request: ModelRequest) -> ModelRequest:
    """Remove the id of the container in which code ran before: Anthropic creates a new one (ANT-48)."""
    turns = [
        replace(turn, meta={key: value for key, value in turn.meta.items() if key != "container"})
        if "container" in turn.meta
        else turn
        for turn in request.turns
    ]
    return replace(request, turns=tuple(turns))


def _newest_turns(request: ModelRequest) -> ModelRequest:
    """Keep the leading system turns, and all turns from the user's last turn on."""
    turns = request.turns
    users = [
        at for at, turn in enumerate(turns) if turn.role == "user" and turn.meta is not _FLATTENED
    ]
    head = next((at for at, turn in enumerate(turns) if turn.role != "system"), 0)
    if not users or users[-1] <= head:
        return request
    return replace(request, turns=(*turns[:head], *turns[users[-1] :]))


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
    "describe_media": _drop_media,
    "drop_block": _drop_block,
    "new_container": _new_container,
    "newest_turns": _newest_turns,
    "resend": _same,
}


def is_known_repair(key: str) -> bool:
    """Whether a repair recorded in a history is known and may be applied."""
    return (
        key.startswith(_ONE_OPTION)
        or key == "rename_tools"
        or (key in _REPAIRS and key != "resend")
    )


def _target(request: ModelRequest, **changes: Any) -> Target:
    """The provider's requirements on a history, without those on tool names and ids unless ``changes`` has them."""
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
    """Keep only types, properties and descriptions; properties nested deeper than 8 levels are dropped."""
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


# The memory of earlier repairs, kept in the history itself.

_MARK: Final = "repairs"


class Recalled(Struct, frozen=True):
    """A request with the repairs of earlier refusals; ``rules`` maps each to its rule, ``names`` renamed tools to the caller's."""

    request: ModelRequest
    rules: Mapping[str, str] = {}
    names: Mapping[str, str] = {}


def recall_repairs(request: ModelRequest, origin: Origin) -> Recalled:
    """Apply the repairs that the request's history has recorded for ``origin``."""
    found = _find_marks(request.turns, origin)
    if not found:
        return Recalled(request)
    turns = request.turns
    for key in POSITIONAL:  # only the last changes the number of turns
        if key in found:
            at = found[key][1]
            before, _ = stronger(replace(request, turns=turns[:at]), key)
            turns = (*before.turns, *turns[at:])
    request = replace(request, turns=turns)
    names: Mapping[str, str] = {}
    for key in found:
        if key not in POSITIONAL:
            request, renamed = stronger(request, key)
            names = renamed or names
    return Recalled(request, {key: rule for key, (rule, _) in found.items()}, names)


def repair_mark(origin: Origin, rules: Mapping[str, str]) -> JsonObject:
    """The ``meta`` of a turn that answers a request with these repairs; ``rules`` maps each repair to its rule."""
    if not rules:
        return {}
    return {
        _MARK: {
            "provider": origin.provider,
            "endpoint": origin.endpoint,
            "model": origin.model,
            "applied": dict(rules),
        }
    }


def _find_marks(turns: Sequence[Turn], origin: Origin) -> dict[str, tuple[str, int]]:
    """The repairs that the history has recorded for the origin: the rule of each, and the index of the last turn with it."""
    found: dict[str, tuple[str, int]] = {}
    for at in [at for at, turn in enumerate(turns) if _MARK in turn.meta]:
        mark = as_object(turns[at].meta.get(_MARK))
        if mark is None or origin != _origin(mark):
            continue
        for key, rule in (as_object(mark.get("applied")) or {}).items():
            if is_known_repair(key):
                found[key] = as_text(rule), at
    return found


def _origin(mark: JsonObject) -> Origin:
    return Origin(*(as_text(mark.get(name)) for name in ("provider", "endpoint", "model")))
