"""Write a request for OpenAI Responses.

Rules:
1. Nothing relies on what OpenAI stores: ``store`` is false, items carry no ids, and reasoning
   travels encrypted.
2. A reasoning item stands directly before the item it led to, or is left out.
3. Each text of the model is a message of its own, so that the order of words and calls is kept.
"""

from collections.abc import Iterator, Sequence

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
from multi_llm_chat.protocol._model_families import refuses_sampling
from multi_llm_chat.protocol.request_draft import (
    PICTURES,
    Encoded,
    Loss,
    RequestDraft,
    arguments_text,
    choose_tool,
    effort_of,
    join_labels,
    limit_tools,
    media_label,
    plain_text,
    settle_media,
    written_as_text,
)
from multi_llm_chat.schema.dialect_rules import OPENAI, OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/responses"

_MOST_TOOLS = 128
_FEWEST_TOKENS = 16
_LONGEST_OUTPUT = 10_485_760


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    body: JsonObject = {"model": draft.model, "input": write_items(draft.turns), "store": False}
    if draft.system_prompt:
        body["instructions"] = draft.system_prompt
    body |= _tools(draft) | _settings(draft)
    if draft.stream:
        body["stream"] = True
    draft.note_losses(_loss)
    _note_cuts(draft)
    return Encoded(body | draft.options.extra, PATH)


def write_items(turns: Sequence[Turn]) -> list[JsonObject]:
    """The input items of a request."""
    return [item for turn in turns for item in _WRITERS.get(turn.role, _model)(turn)]


def _user(turn: Turn) -> Iterator[JsonObject]:
    content = [_input_part(part) for part in turn.parts]
    if len(content) == 1 and content[0]["type"] == "input_text":
        yield {"role": "user", "content": content[0]["text"]}
    else:
        yield {"role": "user", "content": content}


def _system(turn: Turn) -> Iterator[JsonObject]:
    for part in turn.parts:
        if isinstance(part, (Text, Media)):
            yield {"role": "system", "content": plain_text(part)}


def _tool(turn: Turn) -> Iterator[JsonObject]:
    for part in turn.parts:
        assert isinstance(part, ToolResult)
        text, media = split_result(part.content)
        carried: list[JsonObject] = []
        if media:
            text, carried = join_labels(text, map(_input_part, media))
        text = text[:_LONGEST_OUTPUT]
        output: str | list[JsonObject] = text
        if carried:
            words = [{"type": "input_text", "text": text}] if text else []
            output = [*words, *carried]
        yield {"type": "function_call_output", "call_id": part.tool_call_id, "output": output}


def _note_cuts(draft: RequestDraft) -> None:
    results = (part for turn in draft.turns for part in turn.parts if isinstance(part, ToolResult))
    if any(len(split_result(part.content)[0]) > _LONGEST_OUTPUT for part in results):
        draft.note("RSP-07", f"cut a tool result to {_LONGEST_OUTPUT} characters")


def _model(turn: Turn) -> Iterator[JsonObject]:
    for at, part in enumerate(turn.parts):
        match part:
            case Text() | Media():
                yield {"role": "assistant", "content": plain_text(part)}
            case ToolCall():
                yield {
                    "type": "function_call",
                    "call_id": part.tool_call_id,
                    "name": part.name,
                    "arguments": arguments_text(part),
                }
            case Thinking():
                yield from _reasoning(part, turn.parts[at + 1 :])
            case _:
                pass


def _loss(part: Media | Thinking, turn: Turn) -> Loss | None:
    if isinstance(part, Media):
        is_sent = turn.role in ("user", "tool") and _input_part(part)["type"] != "input_text"
        return None if is_sent else ("RSP-09", written_as_text(part))
    behind = turn.parts[turn.parts.index(part) + 1 :]
    sent = any(True for _ in _reasoning(part, behind))
    return None if sent else ("RSP-03", "left out reasoning that nothing follows or vouches for")


def _reasoning(part: Thinking, behind: Sequence[Part]) -> Iterator[JsonObject]:
    """The reasoning item, if it can be verified and the item it led to follows."""
    encrypted = part.opaque.get("encrypted_content")
    if not isinstance(encrypted, str) or not encrypted:
        return
    if all(isinstance(other, Thinking) for other in behind):
        return
    summary = part.opaque.get("summary")
    yield {
        "type": "reasoning",
        "summary": summary if isinstance(summary, list) else [],
        "encrypted_content": encrypted,
    }


_WRITERS = {"user": _user, "system": _system, "tool": _tool}


def _input_part(part: Part) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.content}
    assert isinstance(part, Media)
    media = settle_media(part)
    if media is not None and media.mime in PICTURES:
        url = media.url or f"data:{media.mime};base64,{media.data}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if media is not None and media.data and media.mime == "application/pdf":
        data = f"data:application/pdf;base64,{media.data}"
        return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": data}
    return {"type": "input_text", "text": media_label(part)}


def _tools(draft: RequestDraft) -> JsonObject:
    written: list[JsonObject] = []
    for tool in limit_tools(draft, _MOST_TOOLS, "OAI-13"):
        projected = recall_projection(tool.schema, OPENAI)
        for dropped in projected.dropped:
            draft.note("OAI-14", f"{tool.name}: {dropped}")
        function: JsonObject = {"type": "function", "name": tool.name}
        if tool.description:
            function["description"] = tool.description
        # Responses takes schemas as strict by default; ours are not rewritten for that.
        written.append(function | {"parameters": projected.schema, "strict": False})
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


def _settings(draft: RequestDraft) -> JsonObject:
    options = draft.options
    thinks = refuses_sampling(draft.model)
    settings: JsonObject = {}
    if options.max_tokens is not None:
        settings["max_output_tokens"] = max(options.max_tokens, _FEWEST_TOKENS)
        if options.max_tokens < _FEWEST_TOKENS:
            draft.note("RSP-DOC", f"max_tokens is {_FEWEST_TOKENS} at least here: raised it")
    if thinks:
        # Other models answer 400 to the very wish.
        settings["include"] = ["reasoning.encrypted_content"]
    if options.temperature is not None:
        if thinks:
            draft.note("OAI-19", f"{draft.model} takes no temperature: left it out")
        else:
            settings["temperature"] = options.temperature
    if options.stop:
        draft.note("RSP-12", "stop sequences do not exist here: left them out")
    if options.thinking is not None:
        settings |= _reasoning_setting(draft, thinks)
    if options.schema is not None:
        schema = recall_projection(options.schema, OPENAI_STRICT).schema
        output = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
        settings["text"] = {"format": output}
    return settings


def _reasoning_setting(draft: RequestDraft, thinks: bool) -> JsonObject:
    wanted = draft.options.thinking
    if not thinks:
        if wanted:
            draft.note("OAI-19", f"{draft.model} does not reason: left the wish out")
        return {}
    effort = effort_of(wanted)
    asked = {"summary": "auto"} if wanted else {}
    return {"reasoning": asked | ({"effort": effort} if effort else {})}
