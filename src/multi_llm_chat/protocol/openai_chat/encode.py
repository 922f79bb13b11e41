"""Write a request for Chat Completions.

Rules:
1. Only keys of the published format are written; nothing is null, no list is empty.
2. Results follow their call's message one by one; what a result cannot carry (media) follows
   the whole group as the user's.
3. What differs between servers is in ``ChatQuirks`` and nowhere else.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

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
from multi_llm_chat.protocol._model_families import refuses_sampling, thinks_without_tools
from multi_llm_chat.protocol.providers import ChatQuirks
from multi_llm_chat.protocol.request_draft import (
    PICTURES,
    Encoded,
    Loss,
    RequestDraft,
    arguments_text,
    choose_tool,
    effort_of,
    limit_tools,
    media_label,
    plain_text,
    settle_media,
    without_nothing,
    written_as_text,
)
from multi_llm_chat.repair.policy import ACKNOWLEDGED
from multi_llm_chat.schema.dialect_rules import OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/chat/completions"

_MOST_STOPS = 4

_AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def encode(draft: RequestDraft, quirks: ChatQuirks) -> Encoded:
    """The request's body and path."""
    messages = write_messages(draft.system_prompt, draft.turns, quirks)
    body: JsonObject = {"model": draft.model, "messages": messages}
    body |= _tools(draft, quirks) | _settings(draft, quirks) | _output(draft, quirks)
    if draft.stream:
        body["stream"] = True
        if quirks.stream_usage:
            body["stream_options"] = {"include_usage": True}
    draft.note_losses(lambda part, turn: _loss(part, turn, quirks))
    if not quirks.words_beside_calls and any(map(_speaks_and_calls, draft.turns)):
        draft.note("MIS-08", "sent text and calls in separate messages")
    return Encoded(body | draft.options.extra, PATH)


def write_messages(
    system_prompt: str, turns: Sequence[Turn], quirks: ChatQuirks
) -> list[JsonObject]:
    """The messages of a request."""
    messages: list[JsonObject] = []
    if system_prompt:
        messages.append({"role": "system", "content": system_prompt})
    shown: list[Media] = []
    for turn in turns:
        if shown and turn.role != "tool":
            messages.extend(_attachments(shown, quirks))
            shown = []
        if turn.role == "tool":
            messages += _results(turn, quirks, shown)
        elif turn.role == "user":
            messages.append({"role": "user", "content": _user_content(turn.parts, quirks)})
        elif turn.role == "system":
            messages.append({"role": "system", "content": _joined(turn.parts)})
        else:
            messages += _assistant(turn, quirks)
    if shown:
        messages.extend(_attachments(shown, quirks))
    return list(_merged(messages, quirks)) if quirks.alternates else messages


def _speaks_and_calls(turn: Turn) -> bool:
    kinds = {type(part) for part in turn.parts}
    return ToolCall in kinds and not kinds.isdisjoint((Text, Media))


def _assistant(turn: Turn, quirks: ChatQuirks) -> Sequence[JsonObject]:
    if len(turn.parts) == 1 and type(turn.parts[0]) is Text and not quirks.thinking_always:
        return ({"role": "assistant", "content": turn.parts[0].content},)
    message: JsonObject = {"role": "assistant"}
    words = _joined(turn.parts)
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.name, "arguments": arguments_text(part)},
        }
        for part in turn.parts
        if type(part) is ToolCall
    ]
    apart = words and calls and not quirks.words_beside_calls
    if words and not apart:
        message["content"] = words
    elif not words and quirks.bare_calls == "empty":
        message["content"] = ""
    if calls:
        message["tool_calls"] = calls
    message |= _thinking(turn.parts, quirks)
    return ({"role": "assistant", "content": words}, message) if apart else (message,)


def _thinking(parts: Sequence[Part], quirks: ChatQuirks) -> JsonObject:
    """The server's own reasoning under its own key; OpenRouter's blocks verbatim."""
    written: JsonObject = {}
    thoughts = [part for part in parts if type(part) is Thinking]
    if not thoughts and not quirks.thinking_always:
        return written
    details = [part.opaque.get("reasoning_details") for part in thoughts]
    if quirks.thinking_details and len(details) == 1 and isinstance(details[0], list):
        written["reasoning_details"] = details[0]
    words = "".join(part.content for part in thoughts)
    if quirks.thinking_field and (words or quirks.thinking_always):
        written[quirks.thinking_field] = words
    return written


def _loss(part: Media | Thinking, turn: Turn, quirks: ChatQuirks) -> Loss | None:
    if isinstance(part, Thinking):
        sent = bool(_thinking(turn.parts, quirks))
        return None if sent else ("GRQ-01", "left out reasoning: it has no place here")
    if turn.role not in ("user", "tool") or _media_part(part, quirks) is None:
        return "OAI-11", written_as_text(part)
    return ("OAI-17", "put media behind the tool results") if turn.role == "tool" else None


def _results(turn: Turn, quirks: ChatQuirks, shown: list[Media]) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for part in turn.parts:
        assert type(part) is ToolResult
        text, media = split_result(part.content)
        if media:
            shown.extend(item for item in media if _media_part(item, quirks) is not None)
            lines = [text, *map(media_label, media)]
            text = "\n".join(line for line in lines if line.strip())
        message: JsonObject = {
            "role": "tool",
            "tool_call_id": part.tool_call_id,
            "content": text,
        }
        if quirks.result_names:
            message["name"] = part.name
        messages.append(message)
    return messages


def _attachments(shown: Iterable[Media], quirks: ChatQuirks) -> Iterator[JsonObject]:
    """What results could not carry, as the user's."""
    if quirks.answers_after_tools:
        yield {"role": "assistant", "content": ACKNOWLEDGED}
    parts = (Text("[attachments of the tool results above]"), *shown)
    yield {"role": "user", "content": _user_content(parts, quirks)}


def _joined(parts: Iterable[Part]) -> str:
    return "\n\n".join([plain_text(part) for part in parts if isinstance(part, (Text, Media))])


def _user_content(parts: Sequence[Part], quirks: ChatQuirks) -> str | list[JsonObject]:
    if len(parts) == 1 and type(parts[0]) is Text:
        return parts[0].content
    if quirks.content == "string":
        return _joined(parts)
    content: list[JsonObject] = []
    for part in parts:
        written = _media_part(part, quirks) if isinstance(part, Media) else None
        if written is None and isinstance(part, (Text, Media)):
            written = {"type": "text", "text": plain_text(part)}
        if written is not None:
            content.append(written)
    words_only = all(part["type"] == "text" for part in content)
    if words_only and (len(content) == 1 or quirks.content == "media"):
        return _joined(parts)
    return content


def _media_part(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    """The media in the server's form, or None where it takes none of this kind."""
    settled = settle_media(media)
    if settled is None or quirks.content == "string":
        return None
    if settled.mime in PICTURES:
        return _image(settled, quirks)
    if settled.data is None:
        return None
    if settled.mime in _AUDIO and "audio" in quirks.media:
        audio = {"data": settled.data, "format": _AUDIO[settled.mime]}
        return {"type": "input_audio", "input_audio": audio}
    if settled.mime == "application/pdf" and "pdf" in quirks.media:
        data = f"data:application/pdf;base64,{settled.data}"
        name = settled.name or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data}}
    return None


def _image(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    if media.data is not None and "image" in quirks.media:
        if media.mime == "image/gif" and "gif" not in quirks.media:
            return None
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{media.mime};base64,{media.data}"},
        }
    if media.url is not None and "image_url" in quirks.media:
        return {"type": "image_url", "image_url": {"url": media.url}}
    return None


def _merged(messages: Iterable[JsonObject], quirks: ChatQuirks) -> Iterator[JsonObject]:
    """Neighbours of one role as one message; tool messages stay single, and calls where they must."""
    run: list[JsonObject] = []
    for message in messages:
        if run and not _joins(run[-1], message, quirks):
            yield _glued(run)
            run = []
        run.append(message)
    if run:
        yield _glued(run)


def _joins(last: JsonObject, message: JsonObject, quirks: ChatQuirks) -> bool:
    return (
        last["role"] == message["role"] != "tool"
        and "tool_calls" not in last
        and (quirks.words_beside_calls or "tool_calls" not in message)
    )


def _glued(run: Sequence[JsonObject]) -> JsonObject:
    """The run as one message, made at once: two by two, a long run would cost its square."""
    if len(run) == 1:
        return run[0]
    glued: JsonObject = {}
    for message in run:
        glued |= message
    contents = [message["content"] for message in run if message.get("content")]
    words = list(takewhile(_is_text, contents))
    if words:
        contents[: len(words)] = ["\n\n".join(words)]
    if len(contents) == 1:
        glued["content"] = contents[0]
    elif contents:
        glued["content"] = [part for content in contents for part in _as_parts(content)]
    return glued


def _is_text(content: object) -> bool:
    return isinstance(content, str)


def _as_parts(content: Any) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tools(draft: RequestDraft, quirks: ChatQuirks) -> JsonObject:
    tools = limit_tools(draft, quirks.most_tools, "GRQ-07")
    if not tools:
        return {}
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
    body: JsonObject = {"tools": written}
    if choice is not None:
        body["tool_choice"] = _choice(choice, quirks, draft)
    return body


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
    limited = quirks.reasoning_models and refuses_sampling(draft.model)
    key = "max_completion_tokens" if limited else quirks.max_tokens_key
    settings = without_nothing(**{key: options.max_tokens})
    if options.temperature is not None:
        if limited:
            draft.note("OAI-19", f"{draft.model} takes no temperature: left it out")
        else:
            settings["temperature"] = options.temperature
    if options.stop:
        if limited or not quirks.stop:
            draft.note("OAI-19", f"{draft.model} takes no stop sequences: left them out")
        else:
            settings["stop"] = list(options.stop[:_MOST_STOPS])
            if len(options.stop) > _MOST_STOPS:
                draft.note("OAI-DOC", f"{_MOST_STOPS} stop sequences at most: left out the others")
    return settings | _depth(draft, quirks, limited)


def _depth(draft: RequestDraft, quirks: ChatQuirks, limited: bool) -> JsonObject:
    """How deeply the model is to think."""
    if draft.tools and quirks.reasoning_models and thinks_without_tools(draft.model):
        draft.note(
            "OAI-16", f"{draft.model} takes tools here only without reasoning: turned it off"
        )
        return {"reasoning_effort": "none"}
    wanted = draft.options.thinking
    if wanted is None:
        return {}
    if quirks.effort == "thinking":
        return {"thinking": {"type": "enabled" if wanted else "disabled"}}
    if quirks.effort == "reasoning_effort" and (limited or not quirks.reasoning_models):
        effort = effort_of(wanted)
        return {"reasoning_effort": effort} if effort else {}
    draft.note("OAI-12", f"{draft.model} has no setting for thinking here: left it out")
    return {}


def _output(draft: RequestDraft, quirks: ChatQuirks) -> JsonObject:
    """How structured output is asked for."""
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
