"""Write a request for OpenAI Responses.

Rules:
1. Nothing relies on what OpenAI stores: ``store`` is false, and reasoning travels encrypted.
2. A reasoning item is written directly before the item it led to, or left out.
3. The items of a turn have their ids only if all of its reasoning is sent and each reasoning item is directly before the
   item it led to; otherwise no item has one (RSP-03, RSP-04, RSP-06).
4. Each message of the model is an item of its own, with its phase (RSP-15): the order of texts and calls is kept.
   Messages always have their type, and the model's content is a list of parts (LCP-14).
5. Native items are written as received; calls that the client answers and their outputs in their own types
   (``client_calls``).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from multi_llm_chat.history.json_values import as_list, as_text, compact_json
from multi_llm_chat.history.reader import read_part, split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.attachments import PICTURES, media_label, settle_media
from multi_llm_chat.protocol.capabilities import openai_model
from multi_llm_chat.protocol.openai_responses.client_calls import (
    OUTPUT_TYPES,
    write_call,
    write_output,
)
from multi_llm_chat.protocol.openai_responses.items import IMAGE_CALL
from multi_llm_chat.protocol.request_draft import (
    Encoded,
    Loss,
    RequestDraft,
    arguments_text,
    choose_tool,
    cut_long_texts,
    effort_of,
    further_options,
    limit_tools,
    plain_text,
    temperature_of,
    written_as_text,
)
from multi_llm_chat.protocol.server_tools import write_responses
from multi_llm_chat.schema.dialect_rules import OPENAI, OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/responses"

_MOST_TOOLS = 128
_FEWEST_TOKENS = 16
#: Types of files that are sent unchanged (RSP-24).
_DOCUMENTS: Final = (
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.",
    "application/msword",
    "application/vnd.ms-",
    "application/rtf",
)


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    draft.turns = cut_long_texts(draft)
    writer = _ItemWriter(draft)
    body: JsonObject = {"model": draft.model, "input": writer.items(), "store": False}
    if draft.system_prompt:
        body["instructions"] = draft.system_prompt
    body |= _tools(draft) | _settings(draft)
    if draft.caching.key:
        body["prompt_cache_key"] = draft.caching.key
    if draft.stream:
        body["stream"] = True
    draft.note_losses(writer.loss)
    return Encoded(body | draft.options.extra, PATH, stable=writer.stable)


class _ItemWriter:
    """Writes the turns of one request as items."""

    def __init__(self, draft: RequestDraft) -> None:
        self._draft = draft
        #: How the calls of the last model turn were written, by id: the type of the item and its fields, or None for text.
        self._kinds: dict[str, tuple[str, JsonObject] | None] = {}
        self._following: Turn | None = None
        #: The number of items before the draft's tail.
        self.stable = 0

    def items(self) -> list[JsonObject]:
        tail = self._draft.tail
        before = self._written(0, tail)
        self.stable = len(before)
        return before + self._written(tail, len(self._draft.turns))

    def _written(self, start: int, end: int) -> list[JsonObject]:
        turns, texts = self._draft.turns, self._draft.texts
        if texts is not None:
            return [
                {"type": "message", "role": role, "content": text}
                if (role := turns[at].role) == "user" or role == "system"
                else _model_message([{"type": "output_text", "text": text}])
                for at, text in enumerate(texts[start:end], start)
            ]
        items: list[JsonObject] = []
        for at in range(start, end):
            turn = turns[at]
            role, parts = turn.role, turn.parts
            if role == "tool":
                items += [self._result(part) for part in parts]
            elif role == "user" or role == "system":
                first = parts[0]
                if len(parts) == 1 and type(first) is Text and first.extras is None:
                    items.append({"type": "message", "role": role, "content": first.content})
                else:
                    items += self._messages(turn)
            else:
                written = _plain_items(parts)
                if written is None:
                    items += self._model(at)
                else:
                    self._kinds.clear()
                    items += written
        return items

    def _messages(self, turn: Turn) -> Iterator[JsonObject]:
        """The messages of a turn: one for a user turn, one for each text of a system turn, with native items between them."""
        content: list[JsonObject] = []
        fields: JsonObject = {}
        for part in turn.parts:
            extra = (
                {}
                if isinstance(part, (Native, Thinking))
                else self._draft.extra_fields(part.extras)
            )
            is_new = turn.role == "system" and "joined" not in extra
            if content and (is_new or isinstance(part, Native)):
                yield _user_message(turn.role, content, fields)
                content, fields = [], {}
            if isinstance(part, Native):
                yield part.raw
                continue
            fields = fields or extra.get("message", {})
            content.append(
                self._text(part, extra)
                if isinstance(part, Text) or turn.role == "system"
                else self._input_part(part)
            )
        if content:
            yield _user_message(turn.role, content, fields)

    def _text(self, part: Part, extra: JsonObject) -> JsonObject:
        assert isinstance(part, (Text, Media))
        return {"type": "input_text", "text": plain_text(part)} | _own(extra)

    def _model(self, at: int) -> Iterator[JsonObject]:
        turns = self._draft.turns
        parts = turns[at].parts
        self._kinds = {}
        self._following = turns[at + 1] if at + 1 < len(turns) else None
        bound = self._is_bound(parts) and not any(map(self._is_unanswered, parts))
        message: JsonObject | None = None
        for place, part in enumerate(parts):
            before = parts[place - 1] if place else None
            if isinstance(part, (Text, Media)):
                extra = self._draft.extra_fields(part.extras)
                if isinstance(before, Native) and extra.get("type") == IMAGE_CALL:
                    continue  # already written with its native item
                if message is not None and extra.get("joined"):
                    message["content"].append(_output_part(part, extra))
                    continue
            if message is not None:
                yield message
                message = None
            if isinstance(part, (Text, Media)):
                message = self._said(part, bound)
            else:
                yield from self._item(part, parts[place + 1 :], bound)
        if message is not None:
            yield message

    def _said(self, part: Text | Media, bound: bool) -> JsonObject:
        extra = self._draft.extra_fields(part.extras)
        fields = _without_id(extra.get("message", {}), bound)
        return _model_message([_output_part(part, extra)]) | fields

    def _item(self, part: Part, behind: Sequence[Part], bound: bool) -> Iterator[JsonObject]:
        if isinstance(part, Thinking):
            if self._replays(part, behind):
                yield _reasoning(part, bound)
        elif isinstance(part, ToolCall):
            yield self._call(part, bound)
        elif isinstance(part, Native):
            yield self._native(part, behind[0] if behind else None, bound)

    def _is_bound(self, parts: Sequence[Part]) -> bool:
        """Whether the ids of the turn's items can be sent: all its reasoning is sent, each item directly before what it led to."""
        sent: set[Any] = set()
        has_marks = False
        for at, part in enumerate(parts):
            if isinstance(part, Thinking):
                behind = [other for other in parts[at + 1 :] if not isinstance(other, Thinking)]
                if not behind or not self._is_sendable(part):
                    return False
                if "id" in part.opaque and not self._has_id(behind[0]):
                    return False
                sent.add(part.opaque.get("id"))
            elif not isinstance(part, Native) and part.extras is not None:
                has_marks = has_marks or not isinstance(part, Media)
                needed = self._draft.extra_fields(part.extras).get("reasoning_id")
                if needed is not None and needed not in sent:
                    return False
        # Native items do not record the reasoning that led to them; that of another model was left out.
        models = {part.origin.model for part in parts if isinstance(part, Native)}
        return bool(sent) or has_marks or models <= {self._draft.model}

    def _has_id(self, part: Part) -> bool:
        if isinstance(part, Native):
            return "id" in part.raw
        if isinstance(part, Text):
            return "id" in self._draft.extra_fields(part.extras).get("message", {})
        return isinstance(part, ToolCall)

    def _is_sendable(self, part: Thinking) -> bool:
        """Whether the server can read the reasoning: it is encrypted, or the server is not OpenAI's own and accepts plain text."""
        encrypted, content = part.opaque.get("encrypted_content"), part.opaque.get("content")
        if isinstance(encrypted, str) and encrypted:
            return True
        target = self._draft.target
        is_openai = target is None or target.origin.endpoint == target.default_endpoint
        return isinstance(content, list) and bool(cast("list[Any]", content)) and not is_openai

    def _replays(self, part: Thinking, behind: Sequence[Part]) -> bool:
        """Whether the reasoning is sent: it can be verified, and the item that it led to follows."""
        return self._is_sendable(part) and any(not isinstance(other, Thinking) for other in behind)

    def _call(self, call: ToolCall, bound: bool) -> JsonObject:
        fields = {
            key: value
            for key, value in self._draft.extra_fields(call.extras).items()
            if key != "reasoning_id" and (bound or key != "id" or _keeps_id(call))
        }
        kind = as_text(fields.get("type")) or "function_call"
        if kind not in OUTPUT_TYPES:
            fields, kind = {}, "function_call"
        if self._is_unanswered(call):
            self._kinds[call.tool_call_id] = None
            self._draft.note("RSP-22", "wrote a computer call that no screenshot answers as text")
            text = f"[used {call.name} {compact_json(call.arguments)}]"
            return _model_message([{"type": "output_text", "text": text}])
        self._kinds[call.tool_call_id] = kind, fields
        return write_call(call, arguments_text(call), fields)

    def _is_unanswered(self, part: Part) -> bool:
        """Whether it is a computer call without a screenshot as its result, which cannot be written as an item."""
        if not isinstance(part, ToolCall):
            return False
        fields = self._draft.extra_fields(part.extras)
        if fields.get("type") != "computer_call":
            return False
        for answer in self._following.parts if self._following else ():
            if isinstance(answer, ToolResult) and answer.tool_call_id == part.tool_call_id:
                sent = self._draft.extra_fields(answer.extras)
                return write_output("computer_call", answer, sent, fields) is None
        return True

    def _result(self, part: Part) -> JsonObject:
        assert isinstance(part, ToolResult)
        kind = self._kinds.get(part.tool_call_id, _FUNCTION) if self._kinds else _FUNCTION
        if kind is _FUNCTION and part.extras is None and type(part.content) is str:
            return {
                "type": "function_call_output",
                "call_id": part.tool_call_id,
                "output": part.content,
            }
        fields = self._draft.extra_fields(part.extras)
        if kind is None:
            text = f"[result: {split_result(part.content)[0]}]"
            return _user_message("user", [{"type": "input_text", "text": text}], {})
        if kind[0] not in _CONTENT_CALLS:
            written = write_output(kind[0], part, fields, kind[1])
            if written is not None:
                return written
        output = OUTPUT_TYPES[kind[0]]
        if fields and as_text(fields.get("type") or "function_call_output") != output:
            fields = {}
        return {
            "type": output,
            "call_id": part.tool_call_id,
            "output": self._output(part.content),
        } | fields

    def _output(self, content: Any) -> str | list[JsonObject]:
        """The content of a result: a string if it is one text, else its parts in their order."""
        if isinstance(content, str):
            return content
        items = as_list(content) or []
        parts = [read_part(item, None, 0) for item in items]
        if len(parts) < 2 and not any(isinstance(part, Media) for part in parts):
            return split_result(content)[0]
        if not all(isinstance(part, (Text, Media)) for part in parts):
            return split_result(content)[0]
        written = [one for part in parts if (one := self._input_part(part)).get("text") != ""]
        has_words_only = all(one["type"] == "input_text" for one in written)
        if has_words_only and any(isinstance(part, Media) for part in parts):
            return "\n".join(one["text"] for one in written)
        return written

    def _native(self, part: Native, following: Part | None, bound: bool) -> JsonObject:
        raw = part.raw
        if part.kind == IMAGE_CALL and "result" not in raw:
            fields = (
                self._draft.extra_fields(following.extras) if isinstance(following, Media) else {}
            )
            if isinstance(following, Media) and fields.get("type") == IMAGE_CALL:
                raw = raw | {"result": following.data}
        if bound or "id" not in raw:
            return raw
        if part.kind in _WITHOUT_IDS:
            return {key: value for key, value in raw.items() if key != "id"}
        self._draft.note(
            "RSP-04", f"wrote an item whose reasoning is not sent as text: {part.kind}"
        )
        return _model_message([{"type": "output_text", "text": f"[{part.text or part.kind}]"}])

    def _input_part(self, part: Part) -> JsonObject:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.content} | _own(
                self._draft.extra_fields(part.extras)
            )
        assert isinstance(part, Media)
        fields = self._draft.extra_fields(part.extras)
        return _write_media(part, fields) | _own(fields)

    def loss(self, part: Media | Thinking, turn: Turn) -> Loss | None:
        """Why media or thinking cannot be sent as it is; None if it can."""
        if isinstance(part, Media):
            if turn.role not in ("user", "tool"):
                made = self._draft.extra_fields(part.extras).get("type") == IMAGE_CALL
                return None if made else ("RSP-09", written_as_text(part))
            is_sent = self._input_part(part)["type"] != "input_text"
            return None if is_sent else ("RSP-09", written_as_text(part))
        behind = turn.parts[turn.parts.index(part) + 1 :]
        if self._replays(part, behind):
            return None
        return "RSP-03", "left out reasoning that nothing follows or vouches for"


#: A call of a function without fields of its own.
_FUNCTION: tuple[str, JsonObject] = ("function_call", {})

#: Calls whose outputs may contain text and media.
_CONTENT_CALLS = frozenset({"function_call", "custom_tool_call"})

#: Native items that OpenAI accepts without their ids; Codex sends them this way (RULES, section 11).
_WITHOUT_IDS = frozenset(
    {"web_search_call", "tool_search_call", "tool_search_output", "additional_tools", "compaction"}
)

#: Extras of the message that contains a content part.
_MARKS = frozenset({"message", "joined", "reasoning_id"})


def _plain_items(parts: Sequence[Part]) -> list[JsonObject] | None:
    """The fast path for most turns: texts and calls without additional fields; None if the turn has any other part."""
    items: list[JsonObject] = []
    for part in parts:
        if type(part) is Text and part.extras is None:
            said = {"type": "output_text", "text": part.content}
            items.append({"type": "message", "role": "assistant", "content": [said]})
        elif type(part) is ToolCall and part.extras is None:
            items.append(
                {
                    "type": "function_call",
                    "call_id": part.tool_call_id,
                    "name": part.name,
                    "arguments": part.raw_arguments or compact_json(part.arguments),
                }
            )
        else:
            return None
    return items


def _keeps_id(call: ToolCall) -> bool:
    """Whether the item must keep its id, because another item refers to it: a request for approval is answered by its id."""
    fields = call.extras.fields if call.extras else {}
    return fields.get("type") == "mcp_approval_request"


def _reasoning(part: Thinking, bound: bool) -> JsonObject:
    summary = part.opaque.get("summary")
    fields = {key: value for key, value in part.opaque.items() if bound or key != "id"}
    fields["summary"] = summary if isinstance(summary, list) else []
    return {"type": "reasoning"} | fields


def _own(fields: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in _MARKS} if fields else {}


def _output_part(part: Text | Media, extra: JsonObject) -> JsonObject:
    own = _own(extra) if isinstance(part, Text) else {}
    if own.get("type") == "refusal":
        return own | {"refusal": plain_text(part)}
    return {"type": "output_text", "text": plain_text(part)} | own


def _tools(draft: RequestDraft) -> JsonObject:
    written: list[JsonObject] = []
    for tool in limit_tools(draft, _MOST_TOOLS, "OAI-13"):
        projected = recall_projection(tool.schema, OPENAI)
        for dropped in projected.dropped:
            draft.note("OAI-14", f"{tool.name}: {dropped}")
        function: JsonObject = {"type": "function", "name": tool.name}
        if tool.description:
            function["description"] = tool.description
        # Responses treats schemas as strict by default; ours are not rewritten for that.
        written.append(function | {"parameters": projected.schema, "strict": False})
    written += write_responses(draft)
    if not written:
        return {}
    choice = choose_tool(draft, "OAI-15")
    if choice is None:
        return {"tools": written}
    named = choice not in ("auto", "none", "required")
    return {
        "tools": written,
        "tool_choice": {"type": "function", "name": choice} if named else choice,
    }


_FURTHER: Final = {
    name: name for name in ("top_p", "parallel_tool_calls", "service_tier", "metadata")
}


def _settings(draft: RequestDraft) -> JsonObject:
    options = draft.options
    model = openai_model(draft.model)
    effort = model.effort(options.thinking, effort_of(options.thinking))
    settings: JsonObject = {}
    if options.max_tokens is not None:
        settings["max_output_tokens"] = max(options.max_tokens, _FEWEST_TOKENS)
        if options.max_tokens < _FEWEST_TOKENS:
            draft.note("RSP-DOC", f"max_tokens is {_FEWEST_TOKENS} at least here: raised it")
    if model.thinks_at_all:
        # Other models answer 400 if the request only contains this setting.
        settings["include"] = ["reasoning.encrypted_content"]
    if options.temperature is not None:
        if model.is_reasoning(effort):
            draft.note("OAI-19", f"{draft.model} takes no temperature: left it out")
        else:
            settings["temperature"] = temperature_of(draft)
    settings |= further_options(draft, _FURTHER, "RSP-DOC")
    if "top_p" in settings and model.is_reasoning(effort):
        draft.note("OAI-19", f"{draft.model} takes no top_p: left it out")
        del settings["top_p"]
    if options.stop:
        draft.note("RSP-12", "stop sequences do not exist here: left them out")
    if options.thinking is not None:
        settings |= _reasoning_setting(draft, effort)
    if options.schema is not None:
        schema = recall_projection(options.schema, OPENAI_STRICT).schema
        output = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
        settings["text"] = {"format": output}
    return settings


def _reasoning_setting(draft: RequestDraft, effort: str | None) -> JsonObject:
    wanted = draft.options.thinking
    if openai_model(draft.model).reasons == "never":
        if wanted:
            draft.note("OAI-19", f"{draft.model} does not reason: left the wish out")
        return {}
    if isinstance(wanted, str) and effort != wanted:
        draft.note("OAI-30", f"{draft.model} does not know the effort {wanted!r}: sent {effort!r}")
    asked = {"summary": "auto"} if wanted else {}
    return {"reasoning": asked | ({"effort": effort} if effort else {})}


# Messages, and media as parts of their content.


def _write_media(part: Media, fields: JsonObject) -> JsonObject:
    """The media as input, or the text that replaces it."""
    if part.file_id is not None and fields:
        return {"type": "input_file", "file_id": part.file_id}
    media = settle_media(part)
    if media is not None and media.mime in PICTURES:
        url = media.url or f"data:{media.mime};base64,{media.data}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if media is not None and media.mime.startswith(_DOCUMENTS):
        if media.url:
            return {"type": "input_file", "file_url": media.url}
        data = f"data:{media.mime};base64,{media.data}"
        return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": data}
    return {"type": "input_text", "text": media_label(part)}


def _user_message(role: str, content: list[JsonObject], fields: JsonObject) -> JsonObject:
    """A user or system message; a single text is a string."""
    alone = len(content) == 1 and content[0].keys() == {"type", "text"}
    return {
        "type": "message",
        "role": role,
        "content": content[0]["text"] if alone else content,
    } | fields


def _model_message(content: list[JsonObject]) -> JsonObject:
    """A message of the model (LCP-14)."""
    return {"type": "message", "role": "assistant", "content": content}


def _without_id(fields: JsonObject, bound: bool) -> JsonObject:
    """The fields of a message, without its id unless the ids of the turn's items are sent."""
    if bound or "id" not in fields:
        return fields
    return {key: value for key, value in fields.items() if key not in ("id", "status")}
