"""The sources that a text cites, whichever provider wrote them into its extras.

Rules:
1. A citation is an object in the extras with an address, or with a document's title or file name.
2. Each source counts once, in the order in which the text cites it. A bare URL counts only if no titled source has it.
3. Other providers, terminals and exports get the sources as text after the cited text: title and URL.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Text

#: The fields of text parts in which providers put citations: Perplexity; Anthropic; OpenAI, OpenRouter, Mistral; Gemini.
_FIELDS = ("search_results", "citations", "annotations", "references", "groundingChunks")

#: How deep citations are nested: OpenAI Chat has ``{"type": "url_citation", "url_citation": {…}}``.
_DEPTH = 3


class Citation(Struct, frozen=True):
    """One source: its title, its URL if it has one, and the cited passage if the provider gives it."""

    title: str
    url: str = ""
    passage: str = ""


def citations_of(part: Text) -> tuple[Citation, ...]:
    """The sources that the text cites."""
    if part.extras is None:
        return ()
    fields = part.extras.fields
    found = (each for name in _FIELDS for each in _read(fields.get(name), 0))
    distinct = {(each.title, each.url): each for each in found}
    titled = {each.url for each in distinct.values() if each.title != each.url}
    return tuple(
        each for each in distinct.values() if each.title != each.url or each.url not in titled
    )


def cited_text(part: Text) -> str:
    """The text, followed by the sources that it cites, except those whose URL it already contains."""
    sources = [
        f"{each.title} ({each.url})" if each.url and each.title != each.url else each.title
        for each in citations_of(part)
        if not each.url or each.url not in part.content
    ]
    return f"{part.content} [sources: {'; '.join(sources)}]" if sources else part.content


def _read(value: Any, depth: int) -> Iterator[Citation]:
    if depth > _DEPTH:
        return
    if isinstance(value, str) and value.startswith(("http://", "https://")) and depth == 1:
        yield Citation(value, value)
    for item in as_list(value) or []:
        yield from _read(item, depth + 1)
    entry = as_object(value)
    if entry is None:
        return
    citation = _citation(entry)
    if citation is not None:
        yield citation
        return
    for inner in entry.values():
        if isinstance(inner, (dict, list)):
            yield from _read(inner, depth + 1)


def _citation(entry: JsonObject) -> Citation | None:
    url = _first(entry, "url", "uri", "source")
    title = _first(entry, "title", "document_title", "filename", "file_name", "name")
    if not url.startswith(("http://", "https://")):
        url = ""
    if not url and not title:
        return None
    return Citation(title or url, url, _first(entry, "cited_text", "quote", "snippet"))


def _first(entry: JsonObject, *keys: str) -> str:
    return next((text for key in keys if (text := as_text(entry.get(key)))), "")
