"""Read the input (or output) items of OpenAI Responses as a history.

Rules:
1. The items of one answer (reasoning, texts, calls and native items) become one turn of the model.
2. An output belongs to a tool turn if the item of its call before it was read as a call, or if there is no such item; the
   output of a step that the server ran itself is native.
3. A native item at the beginning of a request, or of a kind that only clients write, belongs to a user turn; an item with
   its own role belongs to a turn of that role.
"""

from collections.abc import Iterable
from typing import Final

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.reader import ROLE_ALIASES, unknown_part
from multi_llm_chat.history.values import (
    NOWHERE,
    Extras,
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
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.protocol._message_reader import (
    MODEL,
    content_parts,
    media_from_url,
    read_messages_list,
)
from multi_llm_chat.protocol.openai_responses.client_calls import (
    OUTPUT_TYPES,
    read_call,
    read_output,
)
from multi_llm_chat.protocol.openai_responses.items import (
    content_fields,
    message_fields,
    native_item,
    reasoning_fields,
    reasoning_text,
)

_OUTPUTS: Final = frozenset(OUTPUT_TYPES.values())
_CONTENT_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "computer_call_output"}
)
#: The part that an empty string is.
_BLANK: Final[JsonObject] = {"type": "input_text", "text": ""}
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
#: Items that the client puts between the turns.
_CLIENT_ITEMS: Final = frozenset(
    {"item_reference", "compaction_trigger", "additional_tools", "configuration_update"}
)


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The items as turns; reasoning, native items and extras get this ``origin``."""
    if isinstance(messages, str):
        return [Turn("user", (Text(messages),))]
    reading = _Reading(origin)
    for index, item in enumerate(read_messages_list(messages)):
        reading.add(item, index)
    return reading.turns()


class _Reading:
    """The turns so far, and the turn to which further items may belong."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._turns: list[Turn] = []
        self._role = ""
        self._pending: list[Part] = []
        self._calls: set[str] = set()
        self._run_by_server: set[str] = set()
        self._reasoning_id = ""

    def turns(self) -> list[Turn]:
        self._close()
        return self._turns

    def add(self, item: JsonObject, index: int) -> None:
        kind = as_text(item.get("type")) or ("message" if "role" in item else "unknown")
        if kind == "message" and "role" in item:
            self._add_message(item, index)
        elif kind in _OUTPUTS and not self._is_server_output(kind, item):
            self._join("tool", [self._result(kind, item, index)])
        elif kind == "reasoning":
            self._reasoning_id = as_text(item.get("id"))
            fields = reasoning_fields(item)
            self._join(MODEL, [Thinking(reasoning_text(item), self._origin, fields)])
        elif kind == "unknown":
            self._close()
            self._turns.append(Turn("user", (unknown_part(item, "item without a type"),)))
        elif (call := read_call(item)) is not None:
            arguments, raw, error = parse_arguments(call.arguments)
            self._calls.add(call.identifier)
            extras = self._extras(self._bound(call.fields))
            made = ToolCall(call.name, arguments, call.identifier, raw, error, extras)
            self._join(MODEL, [made])
        else:
            self._add_native(kind, item)

    def _add_message(self, item: JsonObject, index: int) -> None:
        stated = as_text(item.get("role")) or "user"
        role = ROLE_ALIASES.get(stated, stated)
        fields = message_fields(item)
        if stated == "developer":
            fields["role"] = stated
        parts: list[Part] = []
        given = item.get("content")
        is_blank = given == "" and role != MODEL  # of the model, calls may follow it
        for content in [_BLANK] if is_blank else content_parts(given, index):
            head: JsonObject = {"joined": True} if parts else {"message": fields} if fields else {}
            parts.append(self._content(content, self._bound(head) if role == MODEL else head))
        if role == MODEL:
            self._join(MODEL, parts)
            return
        self._close()
        self._turns.append(Turn(role, tuple(parts)))

    def _add_native(self, kind: str, item: JsonObject) -> None:
        native, picture = native_item(item, self._origin)
        identifier = as_text(item.get("call_id"))
        if identifier:
            self._run_by_server.add(identifier)
        parts: list[Part] = [native] if picture is None else [native, picture]
        stated = as_text(item.get("role"))
        role = ROLE_ALIASES.get(stated, stated) or "user"
        if kind in _CLIENT_ITEMS or (kind == "compaction" and self._role != MODEL):
            self._close()
            self._turns.append(Turn(role, tuple(parts)))
        else:
            self._join(MODEL, parts)

    def _join(self, role: str, parts: list[Part]) -> None:
        if role != self._role:
            self._close()
            self._role = role
        self._pending.extend(parts)

    def _close(self) -> None:
        if self._pending:
            self._turns.append(Turn(self._role, tuple(self._pending)))
        self._pending, self._role, self._reasoning_id = [], "", ""

    def _is_server_output(self, kind: str, item: JsonObject) -> bool:
        if kind in _CONTENT_OUTPUTS:
            return False
        identifier = read_output(item)[0]
        if kind == "tool_search_output" and item.get("execution") != "client":
            return identifier not in self._calls
        return identifier in self._run_by_server and identifier not in self._calls

    def _bound(self, fields: JsonObject) -> JsonObject:
        bound = fields and self._reasoning_id and self._role == MODEL
        return fields | {"reasoning_id": self._reasoning_id} if bound else fields

    def _extras(self, fields: JsonObject) -> Extras | None:
        return Extras(self._origin, fields) if fields else None

    def _result(self, kind: str, item: JsonObject, index: int) -> ToolResult:
        if kind not in _CONTENT_OUTPUTS:
            identifier, words, fields = read_output(item)
            return ToolResult("", words, identifier, extras=self._extras(fields))
        output = item.get("output")
        known = (
            ("call_id", "output", "type")
            if kind == "function_call_output"
            else ("call_id", "output")
        )
        fields = {
            key: value for key, value in item.items() if key not in known and value is not None
        }
        if kind == "computer_call_output":
            output = [output]
        if not isinstance(output, str):
            output = _plain(self._content(part, {}) for part in content_parts(output, index))
        return ToolResult("", output, as_text(item.get("call_id")), extras=self._extras(fields))

    def _content(self, part: JsonObject, fields: JsonObject) -> Part:
        kind = as_text(part.get("type"))
        if kind in _TEXTS:
            return Text(as_text(part.get("text")), self._extras(fields | content_fields(part)))
        if kind == "refusal":
            return Text(as_text(part.get("refusal")), self._extras(fields | content_fields(part)))
        if kind in ("input_image", "computer_screenshot"):
            return self._media(part, fields, "image_url", "image/png", ("detail",))
        if kind == "input_file":
            key = "file_data" if isinstance(part.get("file_data"), str) else "file_url"
            return self._media(part, fields, key, "application/pdf", ("filename",))
        if kind == "input_audio":
            audio = as_object(part.get("input_audio")) or {}
            mime = f"audio/{as_text(audio.get('format')) or 'wav'}"
            return Media(mime, data=as_text(audio.get("data")), extras=self._extras(fields))
        return unknown_part(part, kind or "unknown")  # an unknown part of a message cannot be sent

    def _media(
        self, part: JsonObject, fields: JsonObject, key: str, mime: str, usual: tuple[str, ...]
    ) -> Media:
        address, file_id = as_text(part.get(key)), as_text(part.get("file_id")) or None
        name = as_text(part.get("filename")) or None
        skipped = {"type", key, "file_id", *usual}
        more = {
            name: value for name, value in part.items() if name not in skipped and value is not None
        }
        if part.get("detail") not in (None, "auto"):
            more["detail"] = part["detail"]
        if file_id is not None:
            more["type"] = part["type"]
        extras = self._extras(fields | more)
        if not address:
            return Media(mime, name=name, file_id=file_id, extras=extras)
        media = media_from_url(address, mime, name)
        return Media(media.mime, media.data, media.url, name, file_id, extras)


def _plain(parts: Iterable[Part]) -> str | list[JsonObject]:
    read = list(parts)
    if len(read) == 1 and isinstance(read[0], Text) and read[0].extras is None:
        return read[0].content
    return [write_part(part) for part in read]
