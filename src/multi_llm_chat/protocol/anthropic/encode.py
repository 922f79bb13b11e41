"""Write a request for Anthropic Messages.

Rules:
1. A model's capabilities are data: ``ClaudeFamily``. Thinking is never turned off, given a budget, or combined with a forced
   tool if the model refuses that (ANT-32, ANT-33, ANT-15, ANT-34).
2. Thinking is replayed in every turn or in none. It is replayed whenever the model thinks in this request (ANT-28, ANT-29),
   but only after the last change of the messages that precede it.
3. With a budget, thinking is turned off if the open tool loop does not begin with a thinking block, which cannot be invented
   (ANT-10).
4. For blocks and fields of a beta, its ``anthropic-beta`` value is sent (ANT-53).
5. The client's cache marks stay; our own marks use what is left of the four that are allowed (ANT-44).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.values import JsonObject, Origin, Thinking, ToolCall, Turn
from multi_llm_chat.protocol.anthropic.messages import (
    MessageWriter,
    as_blocks,
    thinking_block,
)
from multi_llm_chat.protocol.anthropic.native_blocks import needed_betas
from multi_llm_chat.protocol.capabilities import (
    ClaudeFamily,
    claude_family,
    nearest_effort,
)
from multi_llm_chat.protocol.request_draft import (
    CutError,
    Encoded,
    RequestDraft,
    choose_tool,
    effort_of,
    further_options,
    system_text,
)
from multi_llm_chat.protocol.server_tools import write_anthropic
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.dialect_rules import ANTHROPIC, OPENAI_STRICT
from multi_llm_chat.schema.tool_schema import recall_projection

PATH = "/messages"

_DEFAULT_MAX_TOKENS = 8192
_SMALLEST_BUDGET = 1024
_DEFAULT_BUDGET = 8192
_MOST_MARKS = 4
#: The number of blocks before a mark in which a cached prefix is searched (platform.claude.com, prompt caching).
_LOOKBACK = 19
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_CALL_ANY = "[Call one of the tools now.]"
_CALL_ONE = "[Call the tool {name} now.]"
_FIT = "[Answer with one JSON value that fits this schema, and nothing else: {schema}]"
_REFERENCE = re.compile(r'"\$ref":"#/\$defs/([^"]+)"')
#: A strict schema may have up to 15 unions; a schema with 16 was refused.
_MOST_UNIONS = 16
_STUB: JsonObject = {"type": "object", "properties": {}}


def encode(draft: RequestDraft) -> Encoded:
    """The request's body and path."""
    family = claude_family(draft.model)
    texts, turns = system_text(draft)
    system = texts
    sources = draft.sources[len(draft.turns) - len(turns) :]
    thinking = _thinking_setting(draft, family, turns)
    kind = family.thinks if thinking is None else thinking["type"] != "disabled"
    if draft.continues and draft.state.get("replays") is not bool(kind):
        raise CutError("ANT-14", "thinking was turned on or off")
    writer = MessageWriter(draft, family, replays=bool(kind))
    body: JsonObject = {
        "model": draft.model,
        "max_tokens": _max_tokens(draft, thinking),
        "messages": [],
    }
    if draft.system_prompt:
        system = [draft.system_prompt, *texts]
    if system:
        is_text = len(system) == 1 and not draft.caching.expected
        body["system"] = system[0] if is_text else _system(system)
    if thinking is not None:
        body["thinking"] = thinking
    body |= _tools(draft, family, turns, thinking) | _settings(draft, family, thinking)
    body["messages"] = writer.write(turns, sources, body)
    _ask_for_tool(draft, family, body)
    _ask_for_schema(draft, body)
    state, binding = writer.state(body) | _loop_state(draft, family, turns), writer.binding
    container = _container(draft, turns)
    if container:
        state["container"] = container
        if _runs_server_tools(body, draft.options.extra):
            body["container"] = container
    last_message = dict(body["messages"][-1]) if body["messages"] else None
    new = 0 if draft.continues and not draft.sent_before else writer.stable
    has_marks = _mark_for_cache(draft, body, new, decorated=writer.decorated)
    if draft.stream:
        body["stream"] = True
    draft.note_losses(writer.loss)
    extra = _extra(draft, thinking)
    may_need = writer.decorated or extra or "mcp_servers" in body
    betas = dict.fromkeys(
        [*draft.state.get("betas", ()), *(needed_betas(body | extra) if may_need else ())]
    )
    headers = {"anthropic-beta": ",".join(betas)} if betas else {}
    if betas:
        state["betas"] = list(betas)
    return Encoded(
        body | extra,
        PATH,
        headers,
        binding,
        # The limit of marks applies to all messages together, so with marks of the client all messages are written again.
        stable=None if has_marks else writer.stable,
        last_message=last_message,
        system_texts=tuple(texts),
        state=state,
    )


def _container(draft: RequestDraft, turns: Sequence[Turn]) -> str:
    """The id of the container in which code of this conversation ran last (ANT-48)."""
    for turn in () if draft.texts is not None else reversed(turns):
        if "container" not in turn.meta:
            continue
        kept = as_object(turn.meta["container"]) or {}
        place = Origin(as_text(kept.get("provider")), as_text(kept.get("endpoint")))
        if kept and draft.target is not None and draft.target.issued(place):
            return as_text(kept.get("id"))
    return as_text(draft.state.get("container")) if draft.continues else ""


def _runs_server_tools(body: JsonObject, extra: JsonObject) -> bool:
    """Whether the request offers tools that Anthropic runs: some of them run code to filter their results."""
    tools = [*(body.get("tools") or ()), *(as_list(extra.get("tools")) or ())]
    kinds = [(as_object(tool) or {}).get("type", "custom") for tool in tools]
    return any(kind != "custom" for kind in kinds)


def _extra(draft: RequestDraft, thinking: JsonObject | None) -> JsonObject:
    """The caller's own fields; a ``thinking`` without a type is merged into ours (ANT-30)."""
    extra = draft.options.extra
    given = as_object(extra.get("thinking"))
    if given is None or "type" in given:
        return extra
    ours = thinking or {"type": "adaptive"}
    if ours["type"] == "disabled":  # no thinking is replayed, so none can be refused
        return {key: value for key, value in extra.items() if key != "thinking"}
    return extra | {"thinking": ours | given}


def _system(texts: Sequence[str]) -> list[JsonObject]:
    return [{"type": "text", "text": text} for text in texts]


# Cache marks.


def _mark_for_cache(draft: RequestDraft, body: JsonObject, new: int, *, decorated: bool) -> bool:
    """Set the cache marks: those of the client and, if caching is wanted, our own up to the last message.

    ``new`` is the index of the first message that the last request did not have. Returns whether the client has set any marks.
    """
    marked: list[JsonObject] = []
    if decorated:
        body["messages"] = messages = [_copy_blocks(message) for message in body["messages"]]
        marked = list(_markable(draft, _content_blocks(messages)))
    if len(marked) > _MOST_MARKS:
        draft.note("ANT-44", f"kept the last {_MOST_MARKS} cache marks")
        for block in marked[:-_MOST_MARKS]:
            del block["cache_control"]
        marked = marked[-_MOST_MARKS:]
    is_long = False
    for block in reversed(marked):  # a long mark may not come after a short one
        if (as_object(block["cache_control"]) or {}).get("ttl") == "1h":
            is_long = True
        elif is_long:
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    if draft.caching.wanted:
        _add_marks(body, new, _MOST_MARKS - len(marked), is_long=is_long or draft.caching.long)
    return bool(marked)


def _markable(draft: RequestDraft, blocks: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The blocks with a cache mark; one of a blank text, which may have none, is left out."""
    for block in blocks:
        if "cache_control" not in block:
            continue
        if block.get("type") == "text" and not as_text(block.get("text")).strip():
            draft.note("ANT-44", "left out the cache mark of a blank text")
            del block["cache_control"]
        else:
            yield block


def _add_marks(body: JsonObject, new: int, free: int, *, is_long: bool) -> None:
    """Mark the end of the request, its head and, if there are many new blocks, one within reach of the earlier cached prefix."""
    mark: JsonObject = {"type": "ephemeral"} | ({"ttl": "1h"} if is_long else {})
    messages: list[JsonObject] = body["messages"]
    places = [
        (at, position)
        for at in range(new, len(messages))
        for position, block in enumerate(as_blocks(messages[at]["content"]))
        if block.get("type") not in _UNMARKABLE and block.get("text", "x")
    ]
    wanted = places[-1:] if len(places) <= _LOOKBACK else [places[-1], places[_LOOKBACK - 1]]
    for at, position in wanted[:free]:
        message = messages[at] = dict(messages[at])
        # Native blocks are objects of the history, so the mark is set in a copy.
        blocks = message["content"] = list(as_blocks(message["content"]))
        if "cache_control" not in blocks[position]:
            blocks[position] = blocks[position] | {"cache_control": mark}
            free -= 1
    if free and "system" in body:  # the provider caches it after the tools
        given = body["system"]
        blocks = body["system"] = _system([given]) if isinstance(given, str) else given
        blocks[-1]["cache_control"] = mark
        free -= 1
    if free and "tools" in body:
        tools = [tool for tool in body["tools"] if "defer_loading" not in tool]
        tools[-1]["cache_control"] = mark


def _copy_blocks(block: JsonObject) -> JsonObject:
    """Copy a message or result with its blocks, because blocks of native parts and extras are objects of the history."""
    content: list[JsonObject] | None = as_list(block.get("content"))
    return dict(block) if content is None else block | {"content": [*map(_copy_blocks, content)]}


def _content_blocks(messages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for message in messages:
        blocks: list[JsonObject] = as_list(message["content"]) or []
        for block in blocks:
            yield block
            if block.get("type") == "tool_result":
                yield from as_list(block.get("content")) or ()


# Thinking.


def _thinking_setting(
    draft: RequestDraft, family: ClaudeFamily, turns: Sequence[Turn]
) -> JsonObject | None:
    wanted = draft.options.thinking
    if wanted is None or not family.thinking:
        if wanted:
            draft.note("ANT-33", "this model does not think: left it out")
        return None
    if not wanted or wanted == "none":
        if family.off:
            return {"type": family.off}
        draft.note("ANT-32", "thinking cannot be turned off here: asked for the lowest effort")
        return None
    if family.thinking == "adaptive":
        return {"type": "adaptive"}
    if _loop_lacks_thinking(draft, turns):
        draft.note(
            "ANT-10", "the open tool loop has no thinking to continue from: turned thinking off"
        )
        return {"type": "disabled"}
    budget = wanted if isinstance(wanted, int) and wanted is not True else _DEFAULT_BUDGET
    return {"type": "enabled", "budget_tokens": max(budget, _SMALLEST_BUDGET)}


def _effort(draft: RequestDraft, family: ClaudeFamily, thinking: JsonObject | None) -> str | None:
    """The thinking effort, if one was requested and the model has efforts."""
    wanted = draft.options.thinking
    if wanted is None or family.thinking != "adaptive":
        return None
    if thinking is None:  # thinking cannot be turned off
        return family.efforts[0] if family.efforts else None
    word = effort_of(wanted)
    if thinking["type"] != "adaptive" or word is None:
        return None
    effort = nearest_effort(word, family.efforts)
    if effort != word:
        draft.note("ANT-36", f"the effort {word!r} is not known here: asked for {effort!r}")
    return effort


def _loop_lacks_thinking(draft: RequestDraft, turns: Sequence[Turn]) -> bool:
    """Whether a tool loop is open that did not begin with thinking; the user's words without results end a loop.

    A loop that an earlier request continued goes on as it did there.
    """
    start: Turn | None = None
    has_user, has_results = False, False  # what is behind the turn, up to the model's next turn
    for turn in reversed(turns):
        if turn.role in ("user", "tool"):
            has_user, has_results = True, has_results or turn.role == "tool"
        elif has_user and not has_results:
            break
        else:
            start, has_user, has_results = turn, False, False
    else:
        follows = has_results if has_user else start is not None and _follows_results(draft)
        if draft.continues and follows:  # the loop began in an earlier request
            return not draft.state.get("replays")
    return start is not None and not _starts_thinking(start)


def _loop_state(draft: RequestDraft, family: ClaudeFamily, turns: Sequence[Turn]) -> JsonObject:
    """Whether the messages before the tail, and all of them, end with results: for ``_follows_results`` of the next request."""
    if family.thinking != "budget":
        return {}
    tail = max(0, draft.tail - (len(draft.turns) - len(turns)))
    return {"results": [_ends_with_results(draft, some) for some in (turns[:tail], turns)]}


def _follows_results(draft: RequestDraft) -> bool:
    """Whether the messages of the earlier request that stay end with results."""
    before_tail, at_end = draft.state.get("results", (False, False))
    return before_tail if draft.sent_before else at_end


def _ends_with_results(draft: RequestDraft, turns: Sequence[Turn]) -> bool:
    """Whether the messages up to the last of these turns end with results."""
    for turn in reversed(turns):
        if turn.role == "tool":
            return True
        if turn.role != "user":
            return False
    return draft.continues and _follows_results(draft)


def _starts_thinking(turn: Turn) -> bool:
    first = turn.parts[0]
    return isinstance(first, Thinking) and any(True for _ in thinking_block(first))


def _max_tokens(draft: RequestDraft, thinking: JsonObject | None) -> int:
    wanted = draft.options.max_tokens or _DEFAULT_MAX_TOKENS
    budget = (thinking or {}).get("budget_tokens", 0)
    if wanted > budget:
        return wanted
    draft.note("ANT-25", "max_tokens must exceed the thinking budget: raised it")
    return budget + wanted


def _tools(
    draft: RequestDraft, family: ClaudeFamily, turns: Sequence[Turn], thinking: JsonObject | None
) -> JsonObject:
    server_tools, servers = write_anthropic(draft)
    connected: JsonObject = {"mcp_servers": servers} if servers else {}
    if not draft.tools:
        if server_tools:
            return {"tools": server_tools} | connected
        return _stubs(draft, turns) if family.wants_tools else {}
    written = [_tool(draft, tool) for tool in draft.tools if tool.name not in draft.deferred]
    # Tools that a message has added are not part of the cached prefix (ANT-46).
    deferred = [
        _tool(draft, tool) | {"defer_loading": True}
        for tool in draft.tools
        if tool.name in draft.deferred
    ]
    written += [*server_tools, *deferred]
    choice = choose_tool(draft, "OAI-15")
    single = (
        {"disable_parallel_tool_use": True} if draft.options.parallel_tool_calls is False else {}
    )
    if choice is None and not (single and draft.tools):
        return {"tools": written} | connected
    choice = choice or "auto"
    has_budget = thinking is not None and thinking["type"] == "enabled"
    if has_budget and choice not in ("auto", "none"):
        draft.note("ANT-15", "no tool can be forced while the model thinks: left it the choice")
        choice = "auto"
    elif not family.forced_tools and choice not in ("auto", "none"):
        choice = "auto"
    words = {"auto": "auto", "none": "none", "required": "any"}
    kind = words.get(choice)
    return {
        "tools": written,
        "tool_choice": ({"type": kind} if kind else {"type": "tool", "name": choice})
        | ({} if kind == "none" else single),
    } | connected


def _tool(draft: RequestDraft, tool: ToolDefinition) -> JsonObject:
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
    return entry


def _stubs(draft: RequestDraft, turns: Iterable[Turn]) -> JsonObject:
    """Minimal tools for earlier calls, always those that were declared first: another list would invalidate the cache and thinking."""
    parts = chain.from_iterable([turn.parts for turn in turns])
    names: Iterable[str] = draft.state.get("stubs") or dict.fromkeys(
        [part.name for part in parts if type(part) is ToolCall]
    )
    if not names:
        return {}
    draft.note("ANT-16", "declared the tools of earlier calls, and that none may be called")
    stubs = [{"name": name, "input_schema": _STUB} for name in names]
    return {"tools": stubs, "tool_choice": {"type": "none"}}


def _ask_for_tool(draft: RequestDraft, family: ClaudeFamily, body: JsonObject) -> None:
    """Ask for a tool by a sentence if the model does not allow a request to force one (ANT-34)."""
    choice = draft.tool_choice
    names = [tool.name for tool in draft.tools]
    if family.forced_tools or (choice != "required" and choice not in names):
        return
    sentence = _CALL_ANY if choice == "required" else _CALL_ONE.format(name=choice)
    if _append_words(body, sentence):
        draft.note(
            "ANT-34", "no tool can be forced here: left the choice and asked for it in words"
        )


def _ask_for_schema(draft: RequestDraft, body: JsonObject) -> None:
    """Ask for structured output by a sentence if the provider cannot compile the schema as a strict one (ANT-42, ANT-43)."""
    schema = draft.options.schema
    if schema is None or "format" in body.get("output_config", {}):
        return
    draft.note("ANT-42", "the schema is too complex for a strict answer: asked for it in words")
    _append_words(body, _FIT.format(schema=compact_json(schema)))


def _is_compilable(schema: JsonObject) -> bool:
    """Whether the schema is within the limit of unions and has no cyclic references."""
    definitions: dict[str, JsonObject] = as_object(schema.get("$defs")) or {}
    leads_to = {
        name: set(_REFERENCE.findall(compact_json(each))) for name, each in definitions.items()
    }
    for middle in definitions:
        for names in leads_to.values():
            if middle in names:
                names |= leads_to[middle]
    unions = sum(map(_count_unions, (schema, *definitions.values())))
    return unions < _MOST_UNIONS and all(name not in names for name, names in leads_to.items())


def _count_unions(schema: JsonObject) -> int:
    inner: list[object] = [schema.get("items"), *(as_list(schema.get("anyOf")) or ())]
    inner += (as_object(schema.get("properties")) or {}).values()
    below = sum(_count_unions(found) for found in map(as_object, inner) if found is not None)
    return below + (isinstance(schema.get("type"), list) or "anyOf" in schema)


def _append_words(body: JsonObject, sentence: str) -> bool:
    """Append a sentence to the last user message; return False if there is none."""
    spoken = (message for message in reversed(body["messages"]) if message["role"] == "user")
    last = next(spoken, None)
    if last is None:
        return False
    blocks = as_blocks(last["content"])
    if all(block.get("text") != sentence for block in blocks):
        last["content"] = [*blocks, {"type": "text", "text": sentence}]
    return True


_TIERS: Final = ("auto", "standard_only")


def _further(
    draft: RequestDraft, family: ClaudeFamily, *, has_temperature: bool, is_thinking: bool
) -> JsonObject:
    """The other options in Anthropic's form; ``top_p`` only if the model accepts sampling settings, and not with a temperature."""
    keys = {
        "top_p": "top_p",
        "service_tier": "service_tier",
        "metadata": "metadata",
        "parallel_tool_calls": "one",
    }
    further = further_options(draft, keys, "ANT-DOC")
    further.pop("one", None)  # already in the tool choice
    if "top_p" in further and (is_thinking or has_temperature or not family.temperature):
        draft.note("ANT-35", "no top_p can be set here: left it out")
        del further["top_p"]
    if further.get("service_tier", "auto") not in _TIERS:
        draft.note("ANT-DOC", f"the service tiers here are {', '.join(_TIERS)}: left it out")
        del further["service_tier"]
    if "metadata" in further:
        user = further.pop("metadata").get("user_id")
        if user is None:
            draft.note("ANT-DOC", "metadata is user_id alone here: left it out")
        else:
            further["metadata"] = {"user_id": user}
    return further


def _settings(draft: RequestDraft, family: ClaudeFamily, thinking: JsonObject | None) -> JsonObject:
    options = draft.options
    settings: JsonObject = {}
    is_thinking = thinking is not None and thinking["type"] != "disabled"
    if options.temperature is not None:
        if is_thinking or not family.temperature:
            draft.note("ANT-35", "no temperature can be set here: left it out")
        else:
            if options.temperature > 1:
                draft.note("ANT-DOC", "the temperature goes up to 1 here: lowered it")
            settings["temperature"] = min(options.temperature, 1.0)
    settings |= _further(
        draft, family, has_temperature="temperature" in settings, is_thinking=is_thinking
    )
    stops = [stop for stop in options.stop if stop.strip()]
    if len(stops) < len(options.stop):
        draft.note("ANT-DOC", "stop sequences cannot be blank: left those out")
    if stops:
        settings["stop_sequences"] = stops
    output: JsonObject = {}
    if effort := _effort(draft, family, thinking):
        output["effort"] = effort
    if options.schema is not None:
        schema = recall_projection(options.schema, OPENAI_STRICT).schema
        if _is_compilable(schema):
            output["format"] = {"type": "json_schema", "schema": schema}
    if output:
        settings["output_config"] = output
    return settings
