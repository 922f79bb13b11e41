"""Write the messages of a request for Anthropic Messages.

Rules:
1. Messages alternate between user and assistant; results are at the beginning of the user message after their calls.
2. Thinking blocks are written exactly as received, all of them or none. If a model binds thinking to what
   precedes it and one block cannot be written, none before it is written either (ANT-29).
3. Native blocks are written as received. A server tool's call or result without its partner is written as text
   (ANT-24), and so is a block that names a tool which the request does not declare (ANT-46, ANT-48).
4. The beginning of an answer that ends the request has no trailing whitespace (ANT-09), unless Anthropic paused it (ANT-47).
5. A later system turn becomes a system message if the model accepts one there, between a user turn and a model turn;
   otherwise it becomes user text (ANT-20, ANT-45).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from multi_llm_chat.history.citations import cited_text
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.native_text import native_text
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
from multi_llm_chat.protocol.anthropic.bound_prefix import (
    find_binding,
    head_hash,
    last_cut,
    prefix_hash,
)
from multi_llm_chat.protocol.anthropic.native_blocks import (
    SENT,
    SERVER_CALLS,
    ServerPairs,
    is_server_block,
    is_server_result,
    may_stay_open,
    referenced_tool,
)
from multi_llm_chat.protocol.anthropic.read import read_result_content
from multi_llm_chat.protocol.attachments import (
    PICTURES,
    media_label,
    read_text_file,
    settle_media,
    short_label,
)
from multi_llm_chat.protocol.capabilities import ClaudeFamily
from multi_llm_chat.protocol.request_draft import CutError, texts_in_turn
from multi_llm_chat.repair.framing import CONTINUE
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.repair.sorting import EMPTY_RESULT

if TYPE_CHECKING:
    from multi_llm_chat.protocol.request_draft import RequestDraft

#: The native blocks that only one role may have; any other kind stays in its place.
_USERS_BLOCKS = frozenset({"search_result", "document", "image", "tool_reference"})
_MODELS_BLOCKS = frozenset({"compaction", *SERVER_CALLS})

#: The blocks that a system message may contain besides text (ANT-46).
_SYSTEM_BLOCKS = frozenset({"tool_addition", "tool_removal"})

_THOUGHT = frozenset({"thinking", "redacted_thinking"})
#: The types of blocks with the model's text and thinking, in contrast to its calls.
_SAID = frozenset({"text", *_THOUGHT})
_SYSTEM_MARK = "[system] "

#: Where the state of a conversation has the calls of server tools, see ``ServerPairs``.
_CALL_STATE = ("server_calls", "waiting_calls", "left_calls")


class MessageWriter:
    """Writes the turns of one request."""

    def __init__(self, draft: "RequestDraft", family: ClaudeFamily, *, replays: bool) -> None:
        self._draft = draft
        self._family = family
        self._replays = replays
        self._from = 0  # the first turn whose thinking is written
        #: The place where each turn begins: the index of the message, and the number of its blocks before the turn.
        self._places: dict[int, tuple[int, int]] = {}
        self._declared = _declared_tools(draft)
        #: Native blocks that are written as text, by place, with the reason.
        self._described: dict[tuple[int, int], str] = {}
        #: Server calls that are written, those of them without a result, and those that can have none any more.
        self._server_calls: dict[str, list[str]] = {
            key: draft.state[key] for key in _CALL_STATE if key in draft.state
        }
        self._skipped = 0  # the number of leading system turns
        self._closed = False  # whether a user turn was put at the end
        self._users: set[int] = set()  # system turns that are written as user text
        self._before = ""  # the hash of what precedes the messages, if thinking is bound to it
        #: The number of messages before the draft's tail.
        self.stable = 0
        #: What the thinking of the answer to this request is bound to; empty if the model does not bind thinking.
        self.binding: JsonObject = {}
        #: Whether any block has Anthropic-specific fields, such as cache marks.
        self.decorated = False

    def write(
        self, turns: Sequence[Turn], sources: Sequence[int | None], body: JsonObject
    ) -> list[JsonObject]:
        """Write the messages; thinking is bound to them and to ``body``, which has the tools and the system prompt."""
        self._skipped = len(self._draft.turns) - len(turns)
        has_natives = not self._draft.is_plain and any(
            type(part) is Native for turn in turns for part in turn.parts
        )
        if has_natives or self._server_calls.keys() > {"server_calls"}:
            self.decorated = True
            self._judge_natives(turns, sources)
        if not (self._replays and self._family.binds_thinking):
            return self._messages(turns, sources)
        if self._draft.continues:
            return self._continued(turns, sources, body)
        self._before = head_hash(body)
        self._from = last_cut(turns) + 1
        bound = find_binding(turns)
        if bound is None:
            return self._messages(turns, sources)
        at, binding = bound
        kept_from = binding.get("from")
        self._from = max(self._from, kept_from if isinstance(kept_from, int) else 0)
        noted = len(self._draft.notes)
        messages = self._messages(turns, sources)
        if prefix_hash(self._before, self._preceding(messages, at)) == binding.get("prefix"):
            return messages
        # The messages before the thinking have changed: none of the thinking is valid any more.
        self._from = at + 1
        del self._draft.notes[noted:]
        self._draft.notes.append(
            Note(
                "ANT-28", sources[at], "left out thinking from before a change of what precedes it"
            )
        )
        return self._messages(turns, sources)

    def _continued(
        self, turns: Sequence[Turn], sources: Sequence[int | None], body: JsonObject
    ) -> list[JsonObject]:
        """The messages after those of an earlier request, which replayed the thinking before them.

        Raises:
            CutError: Thinking that was sent, or that of a later answer, is not valid after what precedes it now.
        """
        state = self._draft.state
        if state.get("head") != head_hash(body):
            raise CutError("ANT-28", "the tools changed, and thinking is bound to them")
        if last_cut(turns[self._draft.sent_before :]) >= 0:
            raise CutError("ANT-29", "a turn ends with thinking that led to nothing")
        self._before = as_text(state["stable" if self._draft.sent_before else "prefix"])
        self._from = state["tail_from"] if self._draft.sent_before else 0
        messages = self._messages(turns, sources)
        bound = find_binding(turns[self._draft.sent_before :])
        if bound is not None:
            at = bound[0] + self._draft.sent_before
            prefix = prefix_hash(self._before, self._preceding(messages, at))
            if prefix != bound[1].get("prefix"):
                raise CutError("ANT-28", "an answer thought behind another prefix")
        return messages

    def _preceding(self, messages: Sequence[JsonObject], at: int) -> list[JsonObject]:
        """The messages before this turn, including the blocks before it in its own message."""
        place, blocks = self._places[at]
        before = list(messages[:place])
        if blocks:
            before.append(messages[place] | {"content": messages[place]["content"][:blocks]})
        return before

    def state(self, body: JsonObject) -> JsonObject:
        """The data for the encoder of the next request; also sets ``stable`` and ``binding``."""
        tail = self._draft.tail - self._skipped
        place, blocks = self._places.get(tail, (0, 0))
        self.stable = 0 if blocks else place
        state: JsonObject = {"replays": self._replays}
        if not self._draft.tools and "tools" in body:
            state["stubs"] = [as_text(tool.get("name")) for tool in body["tools"]]
        if self._replays and self._family.binds_thinking:
            stable = prefix_hash(self._before, body["messages"][: self.stable])
            prefix = prefix_hash(stable, body["messages"][self.stable :])
            kept_from = self._draft.state.get("from", 0) if self._draft.continues else self._from
            self.binding = {"prefix": prefix, "from": kept_from}
            state |= {"head": head_hash(body), "stable": stable} | self.binding
            state["tail_from"] = max(0, self._from - tail)
        return state | self._server_calls

    def _messages(self, turns: Sequence[Turn], sources: Sequence[int | None]) -> list[JsonObject]:
        tail = self._draft.tail - self._skipped
        binds = self._replays and self._family.binds_thinking
        said_in_turn = texts_in_turn(self._draft, turns)
        if said_in_turn is None:
            messages = self._written(turns, sources, tail, binds=binds)
        else:
            places = range(len(turns))
            self._places = {at: (at, 0) for at in (places if binds else (tail,)) if at in places}
            messages: list[JsonObject] = [
                {"role": "user" if is_user else "assistant", "content": text}
                for is_user, text in said_in_turn
            ]
        if messages and messages[-1]["role"] == "assistant":
            self._settle_end(messages)
        return messages

    def _written(
        self, turns: Sequence[Turn], sources: Sequence[int | None], tail: int, *, binds: bool
    ) -> list[JsonObject]:
        messages: list[JsonObject] = []
        spoke = ""
        for at, turn in enumerate(turns):
            if binds or at == tail:  # only the places that are used later
                self._places[at] = len(messages), 0
            role = turn.role
            if role == "user" or role == "tool":
                role = "user"
            elif role != "system":
                role = "assistant"
            else:
                if self._may_say_system(messages, turns, at):
                    messages.append({"role": "system", "content": self._content(turn, "user", at)})
                    spoke = "system"
                    continue
                self._draft.notes.append(
                    Note("ANT-20", sources[at], "wrote a system turn in mid-conversation as text")
                )
                self._users.add(id(turn))
                turn, role = _as_users(turn), "user"
            parts = turn.parts
            only = parts[0] if len(parts) == 1 else None
            if type(only) is Text and only.extras is None:  # the form of most turns
                said = only.content
            else:
                said = None if self.decorated else _usual_blocks(parts)
                if said is None:
                    said = self._content(turn, role, at)
            if not said:
                continue
            if role == spoke:
                last = messages[-1]
                last["content"] = blocks = as_blocks(last["content"])
                self._places[at] = len(messages) - 1, len(blocks)
                blocks += as_blocks(said)
            else:
                spoke = role
                messages.append({"role": role, "content": said})
        return messages

    def _settle_end(self, messages: list[JsonObject]) -> None:
        """Change a model's turn at the end of the request to a form that Anthropic accepts."""
        last = messages[-1]
        kind = "text" if isinstance(last["content"], str) else last["content"][-1].get("type")
        target = self._draft.target
        if target is None or kind in target.pauses:
            return
        if target.ends != "any":  # the block that paused the turn was written as text
            self._draft.note("ANT-08", "put a user turn at the end")
            messages.append({"role": "user", "content": CONTINUE})
            if not self._closed:
                self._closed = True
                self._draft.turns = [*self._draft.turns, Turn("user", (Text(CONTINUE),))]
                self._draft.sources = [*self._draft.sources, None]
        elif isinstance(last["content"], str):
            last["content"] = self._without_space(last["content"])
        elif kind == "text":
            blocks = last["content"]
            blocks[-1] = blocks[-1] | {"text": self._without_space(blocks[-1]["text"])}

    def _without_space(self, text: str) -> str:
        stripped = text.rstrip()
        if len(stripped) < len(text):
            self._draft.note("ANT-09", "left out the white space at the end of the last turn")
        return stripped

    def loss(self, part: Media | Thinking, turn: Turn) -> tuple[str, str] | None:
        """Why media or thinking cannot be sent as it is; None if it can."""
        if isinstance(part, Media):
            is_users = turn.role in ("user", "tool") or id(turn) in self._users
            is_sent = is_users and self._media_block(part)["type"] != "text"
            return None if is_sent else ("ANT-DOC", f"written as text: {short_label(part)}")
        if not self._replays:
            return "ANT-14", "left out thinking: it is off in this request"
        if all(part is not other for other in _led(turn.parts)):
            return "ANT-12", "left out thinking that led to nothing"
        signed = any(True for _ in thinking_block(part))
        return None if signed else ("ANT-13", "left out thinking that is not signed")

    def _content(self, turn: Turn, role: str, at: int) -> str | list[JsonObject]:
        """The content of a message; a string if it is a single text."""
        parts = turn.parts
        if parts and type(parts[-1]) is Thinking:
            parts = _led(parts)
        blocks = self._blocks(parts, role, at)
        if role != "user" and _speaks_behind_calls(blocks):
            self._draft.notes.append(
                Note("ANT-02", self._draft.sources[at], "put words before the calls of a turn")
            )
            blocks = _calls_last(blocks)
        if len(blocks) == 1 and blocks[0]["type"] == "text" and len(blocks[0]) == 2:
            return blocks[0]["text"]
        return blocks

    def _blocks(self, parts: tuple[Part, ...], role: str, at: int) -> list[JsonObject]:
        blocks: list[JsonObject] = []
        replays = self._replays and at >= self._from
        # The most frequent types first: there are thousands of parts.
        for position, part in enumerate(parts):
            if type(part) is Text:
                if part.extras is None:
                    blocks.append({"type": "text", "text": part.content})
                else:
                    blocks.append(self._extended_text(part))
            elif type(part) is ToolCall:
                block: JsonObject = {
                    "type": "tool_use",
                    "id": part.tool_call_id,
                    "name": part.name,
                    "input": part.arguments,
                }
                blocks.append(block if part.extras is None else block | self._call_extras(part))
            elif type(part) is ToolResult:
                blocks.append(self._result(part))
            elif type(part) is Media:
                # Only a user message may have images and documents.
                label = {"type": "text", "text": media_label(part)}
                blocks.append(self._media_block(part) if role == "user" else label)
            elif type(part) is Native:
                words = {"type": "text", "text": native_text(part)}
                blocks.append(words if (at, position) in self._described else part.raw)
            elif type(part) is Thinking and replays:
                blocks.extend(thinking_block(part))
        if self.decorated and not any(map(is_server_block, blocks)):
            return self._without_blanks(blocks, at)
        return blocks

    def _without_blanks(self, blocks: list[JsonObject], at: int) -> list[JsonObject]:
        """The blocks without blank texts, which are accepted only next to blocks of server tools (ANT-06), and without thinking at the end."""
        kept = [block for block in blocks if not _is_blank(block)]
        while kept and kept[-1]["type"] in _THOUGHT:
            del kept[-1]
            message = "left out thinking that led to nothing"
            self._draft.notes.append(Note("ANT-12", self._draft.sources[at], message))
        return kept

    def _extras(self, part: Text | ToolCall | ToolResult | Media) -> JsonObject:
        fields = self._draft.extra_fields(part.extras)
        self.decorated = self.decorated or bool(fields)
        return fields

    def _extended_text(self, part: Text) -> JsonObject:
        """A text with its Anthropic-specific fields; citations of another provider become part of the text."""
        fields = self._extras(part)
        if not fields:
            return {"type": "text", "text": cited_text(part)}
        block = {"type": "text", "text": part.content} | fields
        cited = as_list(fields.get("citations"))
        if cited:
            # A reply has the file id in a citation; a request must not have it.
            known = (as_object(each) or {} for each in cited)
            block["citations"] = [
                {key: value for key, value in each.items() if key != "file_id"} for each in known
            ]
        return block

    def _call_extras(self, part: ToolCall) -> JsonObject:
        fields = self._extras(part)
        server_call = as_text((as_object(fields.get("caller")) or {}).get("tool_id"))
        if server_call and server_call not in self._server_calls.get("server_calls", ()):
            return {key: value for key, value in fields.items() if key != "caller"}
        return fields

    def _media_block(self, part: Media) -> JsonObject:
        fields = {} if part.extras is None else self._extras(part)
        if "source" in fields:  # a file that Anthropic stores
            return {"type": "document"} | fields
        block = _media_block(part)
        return block if block["type"] == "text" else block | fields

    def _result(self, part: ToolResult) -> JsonObject:
        content = part.content
        text, media = (content, ()) if type(content) is str else split_result(content)
        block: JsonObject = {
            "type": "tool_result",
            "tool_use_id": part.tool_call_id,
            "content": text,
        }
        if media:
            blocks = [self._media_block(each) for each in media]
            labels = [each["text"] for each in blocks if "text" in each]
            text = "\n".join([text, *labels] if text.strip() else labels)
            carried = [each for each in blocks if "text" not in each]
            words = [{"type": "text", "text": text}] if text else []
            block["content"] = [*words, *carried] if carried else text
            if carried and _has_text_behind_media(part.content):
                self._draft.note("ANT-DOC", "put the texts of a tool result before its media")
        if part.is_error:
            block["is_error"] = True
        if part.extras is None:
            return block
        return block | self._result_extras(part)

    def _result_extras(self, part: ToolResult) -> JsonObject:
        """The result's own fields; its original content only if it was not edited and its tools are declared."""
        fields = self._extras(part)
        if "content" not in fields:
            return fields
        came, _ = read_result_content(fields["content"])
        inner = (as_object(each) or {} for each in as_list(fields["content"]) or ())
        names = [name for each in inner if (name := referenced_tool(each))]
        if part.content in (came, EMPTY_RESULT) and self._declared.issuperset(names):
            return fields
        return {key: value for key, value in fields.items() if key != "content"}

    # Native blocks.

    def _judge_natives(self, turns: Sequence[Turn], sources: Sequence[int | None]) -> None:
        """Find the native blocks that are not allowed in their places."""
        # Turns of the earlier request that are written again are not counted as sent.
        again = turns[: max(0, self._draft.sent_before - self._skipped)]
        natives = [part for turn in again for part in turn.parts if type(part) is Native]
        made = {as_text(part.raw.get("id")) for part in natives}
        known = (self._server_calls.get(key, ()) for key in _CALL_STATE)
        pairs = ServerPairs(*([each for each in calls if each not in made] for calls in known))
        described = self._described
        for at, turn in enumerate(turns):
            if turn.role == "user":
                pairs.interrupt()
            for position, part in enumerate(turn.parts):
                if type(part) is Native:
                    why = self._misplaced(part, turn) or pairs.add(part, (at, position))
                    if why:
                        described[at, position] = why
        for identifier, place in pairs.open_calls():
            if place == SENT:
                raise CutError("ANT-24", "a call of a server tool has no result")
            if not may_stay_open(turns, place[0]):
                described[place] = "a call of a server tool without its result"
                pairs.close(identifier)
        calls = dict(zip(_CALL_STATE, (sorted(pairs.ids), pairs.waiting, pairs.left), strict=True))
        self._server_calls = {key: some for key, some in calls.items() if some}
        for (at, _), why in sorted(described.items()):
            self._draft.notes.append(Note("ANT-24", sources[at], f"wrote as text: {why}"))

    def _misplaced(self, part: Native, turn: Turn) -> str:
        kind = as_text(part.raw.get("type"))
        is_model = turn.role not in ("user", "tool", "system")
        if not kind:
            return f"an item that is no block: {part.kind}"
        if kind in _USERS_BLOCKS and turn.role != "user":
            return f"a block that only a user message may hold: {kind}"
        if (kind in _MODELS_BLOCKS or is_server_result(kind)) and not is_model:
            return f"a block that only the model's message may hold: {kind}"
        name = referenced_tool(part.raw)
        if name and name not in self._declared:
            return f"a change of a tool that is not declared: {name}"
        advises = kind == "advisor_tool_result" or part.raw.get("name") == "advisor"
        if advises and "advisor" not in self._declared:
            return "a step of the advisor, which is not declared"
        return ""

    # Turns.

    def _may_say_system(
        self, messages: Sequence[JsonObject], turns: Sequence[Turn], at: int
    ) -> bool:
        if not self._family.later_system or not messages or messages[-1]["role"] == "assistant":
            return False
        for turn in turns[at:]:
            if turn.role != "system":
                return turn.role not in ("user", "tool")
            if not all(map(_is_system_part, turn.parts)):
                return False  # this turn, or one behind it, is written as the user's
        return True


def _is_system_part(part: Part) -> bool:
    return type(part) is Text or (type(part) is Native and part.kind in _SYSTEM_BLOCKS)


def _usual_blocks(parts: Sequence[Part]) -> list[JsonObject] | None:
    """The fast path for texts before calls, calls, and results with text; None if there is any other part or field."""
    blocks: list[JsonObject] = []
    has_called = False
    for part in parts:
        if type(part) is ToolCall and part.extras is None:
            has_called = True
            name, identifier = part.name, part.tool_call_id
            call = {"type": "tool_use", "id": identifier, "name": name, "input": part.arguments}
            blocks.append(call)
        elif type(part) is Text and part.extras is None and not has_called:
            blocks.append({"type": "text", "text": part.content})
        elif type(part) is ToolResult and part.extras is None and not part.is_error:
            identifier, content = part.tool_call_id, part.content
            if type(content) is not str:
                return None
            blocks.append({"type": "tool_result", "tool_use_id": identifier, "content": content})
        else:
            return None
    return blocks


def _declared_tools(draft: "RequestDraft") -> frozenset[str]:
    given = (as_object(tool) or {} for tool in as_list(draft.options.extra.get("tools")) or ())
    names = {as_text(tool.get("name")) for tool in given}
    return frozenset(names | {tool.name for tool in draft.tools})


def _as_users(turn: Turn) -> Turn:
    parts = [
        Text(_SYSTEM_MARK + part.content)
        if isinstance(part, Text)
        else Text(_SYSTEM_MARK + native_text(part))
        if isinstance(part, Native)
        else part
        for part in turn.parts
    ]
    return Turn("user", tuple(parts))


def as_blocks(said: str | list[JsonObject]) -> list[JsonObject]:
    """A message's content as a list."""
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _led(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without thinking at the end: a message may not end with thinking."""
    length = len(parts)
    while length and type(parts[length - 1]) is Thinking:
        length -= 1
    return parts[:length]


def _speaks_behind_calls(blocks: list[JsonObject]) -> bool:
    """Whether text follows a call: Claude then treats the call as one without a result (ANT-02).

    Recorded: anomalyco/opencode, anthropic-messages/rejects-malformed-assistant-tool-order-without-patch.json.
    """
    has_called = False
    for block in blocks:
        if block["type"] == "tool_use":
            has_called = True
        elif has_called and block["type"] == "text":
            return True
    return False


def _calls_last(blocks: list[JsonObject]) -> list[JsonObject]:
    """The blocks with text after a call moved before it, and so is thinking, because no message may end with it (ANT-12)."""
    first = next(at for at, block in enumerate(blocks) if block["type"] == "tool_use")
    behind = blocks[first:]
    said = [block for block in behind if block["type"] in _SAID]
    return [*blocks[:first], *said, *(block for block in behind if block["type"] not in _SAID)]


def _is_blank(block: JsonObject) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def thinking_block(part: Thinking) -> Iterator[JsonObject]:
    """The thinking block as received; nothing if it has neither a signature nor redacted data, which Anthropic requires."""
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
        if media.mime == "text/plain" and (text := read_text_file(media)):
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "source": source} | _title(media)
    elif media is not None and media.url is not None and media.url.startswith("https://"):
        kinds = {"application/pdf": "document"} | dict.fromkeys(PICTURES, "image")
        if media.mime in kinds:
            return {"type": kinds[media.mime], "source": {"type": "url", "url": media.url}}
    return {"type": "text", "text": media_label(part)}


def _title(media: Media) -> JsonObject:
    return {"title": media.name} if media.name else {}


def _has_text_behind_media(content: object) -> bool:
    kinds = [(as_object(each) or {}).get("type") for each in as_list(content) or ()]
    return "media" in kinds and "text" in kinds[kinds.index("media") :]
