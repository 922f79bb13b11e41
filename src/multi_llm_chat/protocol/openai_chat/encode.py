"""Write a request for Chat Completions.

Rules:
1. Only keys of the published format are written; no value is null, no list is empty.
2. Results follow their call's message one by one; media, which a result cannot contain, follow
   the whole group as a user message.
3. ``ChatQuirks`` has all differences between servers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, cast

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
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
from multi_llm_chat.protocol.capabilities import openai_model
from multi_llm_chat.protocol.openai_chat.content import (
    as_parts,
    mark_part,
    marked_text,
    merge_messages,
    write_media,
)
from multi_llm_chat.protocol.openai_chat.depth import (
    most_tokens,
    settle_forced_choice,
    write_depth,
)
from multi_llm_chat.protocol.openai_chat.extra_content import spoken
from multi_llm_chat.protocol.providers import ChatQuirks
from multi_llm_chat.protocol.request_draft import (
    CutError,
    Encoded,
    Loss,
    RequestDraft,
    arguments_text,
    choose_tool,
    cut_long_texts,
    further_options,
    limit_tools,
    media_label,
    plain_text,
    temperature_of,
    without_nothing,
    written_as_text,
)
from multi_llm_chat.protocol.server_tools import write_chat
from multi_llm_chat.repair.policy import ACKNOWLEDGED
from multi_llm_chat.schema.dialect_rules import OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/chat/completions"

_MOST_STOPS = 4


def encode(draft: RequestDraft, quirks: ChatQuirks) -> Encoded:
    """The request's body and path."""
    draft.turns = cut_long_texts(draft)
    always_thinks = quirks.thinking_always
    quirks = settle_forced_choice(draft, quirks)
    if draft.continues and quirks.thinking_always and draft.state.get("without_thinking"):
        raise CutError("DSK-01", "thinking was turned on or off")
    writer = _MessageWriter(draft, quirks)
    messages = writer.messages()
    body: JsonObject = {"model": draft.model, "messages": messages}
    body |= _tools(draft, quirks) | _settings(draft, quirks) | _output(draft, quirks)
    if draft.caching.key and quirks.cache_key:
        body["prompt_cache_key"] = draft.caching.key
    if draft.stream:
        body["stream"] = True
        if quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
    if quirks.thinking_field == "tags" and any(map(_has_thoughts, draft.turns)):
        body["clear_thinking"] = False  # ZAI-04: Cerebras removes them otherwise
    draft.note_losses(writer.loss)
    if writer.left_out:
        names = ", ".join(sorted(writer.left_out))
        draft.note("OAI-12", f"left out fields of messages that this server does not take: {names}")
    if writer.takes_no_system and (draft.system_prompt or any(map(_is_system, draft.turns))):
        draft.note("OAI-28", f"{draft.model} takes no system messages: sent them as the user's")
    if not quirks.words_beside_calls and any(map(_speaks_and_calls, draft.turns)):
        draft.note("MIS-08", "sent text and calls in separate messages")
    return Encoded(
        body | draft.options.extra,
        PATH,
        stable=writer.stable,
        state={"without_thinking": True} if always_thinks and not quirks.thinking_always else {},
    )


def _has_thoughts(turn: Turn) -> bool:
    return any(type(part) is Thinking and part.content for part in turn.parts)


def _is_system(turn: Turn) -> bool:
    return turn.role == "system"


def _speaks_and_calls(turn: Turn) -> bool:
    kinds = {type(part) for part in turn.parts}
    return ToolCall in kinds and not kinds.isdisjoint((Text, Media))


class _MessageWriter:
    """Writes the turns of one request as messages."""

    def __init__(self, draft: RequestDraft, quirks: ChatQuirks) -> None:
        self._draft = draft
        self._quirks = quirks
        is_taken = not quirks.reasoning_models or openai_model(draft.model).system
        self._system_role = "system" if is_taken else "user"  # OAI-28
        #: The number of messages before the draft's tail.
        self.stable = 0
        #: What messages said about themselves and the server does not take.
        self.left_out: set[str] = set()

    @property
    def takes_no_system(self) -> bool:
        """Whether system text is sent as user text."""
        return self._system_role == "user"

    def messages(self) -> list[JsonObject]:
        draft = self._draft
        opening: list[JsonObject] = []
        if draft.system_prompt and not draft.continues:
            opening = [{"role": self._system_role, "content": draft.system_prompt}]
        before, behind = self._halves()
        if not draft.tail:
            return self._merged(opening + behind)
        # A message of the model is never merged into one before it, so the two parts can be merged separately.
        before = self._merged(opening + before)
        self.stable = len(before)
        return before + self._merged(behind)

    def _halves(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """The messages before the draft's tail, and those from there on."""
        turns, tail, texts = self._draft.turns, self._draft.tail, self._draft.texts
        if texts is None or self._quirks.thinking_always:
            return self._written(turns[:tail]), self._written(turns[tail:])
        names = {"user": "user", "system": self._system_role}
        written: list[JsonObject] = [
            {"role": names.get(turn.role, "assistant"), "content": text}
            for turn, text in zip(turns, texts, strict=True)
        ]
        return written[:tail], written[tail:]

    def _merged(self, messages: list[JsonObject]) -> list[JsonObject]:
        quirks = self._quirks
        return merge_messages(messages, quirks) if quirks.alternates else messages

    def _written(self, turns: Sequence[Turn]) -> list[JsonObject]:
        quirks = self._quirks
        model = "" if quirks.thinking_always else "assistant"
        speakers = {"user": "user", "system": self._system_role, "tool": ""}
        messages: list[JsonObject] = []
        shown: list[Media] = []
        for turn in turns:
            role, parts = turn.role, turn.parts
            if shown and role != "tool":
                messages += _attachments(shown, quirks)
                shown = []
            only = parts[0] if len(parts) == 1 else None
            if type(only) is Text and only.extras is None and (name := speakers.get(role, model)):
                messages.append({"role": name, "content": only.content})  # the form of most turns
            elif role == "tool":
                messages += self._results(turn, shown)
            elif role == "user":
                messages.append(self._user(parts))
            elif role == "system":
                messages.append(self._system(parts))
            else:
                messages += self._assistant(turn)
        if shown:
            messages += _attachments(shown, quirks)
        return messages

    def _extra(self, part: Part) -> JsonObject:
        if isinstance(part, (Native, Thinking)) or part.extras is None:
            return {}
        return self._draft.extra_fields(part.extras)

    def _fields(self, parts: Iterable[Part]) -> JsonObject:
        """The additional fields of the message that the server accepts."""
        keys = self._quirks.message_keys
        for part in parts:
            extra = self._extra(part)
            stated = extra.get("message")
            if stated:
                self.left_out.update(key for key in stated if key not in ("extra_content", *keys))
                return {key: stated[key] for key in ("extra_content", *keys) if key in stated}
            if "annotations" in keys and "annotations" in extra:  # of an answer (ORT-05)
                return {"annotations": extra["annotations"]}
        return {}

    def _user(self, parts: Sequence[Part]) -> JsonObject:
        marks = [self._mark(part) for part in parts]
        for part in parts:
            if isinstance(part, Native):
                self._draft.note("OAI-11", f"wrote a part of an unknown type as text: {part.kind}")
        content = _user_content(parts, self._quirks, marks)
        return {"role": "user", "content": content} | self._fields(parts)

    def _system(self, parts: Sequence[Part]) -> JsonObject:
        fields = self._fields(parts) if self._system_role == "system" else {}
        message = {"role": self._system_role, "content": _joined(parts)} | fields
        marks = [self._mark(part) for part in parts]
        if any(marks):
            message["content"] = _user_content(parts, self._quirks, marks)
        return message

    def _mark(self, part: Part) -> JsonObject:
        """The additional fields of a content part; cache marks only if the server accepts them."""
        extra = self._extra(part)
        if not extra:
            return {}
        keys = ("detail", self._quirks.cache_mark)
        return {key: extra[key] for key in keys if key in extra}

    def _assistant(self, turn: Turn) -> Sequence[JsonObject]:
        quirks = self._quirks
        message: JsonObject = {"role": "assistant"}
        texts: list[str] = []
        calls: list[JsonObject] = []
        is_plain = True
        for part in turn.parts:
            if type(part) is ToolCall:
                if part.extras is None:
                    text = part.raw_arguments or compact_json(part.arguments)
                    function = {"name": part.name, "arguments": text}
                    calls.append(
                        {"id": part.tool_call_id, "type": "function", "function": function}
                    )
                    continue
                calls.append(self._call(part))
            elif type(part) is Text and part.extras is None:
                texts.append(part.content)
                continue
            is_plain = False
        words = "\n\n".join(texts) if is_plain else self._content(turn.parts, message)
        apart = words and calls and not quirks.words_beside_calls
        if words and not apart:
            message["content"] = words
        elif not words and "audio" not in message and quirks.bare_calls == "empty":
            message["content"] = ""
        if calls:
            message["tool_calls"] = calls
        if not is_plain:
            message |= self._fields(turn.parts)
        if not is_plain or quirks.thinking_always:
            _think(message, turn.parts, quirks)
        return ({"role": "assistant", "content": words}, message) if apart else (message,)

    def _content(self, parts: Sequence[Part], message: JsonObject) -> str | list[JsonObject]:
        """The content of a model's message; a list if one of its parts is more than text."""
        written: list[JsonObject] = []
        for part in parts:
            extra = self._extra(part)
            if "audio" in extra and (sound := spoken(extra["audio"])):
                message["audio"] = sound
            elif isinstance(part, Native):
                written += self._native(part, is_alone=all(map(_is_aside, parts)))
            elif extra.get("type") == "refusal" and self._quirks.refusals:
                refusal = plain_text(cast("Text", part))
                if extra.get("place") == "message":  # both forms are published
                    message["refusal"] = refusal
                else:
                    written.append({"type": "refusal", "refusal": refusal})
            elif isinstance(part, (Text, Media)):
                text: JsonObject = {"type": "text", "text": plain_text(part)}
                written.append(mark_part(text, self._mark(part)) if extra else text)
                if self._quirks.chunks:
                    written += extra.get("references", [])
        if all(part.keys() == {"type", "text"} for part in written):
            return "\n\n".join(part["text"] for part in written)
        return written

    def _native(self, part: Native, *, is_alone: bool) -> list[JsonObject]:
        """A server-specific part in its place; as text if messages have no place for it, or if the turn has no other content."""
        if part.kind == "choice" and not is_alone:
            self._draft.note("OAI-11", "left out a further choice of an answer: one was taken")
            return []
        if self._quirks.chunks and part.kind == "reference":
            return [part.raw]
        self._draft.note(
            "OAI-11", f"wrote an item that messages have no place for as text: {part.kind}"
        )
        return [{"type": "text", "text": f"[{part.text or part.kind}]"}]

    def _call(self, call: ToolCall) -> JsonObject:
        """A call with fields of its own."""
        extra = self._extra(call)
        if extra.get("form") == "function_call":
            self._draft.note("OAI-DOC", f"wrote a function_call of {call.name} as a tool call")
        written: JsonObject = {"id": call.tool_call_id, "type": "function"}
        text = call.arguments.get("input")
        is_custom = extra.get("type") == "custom" and self._quirks.custom_tools
        if is_custom and isinstance(text, str):
            written |= {"type": "custom", "custom": {"name": call.name, "input": text}}
        else:
            written["function"] = {"name": call.name, "arguments": arguments_text(call)}
        for key in ("extra_content", self._quirks.cache_mark):
            if key in extra:
                written[key] = extra[key]
        return written

    def _results(self, turn: Turn, shown: list[Media]) -> list[JsonObject]:
        names = self._quirks.result_names
        is_named = names == "always"
        messages: list[JsonObject] = []
        for part in turn.parts:
            assert type(part) is ToolResult
            content = part.content
            if type(content) is not str:
                content = self._result_content(content, shown)
            message: JsonObject = {
                "role": "tool",
                "tool_call_id": part.tool_call_id,
                "content": content,
            }
            if is_named or (
                part.extras is not None and names == "stated" and "name" in self._extra(part)
            ):
                message["name"] = part.name
            messages.append(message)
        return messages

    def _result_content(self, content: object, shown: list[Media]) -> str | list[JsonObject]:
        text, media = split_result(content)
        if media:
            shown.extend(item for item in media if write_media(item, self._quirks) is not None)
            lines = [text, *map(media_label, media)]
            text = "\n".join(line for line in lines if line.strip())
        return marked_text(text, content, self._quirks.cache_mark)

    def loss(self, part: Media | Thinking, turn: Turn) -> Loss | None:
        """Why media or thinking cannot be sent as it is; None if it can."""
        if isinstance(part, Media) and "audio" in self._extra(part):
            return None
        return _loss(part, turn, self._quirks)


def _is_aside(part: Part) -> bool:
    """Whether the part says nothing in a message: thinking, blank text, or a further choice."""
    if type(part) is Text:
        return not part.content.strip()
    return type(part) is Thinking or (type(part) is Native and part.kind == "choice")


def _think(message: JsonObject, parts: Sequence[Part], quirks: ChatQuirks) -> None:
    """Add the server's own reasoning; for Mistral and for GLM on Cerebras it is in the content."""
    thoughts = _thinking(parts, quirks)
    chunks, tagged = thoughts.pop("content", None), thoughts.pop("tags", None)
    message |= thoughts
    if tagged is not None:
        said = message.get("content") or ""
        message["content"] = f"<think>\n{tagged}\n</think>\n\n{said}".rstrip()
    if chunks is not None:
        message["content"] = [*chunks, *as_parts(message.get("content") or [])]


def _thinking(parts: Sequence[Part], quirks: ChatQuirks) -> JsonObject:
    """The server's own reasoning in its own key; OpenRouter's blocks verbatim."""
    written: JsonObject = {}
    thoughts = [part for part in parts if type(part) is Thinking]
    if not thoughts and not quirks.thinking_always:
        return written
    details = [part.opaque.get("reasoning_details") for part in thoughts]
    if quirks.thinking_details and len(details) == 1 and isinstance(details[0], list):
        written["reasoning_details"] = details[0]
    if quirks.thinking_field == "content":
        said = [part for part in thoughts if part.content]
        return {"content": [_thinking_chunk(part) for part in said]} if said else written
    words = "".join(part.content for part in thoughts)
    field = quirks.thinking_field
    if field == "own":
        field = thoughts[0].opaque.get("field", "")
    if field and (words or quirks.thinking_always):
        written[field] = words
    return written


def _thinking_chunk(part: Thinking) -> JsonObject:
    fields = {key: value for key, value in part.opaque.items() if key != "field"}
    return {"type": "thinking", "thinking": [{"type": "text", "text": part.content}]} | fields


def _loss(part: Media | Thinking, turn: Turn, quirks: ChatQuirks) -> Loss | None:
    if isinstance(part, Thinking):
        sent = bool(_thinking(turn.parts, quirks))
        return None if sent else ("GRQ-01", "left out reasoning: it has no place here")
    if turn.role not in ("user", "tool") or write_media(part, quirks) is None:
        return "OAI-11", written_as_text(part)
    return ("OAI-17", "put media behind the tool results") if turn.role == "tool" else None


def _attachments(shown: Iterable[Media], quirks: ChatQuirks) -> Iterator[JsonObject]:
    """The media of results, as user content."""
    if quirks.answers_after_tools:
        yield {"role": "assistant", "content": ACKNOWLEDGED}
    parts = (Text("[attachments of the tool results above]"), *shown)
    yield {"role": "user", "content": _user_content(parts, quirks)}


def _joined(parts: Iterable[Part]) -> str:
    words = [
        part.content
        if type(part) is Text
        else f"[{part.text or part.kind}]"
        if isinstance(part, Native)
        else plain_text(part)
        for part in parts
        if isinstance(part, (Text, Media, Native))
    ]
    return "\n\n".join(words)


def _user_content(
    parts: Sequence[Part], quirks: ChatQuirks, marks: Sequence[JsonObject] = ()
) -> str | list[JsonObject]:
    if quirks.content == "string":
        return _joined(parts)
    content: list[JsonObject] = []
    for part, mark in zip_longest(parts, marks, fillvalue=None):
        written = write_media(part, quirks) if isinstance(part, Media) else None
        if written is None and isinstance(part, (Text, Media)):
            written = {"type": "text", "text": plain_text(part)}
        if isinstance(part, Native):  # all other part types of a user message are handled below
            written = {"type": "text", "text": f"[{part.text or part.kind}]"}
        if written is not None:
            content.append(mark_part(written, mark) if mark else written)
    words_only = all(part.keys() == {"type", "text"} for part in content)
    if words_only and (len(content) == 1 or quirks.content == "media"):
        return "\n\n".join(part["text"] for part in content)
    return content


def _tools(draft: RequestDraft, quirks: ChatQuirks) -> JsonObject:
    tools = limit_tools(draft, quirks.most_tools, "GRQ-07")
    server_tools, settings = write_chat(draft, quirks.web_search)
    if not tools:
        return settings | ({"tools": server_tools} if server_tools else {})
    written: list[JsonObject] = []
    for tool in tools:
        projected = recall_projection(tool.schema, quirks.schema_rules)
        for dropped in projected.dropped:
            draft.note("OAI-14", f"{tool.name}: {dropped}")
        function: JsonObject = {"name": tool.name, "parameters": projected.schema}
        if tool.description:
            function["description"] = tool.description
        written.append({"type": "function", "function": function})
    choice = choose_tool(draft, "OAI-15")
    body: JsonObject = {"tools": written + server_tools}
    if choice is not None:
        body["tool_choice"] = _choice(choice, quirks, draft)
    return body | settings


def _choice(choice: str, quirks: ChatQuirks, draft: RequestDraft) -> Any:
    if choice in ("auto", "none"):
        return choice
    if choice == "required":
        return quirks.required
    if not quirks.named_choice:
        draft.note(
            "MIS-12", f"a tool cannot be named here: some tool must be called, not {choice!r}"
        )
        return quirks.required
    return {"type": "function", "function": {"name": choice}}


def _settings(draft: RequestDraft, quirks: ChatQuirks) -> JsonObject:
    options = draft.options
    model = openai_model(draft.model) if quirks.reasoning_models else None
    depth = write_depth(draft, quirks, model)
    is_reasoning = model is not None and model.is_reasoning(depth.get("reasoning_effort"))
    can_reason = model is not None and model.thinks_at_all
    key = "max_completion_tokens" if can_reason else quirks.max_tokens_key
    settings = without_nothing(**{key: most_tokens(draft)})
    if options.temperature is not None:
        if is_reasoning:
            draft.note("OAI-19", f"{draft.model} takes no temperature: left it out")
        else:
            settings["temperature"] = temperature_of(draft)
    settings |= _further(draft, quirks, is_reasoning=is_reasoning)
    if options.stop:
        if not quirks.stop or (model is not None and not model.stop):
            draft.note("OAI-19", f"{draft.model} takes no stop sequences: left them out")
        else:
            settings["stop"] = list(options.stop[:_MOST_STOPS])
            if len(options.stop) > _MOST_STOPS:
                draft.note("OAI-DOC", f"{_MOST_STOPS} stop sequences at most: left out the others")
    return settings | depth


_FURTHER: Final = {
    name: name for name in ("top_p", "seed", "parallel_tool_calls", "service_tier", "metadata")
}


def _further(draft: RequestDraft, quirks: ChatQuirks, *, is_reasoning: bool) -> JsonObject:
    further = further_options(draft, {**_FURTHER, **quirks.other_keys}, "OAI-12")
    if is_reasoning and "top_p" in further:
        draft.note("OAI-19", f"{draft.model} takes no top_p: left it out")
        del further["top_p"]
    return further


def _output(draft: RequestDraft, quirks: ChatQuirks) -> JsonObject:
    """The fields that request structured output."""
    schema = draft.options.schema
    if schema is None:
        return {}
    if quirks.output_schema == "none" or (draft.tools and not quirks.schema_beside_tools):
        draft.note("FWK-02", "structured output cannot be asked for here: left it out")
        return {}
    if quirks.output_schema == "json_object":
        return {"response_format": {"type": "json_object"}}
    projected = recall_projection(schema, OPENAI_STRICT).schema
    named = {"name": "answer", "schema": projected, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
