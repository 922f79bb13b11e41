"""Checks of the codecs and of the conformance kit against recorded exchanges.

Rules:
1. ``lost_words``: every string of a recorded answer's content is in the turn that is read from it.
2. ``alarms``: the kit's violations in a request that its provider accepted; a request that was refused for its body should
   have one.
3. ``changes``: a recorded request, read and written again for its provider, has the same messages up to ``normal_form``; where
   it differs, a note says so.
4. ``lost_behind``: the answer, sent back in the next request, still has every string that its provider accepts back.
"""

# Recorded JSON has any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec

from multi_llm_chat.data_limits import REPLY_LIMITS
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.history.values import Native, Text, Thinking, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.protocol._sse import SseDecoder
from multi_llm_chat.protocol.conversion import turns_from
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.rendered_request import Rendered
from multi_llm_chat.protocol.request_settings import read_request
from multi_llm_chat.testing.validators import PROVIDERS, Violation, validate
from tests.recordings.extractor import Recorded
from tests.recordings.normal_form import in_one_alphabet, normal_form

Json = dict[str, Any]

MESSAGES_KEYS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}

#: Servers without their own row, and the row that their requests use; None: not judged.
_ROWS = {"mantle": "openai", "vertex": "gemini", "other": None, "bedrock": None}
#: A request with one of these keys stores a part of its history on the server.
_STORED = frozenset({"previous_response_id", "conversation"})


def row_of(recorded: Recorded) -> str | None:
    """Return the provider row for this server; None if there is none, or if a part of the history is stored on the server."""
    row = _ROWS.get(recorded.provider, recorded.provider)
    if row is None or row not in ROWS or _is_stored(recorded.request):
        return None
    return row if ROWS[row].dialect == recorded.dialect else None


def _is_stored(request: Json) -> bool:
    """Return whether a part of the history is stored on the server: referenced by an id, or by its items' ids."""
    items = request.get("input")
    references = [
        item
        for item in (cast("list[Any]", items) if isinstance(items, list) else [])
        if isinstance(item, dict) and item.get("type") == "item_reference"
    ]
    return bool(request.keys() & _STORED or references)


def model_of(recorded: Recorded) -> str:
    """Return the model, from the body or the address."""
    found = re.search(r"models/([^:/?]+)|deployments/([^:/?]+)", recorded.url)
    named = recorded.request.get("model")
    if isinstance(named, str) and named:
        return named.removeprefix("models/")
    return (found[1] or found[2]) if found else "unknown"


def messages_of(recorded: Recorded) -> list[Any]:
    """Return the request's history as a list."""
    value = recorded.request.get(MESSAGES_KEYS[recorded.dialect])
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return cast("list[Any]", value) if isinstance(value, list) else [value]


# The kit.

_KIT = {"mantle": "openai", "vertex": "gemini"}
_OWN = {"openai": "openai_responses", "anthropic": "anthropic", "gemini": "gemini"}

#: Refusals whose cause is not visible in the body:
#: keys, lengths, model names, the model's output, unreachable addresses.
_NOT_THE_BODY = re.compile(
    rb"api[ _]key|incorrect key|context (length|window|size)|prompt (is )?too long|token count|too_many_prompt_tokens"
    rb"|does not exist|model_not_found|invalid model|invalid_model|not a valid model|supported api model names"
    rb"|model not exist|unexpected model name|timed out|could not finish the message|failed_generation|error while downloading|cannot fetch content|previous_response_not_found|billing|credit|test_error",
    re.IGNORECASE,
)


def is_judged(recorded: Recorded) -> bool:
    """Return whether the kit knows the server."""
    name = _KIT.get(recorded.provider, recorded.provider)
    return name in PROVIDERS and _OWN.get(name, "openai_chat") == recorded.dialect


def is_refused_for_its_body(recorded: Recorded) -> bool:
    """Return whether the body alone shows why the provider refused."""
    return recorded.status in (400, 422) and not _NOT_THE_BODY.search(recorded.reply)


def alarms(recorded: Recorded) -> list[Violation]:
    """Return the kit's violations of the request; status 200 is not a refusal."""
    name = _KIT.get(recorded.provider, recorded.provider)
    found = validate(name, recorded.request, model=model_of(recorded))
    return [violation for violation in found if violation.status != 200]


# Answers.

_NO_WORDS = frozenset(
    {"type", "object", "role", "status", "format", "finish_reason", "id", "index", "channel"}
)


#: Metadata of a message: probabilities, and how a gateway routed and priced it.
_ABOUT = frozenset({"logprobs", "provider_metadata"})


def lost_words(recorded: Recorded) -> list[str]:
    """Return the places of strings in the answer that are missing from the turn."""
    row = row_of(recorded) or {"openai_chat": "openai-chat", "openai_responses": "openai"}.get(
        recorded.dialect, recorded.dialect
    )
    turn = answer_of(recorded, row)
    kept = write_history([turn])[0] if turn.parts else {}
    return _missing(answer_items(recorded), kept)


def answer_of(recorded: Recorded, row: str) -> Turn:
    """Return the recorded answer as a turn."""
    exchange = Exchange([], row, model=model_of(recorded), stream=recorded.is_stream)
    exchange.begin(
        recorded.status, {} if recorded.is_stream else {"content-type": "application/json"}
    )
    try:
        exchange.receive(recorded.reply)
        exchange.end()
    except ProviderError as error:
        if isinstance(error.partial, Turn):
            return error.partial
    return exchange.turn


def answer_items(recorded: Recorded) -> list[Any]:
    """Return the content of an answer: messages, items, blocks or parts; for a stream its joined deltas."""
    frames = list(_frames(recorded))
    match recorded.dialect:
        case "openai_chat":
            return _chat_items(frames, recorded.is_stream)
        case "openai_responses":
            return _response_items(frames, recorded.is_stream)
        case "anthropic":
            return _blocks(frames, recorded.is_stream)
        case _:
            return _gemini_parts(frames)


def _frames(recorded: Recorded) -> Iterator[Json]:
    if not recorded.is_stream:
        chunks: Iterable[bytes] = [recorded.reply]
    else:
        parser = SseDecoder(REPLY_LIMITS)
        chunks = [data for _, data in [*parser.feed(recorded.reply), *parser.end()]]
    for chunk in chunks:
        try:
            value: Any = json.loads(chunk)
        except ValueError:
            continue
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield cast("Json", each)


#: Lists in a delta that the next delta does not continue.
_LISTS = ("annotations", "executed_tools")
#: Strings in a delta that the next delta does not continue.
_WHOLE = ("id", "type", "name", "role", "format", "signature")


def _first_choice(frame: Json) -> list[Json]:
    return [choice for choice in frame.get("choices") or [] if not choice.get("index")][:1]


#: The results of a server's search, next to the message (Perplexity).
_FOUND = ("citations", "search_results", "related_questions")


def _spoken(message: Json) -> Json:
    """Return the message without its reasoning, which is not kept for an aborted reply (STR-16)."""
    return {key: each for key, each in message.items() if not key.startswith("reasoning")}


def _chat_items(frames: list[Json], streamed: bool) -> list[Any]:
    if not streamed:
        return [
            _spoken(choice["message"]) if choice.get("error") else choice["message"]
            for frame in frames
            for choice in _first_choice(frame)
            if "message" in choice
        ] + [{key: frame[key]} for frame in frames for key in _FOUND if frame.get(key)]
    joined: dict[tuple[Any, ...], str] = {}
    lists: list[Json] = []
    is_cut = any("error" in frame for frame in frames)
    lists += [{key: frame[key]} for frame in frames[-1:] for key in _FOUND if frame.get(key)]
    for frame in frames:
        for choice in _first_choice(frame):
            delta: Json = choice.get("delta") or {}
            lists += [{key: delta[key]} for key in _LISTS if delta.get(key)]
            delta = {key: each for key, each in delta.items() if key not in {*_ABOUT, *_LISTS}}
            calls = {call.get("index", 0): call for call in delta.get("tool_calls") or []}
            for path, text in _leaves({**delta, "tool_calls": calls}):
                if str(path[-1]).startswith("reasoning") and is_cut:
                    continue  # STR-16: thinking of an aborted stream is not kept
                joined[path] = text if path[-1] in _WHOLE else joined.get(path, "") + text
    return lists + [
        {"audio": {str(path[-1]): text}} if path[0] == "audio" else {str(path[-1]): text}
        for path, text in joined.items()
    ]


def _response_items(frames: list[Json], streamed: bool) -> list[Any]:
    if not streamed:
        return [item for frame in frames for item in frame.get("output") or []]
    # If a recorder rewrote the finished item but not its deltas (a machine's paths), the deltas count.
    pieces: dict[Any, str] = {}
    for frame in frames:
        if frame.get("type") == "response.function_call_arguments.delta":
            place = frame.get("output_index")
            pieces[place] = pieces.get(place, "") + str(frame.get("delta") or "")
    done = [frame for frame in frames if frame.get("type") == "response.output_item.done"]
    return [
        frame["item"] | {"arguments": pieces[frame.get("output_index")]}
        if pieces.get(frame.get("output_index")) and "arguments" in frame["item"]
        else frame["item"]
        for frame in done
    ]


def _blocks(frames: list[Json], streamed: bool) -> list[Any]:
    if not streamed:
        return [block for frame in frames for block in frame.get("content") or []]
    blocks: dict[int, Json] = {}
    for frame in frames:
        delta = frame.get("delta") or {}
        if frame.get("type") == "content_block_start":
            blocks[frame["index"]] = dict(frame["content_block"])
        elif frame.get("type") == "content_block_delta" and frame.get("index") in blocks:
            block = blocks[frame["index"]]
            for key in ("text", "thinking", "signature"):
                if isinstance(delta.get(key), str):
                    block[key] = (block.get(key) or "") + delta[key]
            if "citation" in delta:
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            if isinstance(delta.get("partial_json"), str):
                block["arguments"] = block.get("arguments", "") + delta["partial_json"]
    return list(blocks.values())


def _gemini_parts(frames: list[Json]) -> list[Any]:
    parts: list[Any] = []
    for frame in frames:
        for candidate in (frame.get("candidates") or [])[:1]:
            parts += (candidate.get("content") or {}).get("parts") or []
    return parts


def _missing(items: list[Any], kept: object) -> list[str]:
    strings = {text for _, text in _leaves(kept)}
    whole = json.dumps(kept, ensure_ascii=False)
    values = {_canonical(value) for value in _objects(kept)}
    lost: list[str] = []
    for item in items:
        for path, text in _leaves(item):
            key = str(path[-1])
            if key == "phase" and not any(name == "text" for (*_, name), _ in _leaves(item)):
                continue  # of a message without content
            if key in _NO_WORDS or _ABOUT & {*path} or not text.strip():
                continue
            if text in strings or json.dumps(text, ensure_ascii=False)[1:-1] in whole:
                continue
            if key in ("arguments", "input") and _is_same_value(text, values, whole):
                continue
            if _in_other_alphabet(text, whole):
                continue
            kind = str(cast("Json", item).get("type") or "") if isinstance(item, dict) else ""
            lost.append(
                f"{kind}:{'.'.join(str(step) for step in path if not isinstance(step, int))}"
            )
    return lost


def _is_same_value(text: str, values: set[str], whole: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        plain = json.dumps(text, ensure_ascii=False)[1:-1].replace(" ", "")
        spaceless = whole.replace(" ", "")
        return plain in spaceless or _escaped_twice(text).replace(" ", "") in spaceless
    return value in (None, {}) or _canonical(value) in values


def _escaped_twice(text: str) -> str:
    """Return the text as escaped in JSON inside a JSON string."""
    return json.dumps(json.dumps(text, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1]


def _in_other_alphabet(text: str, whole: str) -> bool:
    return len(text) > 16 and in_one_alphabet(text) in whole


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _objects(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield cast("object", value)
        for each in cast("Json", value).values():
            yield from _objects(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _objects(each)


def _leaves(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, str):
        if value and path:
            yield path, value
    elif isinstance(value, dict):
        for key, each in cast("Json", value).items():
            yield from _leaves(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _leaves(each, (*path, index))


# Requests.


class Difference(msgspec.Struct, frozen=True):
    """The place where a rewritten request differs, and whether a note says so."""

    place: str
    was: Any
    now: Any
    notes: tuple[str, ...]


def changes(recorded: Recorded) -> Difference | None:
    """Return the first difference between the request's messages and the ones that we write for them."""
    row = row_of(recorded)
    assert row is not None
    rendered = write_again(recorded, row)
    was = normal_form(recorded.dialect, messages_of(recorded))
    now = normal_form(recorded.dialect, rendered.body[MESSAGES_KEYS[recorded.dialect]])
    found = _difference(was, now)
    if found is None:
        return None
    return Difference(*found, tuple(note.rule for note in rendered.notes))


def write_again(recorded: Recorded, row: str, *more: Turn) -> Rendered:
    """Write the request's history again for the same provider and model."""
    model = model_of(recorded)
    turns = turns_from(messages_of(recorded), recorded.dialect, provider=row, model=model)
    return Exchange(
        read_request(
            [*turns, *more],
            row,
            model=model,
            tools=_functions(recorded),
            options={"thinking": _thinking(recorded), "extra": _extra(recorded)},
        )
    ).rendered


def _functions(recorded: Recorded) -> list[Any]:
    found: list[Any] = []
    for tool in recorded.request.get("tools") or []:
        if not isinstance(tool, dict):
            continue
        tool = cast("Json", tool)
        if recorded.dialect == "gemini":
            listed = tool.get("functionDeclarations") or tool.get("function_declarations") or []
            found += [{"name": each["name"], "inputSchema": {"type": "object"}} for each in listed]
        elif recorded.dialect == "anthropic":
            if "input_schema" in tool:
                found.append({"name": tool["name"], "inputSchema": tool["input_schema"]})
        elif tool.get("type") == "function":
            found.append(tool)
    return found


def _extra(recorded: Recorded) -> Json:
    """Return the tools that the provider runs itself."""
    tools = [each for each in recorded.request.get("tools") or [] if isinstance(each, dict)]
    if recorded.dialect == "anthropic" and any("input_schema" not in each for each in tools):
        return {"tools": tools}
    return {}


def _thinking(recorded: Recorded) -> int | bool | str | None:
    body = recorded.request
    if recorded.dialect == "anthropic":
        asked = body.get("thinking") or {}
        kinds = {"enabled": asked.get("budget_tokens") or True, "adaptive": True, "disabled": False}
        return kinds.get(str(asked.get("type")))
    if recorded.dialect == "openai_chat":
        asked = body.get("thinking")
        if isinstance(asked, dict):
            return cast("Json", asked).get("type") != "disabled"
        return body.get("reasoning_effort")
    return None


def _difference(was: Any, now: Any, place: str = "") -> tuple[str, Any, Any] | None:
    if was == now:
        return None
    if isinstance(was, dict) and isinstance(now, dict):
        before, after = cast("Json", was), cast("Json", now)
        keys = {**before, **after}
        key = next(key for key in keys if before.get(key, _GONE) != after.get(key, _GONE))
        return _difference(before.get(key, _GONE), after.get(key, _GONE), f"{place}.{key}")
    if isinstance(was, list) and isinstance(now, list):
        pairs = zip_longest(cast("list[Any]", was), cast("list[Any]", now), fillvalue=_GONE)
        first = next(each for each in pairs if each[0] != each[1])
        return _difference(*first, f"{place}[]")
    return place, was, now


_GONE = "(absent)"


# Continuations.

#: Keys that a provider does not accept back: its own labels, and content that our request has in another place.
_NOT_SENT = frozenset({"call_id", "tool_call_id", "name", "phase"})


#: Answers that the token limit cut off: their unfinished call and their thinking are not kept (STR-14, STR-16).
_CUT = re.compile(rb'"(?:length|max_tokens|max_output_tokens|MAX_TOKENS|model_length)"')


_NOT_OPENAIS = frozenset({"annotations", "reasoning_content"})


def lost_behind(recorded: Recorded) -> list[str]:
    """Return the places of strings in the answer that are missing from the next request to the same model."""
    row = row_of(recorded)
    assert row is not None
    turn = answer_of(recorded, row)
    if _says_nothing(turn) or _CUT.search(recorded.reply):
        return []
    last = turn.parts[-1]
    is_paused = isinstance(last, Native) and last.kind == "server_tool_use"  # ANT-47
    more = () if is_paused else (Turn("user", (Text("Go on."),)),)
    sent = write_again(recorded, row, turn, *more).body
    lost = _missing([_sendable(recorded, item) for item in answer_items(recorded)], sent)
    return [place for place in lost if re.split(r"[.:]", place)[-1] not in _NOT_SENT]


def _says_nothing(turn: Turn) -> bool:
    """Return whether the answer is blank: such a turn is left out, with its thinking (ANT-07)."""
    said = [part for part in turn.parts if not isinstance(part, Thinking)]
    return all(isinstance(part, Text) and not part.content.strip() for part in said)


def _sendable(recorded: Recorded, item: Any) -> Any:
    """Return the item without the keys that its provider does not accept back."""
    if not isinstance(item, dict):
        return item
    item = cast("Json", item)
    if item.get("type") == "reasoning" and not item.get("encrypted_content"):
        return {}  # RSP-03, RSP-06: without its encrypted form it is not sent
    if recorded.provider == "openai-chat":
        # Audio is sent back by its id; the published message has no field for reasoning.
        taken = {key: each for key, each in item.items() if key not in _NOT_OPENAIS}
        sound = taken.get("audio")
        return taken | {"audio": {"id": sound.get("id")}} if isinstance(sound, dict) else taken
    if recorded.dialect == "gemini" and "inlineData" in item:
        return {}  # a model's audio is replaced by a description
    return item
