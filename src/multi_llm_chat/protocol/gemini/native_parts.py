"""Gemini-specific parts, which the history has as ``Native`` parts and extras.

Rules:
1. Names may be in camelCase or snake_case, and null means absent (GEM-33). Parts are kept in camelCase.
2. A part that our parts do not express (executable code, a server-side tool's call) is a ``Native`` part with its content
   as readable text. It is sent back unchanged (GEM-30); its signature only to the model that made it (GEM-34).
3. Additional fields of a text, a call or media (``videoMetadata``, ``mediaResolution``, a display name) are their
   extras: the keys of the part, and under ``functionCall``, ``inlineData`` and ``fileData`` the keys of those objects.
4. Data next to the content (grounding, citations, further candidates) is a ``Native`` part that is never sent,
   because requests have no place for it.
"""

import re
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.native_text import plain_words, remaining_fields
from multi_llm_chat.history.values import Extras, JsonObject, Native, Origin

#: Native parts of a reply that no request may contain.
REPLY_ONLY = frozenset({"groundingMetadata", "urlContextMetadata", "citationMetadata", "candidate"})
#: Extras of a reply's text that no request may contain.
REPLY_FIELDS = frozenset({"logprobsResult", "avgLogprobs"})
#: Calls of tools that Google runs, and their responses.
SERVER_PARTS = frozenset({"toolCall", "toolResponse"})

_SIGNATURE = "thoughtSignature"
_PLAIN = frozenset({"text", "thought", _SIGNATURE})
#: The Gemini parts that our parts express, and their keys.
_INNER = {
    "functionCall": frozenset({"id", "name", "args"}),
    "inlineData": frozenset({"mimeType", "data"}),
    "fileData": frozenset({"mimeType", "fileUri"}),
}
_OWN = ("executableCode", "codeExecutionResult", "functionResponse", *sorted(SERVER_PARTS))

_SNAKE = re.compile(r"_([a-z])")


def in_camel_case(part: JsonObject) -> JsonObject:
    """The part in camelCase and without nulls: its own keys, and those of the object in it."""
    renamed = _renamed(part)
    for key in (*_INNER, *_OWN):
        inner = as_object(renamed.get(key))
        if inner is not None:
            renamed[key] = _renamed(inner)
    return renamed


def _renamed(entry: JsonObject) -> JsonObject:
    return {
        _SNAKE.sub(lambda found: found[1].upper(), key) if "_" in key else key: value
        for key, value in entry.items()
        if value is not None
    }


def kind_of(part: JsonObject) -> str:
    """The key that names the kind of the part; empty if the part has no known key."""
    if any(key in part for key in _OWN):
        return next(key for key in _OWN if key in part)
    if isinstance(part.get("text"), str) or part.keys() <= _PLAIN:
        return "text"
    return next((key for key in _INNER if as_object(part.get(key)) is not None), "")


def is_native(part: JsonObject) -> bool:
    """Whether our parts do not express this part."""
    return kind_of(part) not in ("text", *_INNER)


def extra_fields_of(part: JsonObject) -> JsonObject:
    """The fields of the part that our part does not express."""
    fields = remaining_fields(part, _PLAIN | _INNER.keys())
    for key, known in _INNER.items():
        inner = as_object(part.get(key))
        if inner is not None and (more := remaining_fields(inner, known)):
            fields[key] = more
    return fields


def read_extras(part: JsonObject, origin: Origin) -> Extras | None:
    """The part's extras; None if our part expresses it completely."""
    fields = extra_fields_of(part)
    return Extras(origin, fields) if fields else None


def with_extras(part: JsonObject, fields: JsonObject) -> JsonObject:
    """The part with its extras; extras of the object in it are merged into that object."""
    written = dict(part)
    for key, value in fields.items():
        if key in REPLY_FIELDS:
            continue
        inner, more = as_object(written.get(key)), as_object(value)
        written[key] = inner | more if inner is not None and more is not None else value
    return written


def read_native(part: JsonObject, origin: Origin) -> Native:
    """A ``Native`` part for a part that our parts do not express."""
    kind = native_kind(part)
    return Native(kind, describe(kind, part), origin, part)


def native_kind(part: JsonObject) -> str:
    """The ``kind`` of a Gemini-specific part."""
    return kind_of(part) or next((key for key in part if key not in _PLAIN), "part")


def unsigned(part: JsonObject) -> JsonObject:
    """The part without its signature."""
    return {key: value for key, value in part.items() if key != _SIGNATURE}


def describe(kind: str, part: JsonObject) -> str:
    """The readable text of a Gemini-specific part."""
    inner = as_object(part.get(kind)) or {}
    match kind:
        case "executableCode":
            return f"ran code:\n{as_text(inner.get('code'))}"
        case "codeExecutionResult":
            outcome = as_text(inner.get("outcome")).removeprefix("OUTCOME_").lower()
            failed = f" ({outcome.replace('_', ' ')})" if outcome not in ("", "ok") else ""
            return f"output of the code{failed}: {as_text(inner.get('output'))}"
        case "toolCall":
            return f"used {_tool(inner)} {compact_json(inner.get('args') or {})}"
        case "toolResponse":
            return f"result of {_tool(inner)}: {plain_words(inner.get('response')) or 'nothing'}"
        case _:
            return f"{kind}: {plain_words(part)}"


def _tool(inner: JsonObject) -> str:
    return as_text(inner.get("toolType")).lower().replace("_", " ") or "a tool"


def describe_metadata(kind: str, value: JsonObject) -> str:
    """The readable text of the data next to the content: queries, and sources with their URLs."""
    if kind == "urlContextMetadata":
        pages = (as_object(each) or {} for each in as_list(value.get("urlMetadata")) or ())
        return "read: " + "; ".join(as_text(page.get("retrievedUrl")) for page in pages)
    queries = [
        each for each in as_list(value.get("webSearchQueries")) or () if isinstance(each, str)
    ]
    lists = (value.get(key) for key in ("groundingChunks", "citationSources", "citations"))
    named = [_source(chunk) for chunks in lists for chunk in as_list(chunks) or ()]
    sources = [source for source in dict.fromkeys(named) if source]
    said = [f"searched for: {'; '.join(queries)}"] if queries else []
    said += [f"sources: {'; '.join(sources)}"] if sources else []
    return "\n".join(said) or plain_words(value) or kind


def _source(chunk: Any) -> str:
    entry = as_object(chunk) or {}
    inner = next((found for value in entry.values() if (found := as_object(value))), entry)
    title, address = as_text(inner.get("title")), as_text(inner.get("uri"))
    return f"{title} ({address})" if title and address else title or address
