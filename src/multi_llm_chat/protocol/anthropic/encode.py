"""Write a request for Anthropic Messages.

Rules:
1. Messages alternate between user and assistant; results open the user message that follows their calls.
2. Thinking blocks are written exactly as they came, and only when thinking is on in this request.
3. Thinking is off when the open tool loop does not begin with a thinking block: it cannot be made up.
4. Tools are declared, if only as stubs, whenever the messages speak of calls.
"""

from collections.abc import Iterable, Iterator, Sequence

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
from multi_llm_chat.protocol._model_families import takes_temperature, thinks_adaptively
from multi_llm_chat.protocol.request_draft import (
    PICTURES,
    Encoded,
    Loss,
    RequestDraft,
    choose_tool,
    effort_of,
    join_labels,
    media_label,
    settle_media,
    system_text,
    written_as_text,
)
from multi_llm_chat.schema.dialect_rules import ANTHROPIC, OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/messages"

_DEFAULT_MAX_TOKENS = 8192
_SMALLEST_BUDGET = 1024
_DEFAULT_BUDGET = 8192
_CACHE: JsonObject = {"type": "ephemeral"}
_STUB: JsonObject = {"type": "object", "properties": {}}


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    system, turns = system_text(draft.turns)
    thinking = _thinking_setting(draft, turns)
    replays = thinking is not None and thinking["type"] != "disabled"
    messages = write_messages(turns, replays=replays)
    body: JsonObject = {
        "model": draft.model,
        "max_tokens": _max_tokens(draft, thinking),
        "messages": messages,
    }
    if draft.system_prompt:
        system = [draft.system_prompt, *system]
    if system:
        body["system"] = _system(system, cached=draft.options.cache)
    if thinking is not None:
        body["thinking"] = thinking
    body |= _tools(draft, turns, thinking=replays) | _settings(draft, thinking=replays)
    if draft.options.cache:
        _mark_last_message(messages)
    if draft.stream:
        body["stream"] = True
    draft.note_losses(lambda part, turn: _loss(part, turn, replays))
    return Encoded(body | draft.options.extra, PATH)


def write_messages(turns: Sequence[Turn], *, replays: bool) -> list[JsonObject]:
    """The messages of a request; ``replays`` says whether thinking blocks are written."""
    messages: list[JsonObject] = []
    spoke = ""
    for turn in turns:
        role = "user" if turn.role in ("user", "tool") else "assistant"
        said = _said(turn.parts, role, replays)
        if not said:
            continue
        if role == spoke:
            last = messages[-1]
            last["content"] = blocks = _as_blocks(last["content"])
            blocks.extend(_as_blocks(said))
        else:
            spoke = role
            messages.append({"role": role, "content": said})
    return messages


def _said(parts: tuple[Part, ...], role: str, replays: bool) -> str | list[JsonObject]:
    """What a message says: words alone as a string."""
    if len(parts) == 1 and type(parts[0]) is Text:
        return parts[0].content
    blocks = _blocks(_led(parts), role, replays)
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _as_blocks(said: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _led(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without thinking that led to nothing: a message may not end with it."""
    length = len(parts)
    while length and type(parts[length - 1]) is Thinking:
        length -= 1
    return parts[:length]


def _blocks(parts: tuple[Part, ...], role: str, replays: bool) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for part in parts:  # the most frequent first: there are thousands
        if type(part) is Text:
            blocks.append({"type": "text", "text": part.content})
        elif type(part) is ToolCall:
            block = {
                "type": "tool_use",
                "id": part.tool_call_id,
                "name": part.name,
                "input": part.arguments,
            }
            blocks.append(block)
        elif type(part) is ToolResult:
            blocks.append(_result(part))
        elif type(part) is Media:
            # Only a user message may hold pictures and documents.
            label = {"type": "text", "text": media_label(part)}
            blocks.append(_media_block(part) if role == "user" else label)
        elif type(part) is Thinking and replays:
            blocks.extend(_thinking_block(part))
    return blocks


def _loss(part: Media | Thinking, turn: Turn, replays: bool) -> Loss | None:
    if isinstance(part, Media):
        is_sent = turn.role in ("user", "tool") and _media_block(part)["type"] != "text"
        return None if is_sent else ("ANT-DOC", written_as_text(part))
    if not replays:
        return "ANT-14", "left out thinking: it is off in this request"
    if all(part is not other for other in _led(turn.parts)):
        return "ANT-12", "left out thinking that led to nothing"
    signed = any(True for _ in _thinking_block(part))
    return None if signed else ("ANT-13", "left out thinking that is not signed")


def _thinking_block(part: Thinking) -> Iterator[JsonObject]:
    redacted, signature = part.opaque.get("redacted"), part.opaque.get("signature")
    if isinstance(redacted, str) and redacted:
        yield {"type": "redacted_thinking", "data": redacted}
    elif isinstance(signature, str) and signature:
        yield {"type": "thinking", "thinking": part.content, "signature": signature}


def _media_block(part: Media) -> JsonObject:
    media = settle_media(part)
    if media is not None and media.data is not None:
        source = {"type": "base64", "media_type": media.mime, "data": media.data}
        if media.mime in PICTURES:
            return {"type": "image", "source": source}
        if media.mime == "application/pdf":
            return {"type": "document", "source": source}
    elif media is not None and media.url is not None and media.url.startswith("https://"):
        kinds = {"application/pdf": "document"} | dict.fromkeys(PICTURES, "image")
        if media.mime in kinds:
            return {"type": kinds[media.mime], "source": {"type": "url", "url": media.url}}
    return {"type": "text", "text": media_label(part)}


def _result(part: ToolResult) -> JsonObject:
    text, media = split_result(part.content)
    block: JsonObject = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": text}
    if media:
        text, carried = join_labels(text, map(_media_block, media))
        words = [{"type": "text", "text": text}] if text else []
        block["content"] = [*words, *carried] if carried else text
    if part.is_error:
        block["is_error"] = True
    return block


def _system(texts: Sequence[str], *, cached: bool) -> str | list[JsonObject]:
    if len(texts) == 1 and not cached:
        return texts[0]
    blocks: list[JsonObject] = [{"type": "text", "text": text} for text in texts]
    if cached:
        blocks[-1]["cache_control"] = _CACHE
    return blocks


def _mark_last_message(messages: list[JsonObject]) -> None:
    """Let the provider cache everything up to here; thinking blocks cannot carry the mark."""
    last = messages[-1]
    if isinstance(last["content"], str):
        last["content"] = list[JsonObject]([{"type": "text", "text": last["content"]}])
    last["content"][-1]["cache_control"] = _CACHE


def _thinking_setting(draft: RequestDraft, turns: Sequence[Turn]) -> JsonObject | None:
    wanted = draft.options.thinking
    adaptive = thinks_adaptively(draft.model)
    if wanted is None:
        # A model that thought without being asked thinks by default: its blocks go back with it.
        own = adaptive and _opens_with_thinking(turns)
        return {"type": "adaptive"} if own else None
    if not wanted:
        return {"type": "disabled"}
    if _loop_lacks_thinking(turns):
        draft.note(
            "ANT-10", "the open tool loop has no thinking to continue from: turned thinking off"
        )
        return {"type": "disabled"}
    if adaptive:
        return {"type": "adaptive"}
    budget = wanted if isinstance(wanted, int) and wanted is not True else _DEFAULT_BUDGET
    return {"type": "enabled", "budget_tokens": max(budget, _SMALLEST_BUDGET)}


def _open_loop(turns: Sequence[Turn]) -> Turn | None:
    """The last model turn when the last message holds results of its calls."""
    results = False
    for turn in reversed(turns):
        if turn.role not in ("user", "tool"):
            return turn if results else None
        results = results or turn.role == "tool"
    return None


def _loop_lacks_thinking(turns: Sequence[Turn]) -> bool:
    last = _open_loop(turns)
    return last is not None and not _starts_thinking(last)


def _opens_with_thinking(turns: Sequence[Turn]) -> bool:
    last = _open_loop(turns)
    return last is not None and _starts_thinking(last)


def _starts_thinking(turn: Turn) -> bool:
    first = turn.parts[0]
    return isinstance(first, Thinking) and any(True for _ in _thinking_block(first))


def _max_tokens(draft: RequestDraft, thinking: JsonObject | None) -> int:
    wanted = draft.options.max_tokens or _DEFAULT_MAX_TOKENS
    budget = (thinking or {}).get("budget_tokens", 0)
    if wanted > budget:
        return wanted
    draft.note("ANT-25", "max_tokens must exceed the thinking budget: raised it")
    return budget + wanted


def _tools(draft: RequestDraft, turns: Sequence[Turn], *, thinking: bool) -> JsonObject:
    if not draft.tools:
        return _stubs(draft, turns)
    written: list[JsonObject] = []
    for tool in draft.tools:
        projected = recall_projection(tool.schema, ANTHROPIC)
        for dropped in projected.dropped:
            draft.note("ANT-18", f"{tool.name}: {dropped}")
        if projected.renamed:
            draft.arguments[tool.name] = dict(projected.renamed)
            renamed = ", ".join(f"{old!r} as {new!r}" for new, old in projected.renamed.items())
            draft.note("ANT-DOC", f"{tool.name}: offered the arguments {renamed}")
        entry: JsonObject = {"name": tool.name, "input_schema": projected.schema}
        if tool.description:
            entry["description"] = tool.description
        written.append(entry)
    if draft.options.cache:
        written[-1]["cache_control"] = _CACHE
    choice = choose_tool(draft, "OAI-15")
    if choice is None:
        return {"tools": written}
    if thinking and choice not in ("auto", "none"):
        draft.note("ANT-15", "no tool can be forced while the model thinks: left it the choice")
        choice = "auto"
    words = {"auto": "auto", "none": "none", "required": "any"}
    kind = words.get(choice)
    return {
        "tools": written,
        "tool_choice": {"type": kind} if kind else {"type": "tool", "name": choice},
    }


def _stubs(draft: RequestDraft, turns: Iterable[Turn]) -> JsonObject:
    names = dict.fromkeys(
        part.name for turn in turns for part in turn.parts if type(part) is ToolCall
    )
    if not names:
        return {}
    draft.note("ANT-16", "declared the tools of earlier calls, and that none may be called")
    stubs = [{"name": name, "input_schema": _STUB} for name in names]
    return {"tools": stubs, "tool_choice": {"type": "none"}}


def _settings(draft: RequestDraft, *, thinking: bool) -> JsonObject:
    options = draft.options
    settings: JsonObject = {}
    if options.temperature is not None:
        if thinking or not takes_temperature(draft.model):
            draft.note("ANT-25", "no temperature can be set here: left it out")
        else:
            if options.temperature > 1:
                draft.note("ANT-DOC", "the temperature goes up to 1 here: lowered it")
            settings["temperature"] = min(options.temperature, 1.0)
    stops = [stop for stop in options.stop if stop.strip()]
    if len(stops) < len(options.stop):
        draft.note("ANT-DOC", "stop sequences cannot be blank: left those out")
    if stops:
        settings["stop_sequences"] = stops
    output: JsonObject = {}
    if thinking and thinks_adaptively(draft.model) and (effort := effort_of(options.thinking)):
        output["effort"] = effort
    if options.schema is not None:
        schema = recall_projection(options.schema, OPENAI_STRICT).schema
        output["format"] = {"type": "json_schema", "schema": schema}
    if output:
        settings["output_config"] = output
    return settings
