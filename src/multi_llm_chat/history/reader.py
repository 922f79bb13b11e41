"""Read a history: accepts many forms, returns one exact form.

Rules:
1. Each entry becomes one turn: the result is aligned with the input, and the input is not changed.
2. Content is a list of parts, a string, or a single part; a list may contain strings.
3. An entry that is not a turn at all becomes an unreadable placeholder. A part, content or turn that cannot be interpreted
   becomes a ``Native`` part whose text is its JSON: one bad element never makes a history fail. With ``strict`` it raises
   ``UsageError`` with the turn's index instead.
4. A call without an id gets one made from its position, unique in the history.
5. A tool result consists of text and media (``split_result``): a list of our own text and media parts is split,
   any other value is written as JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import (
    as_list,
    as_object,
    as_text,
    clean_json,
    compact_json,
    type_of,
)
from multi_llm_chat.history.values import (
    NOWHERE,
    Extras,
    JsonObject,
    Media,
    Native,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

#: Other systems' names for our roles.
ROLE_ALIASES = {"developer": "system", "function": "tool", "human": "user"}

#: Keys of OpenAI-style messages whose content our parts express.
MESSAGE_KEYS = frozenset({"tool_calls", "tool_call_id", "name"})


class UsualContents(Struct, frozen=True):
    """What turns in the usual form contain, by kind and in order.

    In the usual form, a turn has a role and at least one part, and no other fields. Its parts are texts, calls and results
    without extras; a tool turn contains only results, and no other turn contains any. Calls have ids, no errors, and
    arguments with string keys.

    ``lists`` are the indexes of the turns that are more than a single text: among them are all turns with calls or results.
    """

    texts: list[str]
    calls: list[ToolCall]
    results: list[ToolResult]
    lists: list[int]


class ReadHistory(tuple[Turn, ...]):
    """Turns that ``read_history`` has already read; it returns such a value unchanged.

    ``contents`` are those of the turns if a fast path has read all of them: later lists then need not look at each part.
    """

    contents: UsualContents | None = None


def read_history(turns: Iterable[Any]) -> ReadHistory:
    """Read serialised turns (or ``Turn`` values); every call in the result has an id."""
    if type(turns) is ReadHistory:
        return turns
    # Usually a list or tuple, so this is checked first: isinstance with Mapping costs more than reading a turn.
    if not isinstance(turns, (list, tuple)) and (
        isinstance(turns, (str, bytes, Mapping)) or not hasattr(turns, "__iter__")
    ):
        found = type(cast(object, turns)).__name__
        raise UsageError(f"A history is a list of turns (actual type: {found}).")
    entries: Sequence[Any] = turns if isinstance(turns, (list, tuple)) else list(turns)
    return read_own_form(entries) or read_each(entries)


def read_each(entries: Iterable[Any]) -> ReadHistory:
    """Read turns of which some are not in the usual form, each by itself."""
    read = [
        turn if type(turn) is Turn else read_turn(turn, index) for index, turn in enumerate(entries)
    ]
    return ReadHistory(_with_call_ids(read) if _lack_ids(read) else read)


class _OtherFormError(Exception):
    """A turn is not in the form of ``writer``, which the fast path reads."""


def read_own_form(turns: Sequence[Any]) -> ReadHistory | None:
    """Read serialised turns by the fast path for the form that ``writer`` writes; None if any turn has another form."""
    try:
        return _read_own_turns(turns)
    except (
        KeyError,
        _OtherFormError,
    ):  # a missing key is rare, so the keys are read without a check
        return None


def read_turn(value: object, index: int | None, *, strict: bool = False) -> Turn:
    """Read one turn; ``index`` is its index in the history (None if there is no history), for errors."""
    own = read_own_form((value,))
    if own is not None:
        return own[0]
    entry = as_object(value)
    if entry is None:
        return Turn(role="system", unreadable=f"not a turn: {type(value).__name__}")
    return _read_entry(entry, index, strict)


def _read_own_turns(turns: Sequence[Any]) -> ReadHistory:
    """Read turns in the usual form: a plain text, or texts, calls and results in the form of ``writer``.

    Raises:
        KeyError: A turn or part lacks a key, so it has another form.
        _OtherFormError: A turn has another form.
    """
    if set(map(type_of, turns)) != {dict} or sum(map(len, turns)) != 2 * len(turns):
        raise _OtherFormError
    roles: list[Any] = [turn["role"] for turn in turns]
    contents: list[Any] = [turn["content"] for turn in turns]
    if not all(contents) or not _are_texts(roles):
        raise _OtherFormError
    distinct = set(roles)
    if not all(map(str.strip, distinct)):
        raise _OtherFormError
    if not distinct.isdisjoint(ROLE_ALIASES):
        roles = [ROLE_ALIASES.get(role, role) for role in roles]
    if "tool" in distinct or "function" in distinct or not _are_texts(contents):
        return _read_own_parts(roles, contents)
    parts = zip(map(Text, contents))
    return read_with_contents(map(Turn, roles, parts), UsualContents(contents, [], [], []))


def read_with_contents(turns: Iterable[Turn], contents: UsualContents) -> ReadHistory:
    """Turns in the usual form, with their contents."""
    read = ReadHistory(turns)
    read.contents = contents
    return read


def _are_texts(values: list[Any]) -> bool:
    """Whether all values are strings: to join them costs less than to look at each."""
    try:
        "".join(values)
    except TypeError:
        return False
    return True


def _read_own_parts(roles: list[str], contents: list[Any]) -> ReadHistory:
    """Read turns of which some have a list of parts."""
    parts: list[tuple[Part, ...]] = []
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    lists: list[int] = []
    for role, content in zip(roles, contents, strict=True):
        if type_of(content) is str and role != "tool":
            texts.append(content)
            parts.append((Text(content),))
        elif type_of(content) is not list:  # text in a tool turn would be a result
            raise _OtherFormError
        else:
            lists.append(len(parts))
            if role == "tool":
                answers = _read_own_results(content)
                results += answers
                parts.append(answers)
            else:
                parts.append(_read_own_spoken(content, texts, calls))
    keys = chain.from_iterable([call.arguments for call in calls])
    if not {str}.issuperset(map(type_of, keys)):
        raise _OtherFormError
    return read_with_contents(map(Turn, roles, parts), UsualContents(texts, calls, results, lists))


def _read_own_spoken(
    content: list[Any], texts: list[str], calls: list[ToolCall]
) -> tuple[Text | ToolCall, ...]:
    """Read texts and calls, and append them to the lists; the caller checks the keys of the arguments."""
    parts: list[Text | ToolCall] = []
    for item in content:
        if type_of(item) is not dict or len(item) != 2:
            raise _OtherFormError
        kind, value = item["type"], item["content"]
        if kind == "tool_call" and type_of(value) is dict and len(value) == 3:
            name, identifier = value["name"], value["tool_call_id"]
            arguments = value["arguments"]
            if type(name) is not str or type(identifier) is not str or not identifier:
                raise _OtherFormError
            if type_of(arguments) is not dict:
                raise _OtherFormError
            call = ToolCall(name, arguments.copy(), identifier)
            calls.append(call)
            parts.append(call)
        elif kind == "text" and type(value) is str:
            texts.append(value)
            parts.append(Text(value))
        else:
            raise _OtherFormError
    return tuple(parts)


def _read_own_results(content: Any) -> tuple[ToolResult, ...]:
    results: list[ToolResult] = []
    for item in content:
        if type_of(item) is not dict or len(item) != 4 or item["type"] != "tool_result":
            raise _OtherFormError
        name, identifier = item["name"], item["tool_call_id"]
        if type(name) is not str or type(identifier) is not str:
            raise _OtherFormError
        results.append(ToolResult(name, item["content"], identifier))
    return tuple(results)


def _read_entry(entry: JsonObject, index: int | None, strict: bool) -> Turn:
    if "unreadable" in entry:
        return Turn(role="system", unreadable=str(entry["unreadable"]))
    role = entry.get("role")
    if not isinstance(role, str) or not role.strip():
        if strict:
            raise UsageError(
                f"A turn needs a 'role' that says who spoke (found: {role!r}).", turn=index
            )
        if "content" not in entry:
            return Turn("user", (unknown_part(entry, "turn without a role"),))
        role = "user"
    role = ROLE_ALIASES.get(role, role)
    content: object = entry.get("content")
    if len(entry) == 2 and content is not None:
        parts = read_parts(content, index, strict=strict)
        if role != "tool" or Text not in map(type, parts):
            return Turn(role, parts)
    has_message_keys = not MESSAGE_KEYS.isdisjoint(entry)
    if content is None and (has_message_keys or not strict):
        content = ""
    parts = read_parts(content, index, strict=strict)
    if has_message_keys or role == "tool":
        parts = _with_message_keys(parts, role, entry, index, strict)
    return Turn(
        role=role,
        parts=parts,
        id=entry.get("id"),
        created_at=entry.get("created_at"),
        model=entry.get("model"),
        meta=as_object(entry.get("meta")) or {},
    )


def read_parts(content: object, index: int | None, *, strict: bool = False) -> tuple[Part, ...]:
    """Read a turn's content in any of its accepted forms."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    items = as_list(content)
    if items is None and (alone := as_object(content)) is not None:
        items = [alone] if as_text(alone.get("type")) in PART_READERS else None
    if items is None:
        if not strict:
            return (unknown_part(content, type(content).__name__),)
        raise wrong_content(content, index)
    return tuple([read_part(item, index, at, strict=strict) for at, item in enumerate(items)])


def wrong_content(content: object, index: int | None) -> UsageError:
    """The error for content that is neither a list nor a string, with exactly the text of seed 002."""
    found = type(content).__name__
    return UsageError(
        f"History content must be a list or string (actual type: {found})", turn=index
    )


def check_contents(turns: Iterable[Any]) -> None:
    """Raise seed 002's ``UsageError`` for a turn whose content is neither a string nor a list nor null."""
    for index, turn in enumerate(turns):
        content = (as_object(turn) or {}).get("content")
        if content is not None and not isinstance(content, (str, list, tuple)):
            raise wrong_content(content, index)


def read_part(value: object, index: int | None, position: int, *, strict: bool = False) -> Part:
    """Read one part."""
    part = as_object(value)
    if part is None:
        if isinstance(value, str):
            return Text(value)
        if isinstance(value, (Text, ToolCall, ToolResult, Thinking, Media, Native)):
            return value
        kind = type(value).__name__
    else:
        kind = part.get("type")
        if isinstance(kind, str) and kind in PART_READERS:
            return PART_READERS[kind](part)
        kind = f"type {kind!r}"
    if not strict:
        return unknown_part(value, as_text((part or {}).get("type")) or kind)
    raise UsageError(
        f"Part {position} is not a part (found: {kind}); "
        f"expected one of: {', '.join(sorted(PART_READERS))}",
        turn=index,
    )


def unknown_part(value: object, kind: str) -> Native:
    """A ``Native`` part for a value that is not a part of ours, with its JSON as text."""
    cleaned = clean_json(value)
    return Native(kind, compact_json(cleaned), NOWHERE, as_object(cleaned) or {"value": cleaned})


def read_extras(value: object) -> Extras | None:
    """Read the extras of a part; None if it has none."""
    extras = as_object(value)
    fields = as_object(extras.get("fields")) if extras else None
    return Extras(read_origin(extras.get("origin")), fields) if extras and fields else None


def _read_text(part: JsonObject) -> Text:
    content = part.get("content", part.get("text", ""))
    words = content if isinstance(content, str) else "" if content is None else str(content)
    return Text(words, read_extras(part["extras"]) if "extras" in part else None)


def _read_call(part: JsonObject) -> ToolCall:
    call = as_object(part.get("content")) or part
    arguments, raw, error = parse_arguments(call.get("arguments"))
    if call.get("error") is not None:
        # A call that was saved with an error: its arguments are still unusable.
        arguments, raw, error = {}, as_text(call.get("raw_arguments")), str(call["error"])
    elif isinstance(given := call.get("raw_arguments"), str):
        raw = given
    return ToolCall(
        _first_text(call, "name", "tool_name"),
        arguments,
        _first_text(call, "tool_call_id", "id"),
        raw,
        error,
        read_extras(call["extras"]) if "extras" in call else None,
    )


def _read_result(part: JsonObject) -> ToolResult:
    return ToolResult(
        _first_text(part, "name", "tool_name"),
        part["content"] if "content" in part else part.get("result"),
        _first_text(part, "tool_call_id", "id"),
        bool(part.get("is_error")),
        bool(part.get("synthetic")),
        read_extras(part["extras"]) if "extras" in part else None,
    )


def _read_thinking(part: JsonObject) -> Thinking:
    return Thinking(
        content=as_text(part.get("content", part.get("thinking"))),
        origin=read_origin(part.get("origin")),
        opaque=as_object(part.get("opaque")) or {},
    )


def _read_media(part: JsonObject) -> Media:
    return Media(
        mime=as_text(part.get("mime")) or "application/octet-stream",
        data=part["data"] if isinstance(part.get("data"), str) else None,
        url=part["url"] if isinstance(part.get("url"), str) else None,
        name=part["name"] if isinstance(part.get("name"), str) else None,
        file_id=part["file_id"] if isinstance(part.get("file_id"), str) else None,
        extras=read_extras(part.get("extras")),
    )


def _read_native(part: JsonObject) -> Native:
    return Native(
        kind=as_text(part.get("kind")) or "unknown",
        text=as_text(part.get("text")),
        origin=read_origin(part.get("origin")),
        raw=as_object(part.get("raw")) or {},
    )


def read_origin(value: object) -> Origin:
    """Read an origin stamp: a mapping, or just the provider's name."""
    if isinstance(value, Origin):
        return value
    if isinstance(value, str):
        return Origin(provider=value)
    stamp = as_object(value) or {}
    return Origin(
        provider=as_text(stamp.get("provider")),
        endpoint=as_text(stamp.get("endpoint")),
        model=as_text(stamp.get("model")),
    )


PART_READERS: dict[str, Callable[[JsonObject], Part]] = {
    "text": _read_text,
    "tool_call": _read_call,
    "tool_result": _read_result,
    "thinking": _read_thinking,
    "media": _read_media,
    "native": _read_native,
}


def read_function_call(value: object) -> ToolCall | None:
    """Read a call in OpenAI's form ``{"id", "function": {"name", "arguments"}}``, or a flat one."""
    call = as_object(value)
    if call is None:
        return None
    function = as_object(call.get("function")) or as_object(call.get("custom")) or call
    source = function.get("arguments", function.get("input"))
    arguments, raw, error = parse_arguments(source)
    return ToolCall(
        name=as_text(function.get("name")),
        arguments=arguments,
        tool_call_id=_first_text(call, "id", "tool_call_id"),
        raw_arguments=raw,
        error=error,
    )


def _first_text(source: JsonObject, key: str, other: str) -> str:
    value = source.get(key) or source.get(other)
    return value if isinstance(value, str) else ""


def _with_message_keys(
    parts: tuple[Part, ...], role: str, entry: JsonObject, index: int | None, strict: bool
) -> tuple[Part, ...]:
    """Add the parts that OpenAI-style keys next to the content express."""
    if role == "tool":
        # Text in a tool turn is a result; the message's other keys have its name and call id.
        return tuple(
            ToolResult(
                name=as_text(entry.get("name")),
                content=part.content,
                tool_call_id=as_text(entry.get("tool_call_id")),
            )
            if isinstance(part, Text)
            else part
            for part in parts
        )
    calls = as_list(entry.get("tool_calls") or [])
    if calls is None and not strict:
        return (*parts, unknown_part(entry["tool_calls"], "tool_calls"))
    if calls is None:
        raise UsageError(
            f"'tool_calls' must be a list (actual type: {type(entry['tool_calls']).__name__})",
            turn=index,
        )
    return parts + tuple(call for value in calls if (call := read_function_call(value)) is not None)


def _lack_ids(turns: Iterable[Turn]) -> bool:
    for turn in turns:
        for part in turn.parts:
            if type(part) is ToolCall and not part.tool_call_id:
                return True
    return False


def _with_call_ids(turns: Sequence[Turn]) -> Iterable[Turn]:
    taken: set[str] | None = None
    for index, turn in enumerate(turns):
        for part in turn.parts:
            if type(part) is ToolCall and not part.tool_call_id:
                break
        else:
            yield turn
            continue
        if taken is None:
            taken = {
                part.tool_call_id
                for other in turns
                for part in other.parts
                if isinstance(part, (ToolCall, ToolResult))
            }
        yield _with_ids(turn, index, taken)


def _with_ids(turn: Turn, index: int, taken: set[str]) -> Turn:
    parts: list[Part] = []
    for position, part in enumerate(turn.parts):
        if isinstance(part, ToolCall) and not part.tool_call_id:
            identifier = f"call_{index}_{position}"
            while identifier in taken:
                identifier += "_"
            taken.add(identifier)
            part = replace(part, tool_call_id=identifier)
        parts.append(part)
    return Turn(
        turn.role, tuple(parts), turn.id, turn.created_at, turn.model, turn.meta, turn.unreadable
    )


# The text and the media of a tool result.


def split_result(content: Any) -> tuple[str, tuple[Media, ...]]:
    """Return the result's text and its media."""
    if isinstance(content, str):
        return content, ()
    items = as_list(content)
    if not items or not all(_is_part(item) for item in items):
        return compact_json(content), ()
    parts = [read_part(item, 0, position) for position, item in enumerate(items)]
    texts = [part.content for part in parts if isinstance(part, Text)]
    media = tuple(part for part in parts if isinstance(part, Media))
    return "\n".join(texts), media


def _is_part(item: object) -> bool:
    part = as_object(item)
    if part is None:
        return False
    kind = part.get("type")
    if kind == "text":
        return isinstance(part.get("content", part.get("text")), str)
    return kind == "media" and (
        isinstance(part.get("data"), str) or isinstance(part.get("url"), str)
    )
