"""The content of a Chat message besides text and function calls: sound, steps of server tools, further choices, unknown fields."""

import base64
import binascii
from typing import Any, Final, cast

from msgspec.structs import fields

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.openai_chat.chunks import ChunkChoice, Delta


class OtherChoice:
    """A further choice (``n`` above 1), assembled from its pieces."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._words: list[str] = []
        self._calls: list[JsonObject] = []
        self._finish = ""

    def add(self, choice: ChunkChoice) -> None:
        """Add a piece of the choice."""
        delta = choice.delta or choice.message or Delta()
        if isinstance(delta.content, str):
            self._words.append(delta.content)
        elif delta.content:
            self._words.append(compact_json(delta.content))
        if delta.refusal:
            self._words.append(delta.refusal)
        for position, call in enumerate(delta.tool_calls or ()):
            place = position if call.index is None else call.index
            while len(self._calls) <= place:
                self._calls.append({"name": "", "arguments": ""})
            if call.function is not None:
                made = self._calls[place]
                made["name"] = call.function.name or made["name"]
                given = call.function.arguments
                made["arguments"] += given if isinstance(given, str) else compact_json(given or {})
        self._finish = choice.finish_reason or self._finish

    def text(self) -> str:
        """The text of the choice."""
        calls = [f"called {call['name']} {call['arguments']}" for call in self._calls]
        words = "".join(self._words)
        return "another answer: " + "; ".join([*([words] if words else []), *calls])

    def raw(self) -> JsonObject:
        """The choice in the form of a reply that is not streamed."""
        message: JsonObject = {"role": "assistant", "content": "".join(self._words)}
        if self._calls:
            message["tool_calls"] = [{"type": "function", "function": call} for call in self._calls]
        return {"index": self._index, "message": message, "finish_reason": self._finish}


def executed_text(steps: list[JsonObject]) -> str:
    """The steps of the server's own tools as text: arguments and output of each step."""
    lines: list[str] = []
    for step in steps:
        name = as_text(step.get("name")) or as_text(step.get("type")) or "a tool"
        lines.append(f"ran {name}: {as_text(step.get('arguments'))}".rstrip())
        output: Any = step.get("output") or step.get("code_results") or ""
        said = output if isinstance(output, str) else compact_json(output)
        lines += [said] if said else []
        lines += _results_text(step.get("search_results"), said)
    return "\n".join(lines)


def _results_text(results: object, said: str) -> list[str]:
    """Title and URL of each search result, and its text if the output does not contain it."""
    listed = as_list((as_object(results) or {}).get("results")) or as_list(results)
    if listed is None:
        return [compact_json(results)] if results else []
    lines: list[str] = []
    for each in listed:
        found = as_object(each) or {}
        title, url, content = (as_text(found.get(name)) for name in ("title", "url", "content"))
        lines.append(f"{title} ({url})" if title and url else title or url)
        lines += [content] if content.strip() and content not in said else []
    return [line for line in lines if line]


_KNOWN: Final = frozenset(field.encode_name for field in fields(Delta))


def unknown_fields(body: object) -> JsonObject:
    """The fields of the first choice's message that ``Delta`` does not have."""
    for value in as_list((as_object(body) or {}).get("choices")) or ():
        choice = as_object(value) or {}
        if not choice.get("index"):
            message = as_object(choice.get("delta")) or as_object(choice.get("message")) or {}
            return {name: each for name, each in message.items() if name not in _KNOWN and each}
    return {}


def joined_field(before: Any, value: Any) -> Any:
    """The value of a field after a further piece: lists are extended, text is appended unless it is repeated."""
    if isinstance(before, list) and isinstance(value, list):
        return [*cast("list[Any]", before), *cast("list[Any]", value)]
    if isinstance(before, str) and isinstance(value, str):
        return before if before == value else before + value
    return value


def join_base64(pieces: list[str]) -> str:
    """Join base64 pieces that were encoded separately."""
    if len(pieces) == 1:
        return pieces[0]
    content = b""
    try:
        content = b"".join(base64.b64decode(piece) for piece in pieces)
    except (binascii.Error, ValueError):
        return "".join(pieces)
    return base64.b64encode(content).decode()


def spoken(audio: object) -> JsonObject:
    """The id of a spoken answer, in the form in which it is sent back."""
    found = as_object(audio) or {}
    return {"id": found["id"]} if as_text(found.get("id")) else {}
