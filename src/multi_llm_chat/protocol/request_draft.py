"""The input and output of the encoders (``RequestDraft``, ``Encoded``), and functions that all dialects share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import eq
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    Extras,
    JsonObject,
    Media,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.attachments import (
    PICTURES,
    media_label,
    mislabelled,
    settle_media,
    short_label,
)
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.request import Options, ToolDefinition

__all__ = [
    "LONGEST_TEXT",
    "PICTURES",
    "Encoded",
    "Loss",
    "RequestDraft",
    "arguments_text",
    "choose_tool",
    "cut_long_texts",
    "effort_of",
    "join_labels",
    "limit_tools",
    "media_label",
    "plain_text",
    "settle_media",
    "split_system",
    "system_text",
    "without_nothing",
    "written_as_text",
]

#: The rule that forbids to send something as it is, and what was done instead.
Loss: TypeAlias = tuple[str, str]


class RequestDraft(Struct):
    """One request before it is written in a dialect.

    ``turns`` are repaired and framed, ``sources`` are their indexes in the history; ``tools`` and ``tool_choice`` have the
    names that are sent. Encoders add to ``notes`` what they leave out or change, and
    to ``arguments`` the argument keys they rename, by tool. ``is_plain``: the turns contain only texts, calls and results
    without attachments; ``characters`` is their number of characters, if it is known. ``texts``: the contents of the turns
    if it is known that each turn is a single text without extras, and has no meta.

    In a request that continues an earlier one (``continues``), ``turns`` are only those after the messages that stay;
    the first ``sent_before`` of them were already sent, in messages that may change. ``state`` is the data that the
    encoder of the earlier request has left, ``system_texts`` are the texts of its leading system turns. ``tail`` is the index
    at which the model's last passage begins: the next request may write the turns from there on again.

    ``caching`` is what the provider is asked to cache. ``deferred`` are the tools that a message has added (ANT-46).
    """

    turns: Sequence[Turn]
    model: str
    sources: Sequence[int | None] = ()
    system_prompt: str = ""
    tools: Sequence[ToolDefinition] = ()
    tool_choice: str | None = None
    options: Options = Options()
    stream: bool = False
    target: Target | None = None
    is_plain: bool = False
    characters: int | None = None
    texts: Sequence[str] | None = None
    continues: bool = False
    sent_before: int = 0
    tail: int = 0
    system_texts: Sequence[str] = ()
    state: JsonObject = {}
    deferred: Sequence[str] = ()
    caching: "Caching" = field(default_factory=lambda: NO_CACHING)
    notes: list[Note] = field(default_factory=list[Note])
    arguments: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def extra_fields(self, extras: Extras | None) -> JsonObject:
        """The fields of a part's extras that are sent back to the receiver: all of them if it issued them, else none."""
        if extras is None or self.target is None or not self.target.issued(extras.origin):
            return {}
        return extras.fields

    def note(self, rule: str, message: str) -> None:
        """Record a change that concerns the request as a whole."""
        self.notes.append(Note(rule, None, message))

    def note_losses(self, loss: Callable[[Media | Thinking, Turn], Loss | None]) -> None:
        """Record which media and thoughts cannot be sent as they are; ``loss`` decides for each."""
        if self.is_plain:
            return
        turns = zip(self.sources, self.turns, strict=True)
        for source, turn in islice(turns, self.sent_before, None):
            for part in turn.parts:
                kind = type(part)
                if kind is Text or kind is ToolCall:
                    continue
                for carried in _carried(part):
                    lost = loss(carried, turn)
                    if lost is not None:
                        self.notes.append(Note(lost[0], source, lost[1]))
                    elif isinstance(carried, Media) and (found := mislabelled(carried)):
                        said = f"sent {short_label(carried)} as {found}: its bytes show that"
                        self.notes.append(Note("OAI-26", source, said))


class Caching(Struct, frozen=True):
    """What the provider is asked to cache: the request if ``wanted``, for an hour if ``long``, under the ``key`` of its conversation.

    ``expected``: this request or a later one of the conversation will be cached, so the request is written in the form that
    cached ones have.
    """

    wanted: bool = False
    long: bool = False
    key: str = ""
    expected: bool = False


NO_CACHING = Caching()


class Encoded(Struct, frozen=True):
    """A request in a dialect: the JSON body, the path below the base URL, and headers that the body needs.

    ``binding`` is what the answer's thinking is bound to; it is stored in the ``meta`` of the answer's turn.
    ``stable`` is the number of messages before the draft's ``tail``; if a dialect leaves it at None,
    the next request writes all turns again. ``last_message`` is the last message without our cache marks, if
    it differs from the one in the body. ``state`` is data for the encoder of the next request.
    """

    body: JsonObject
    path: str
    headers: dict[str, str] = {}
    binding: JsonObject = {}
    stable: int | None = None
    last_message: JsonObject | None = None
    system_texts: tuple[str, ...] = ()
    state: JsonObject = {}


class CutError(Exception):
    """The request cannot begin with the messages of an earlier one; has the rule and the reason."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


def _carried(part: Part) -> Sequence[Media | Thinking]:
    if isinstance(part, ToolResult):
        return () if isinstance(part.content, str) else split_result(part.content)[1]
    return (part,) if isinstance(part, (Media, Thinking)) else ()


def join_labels(text: str, blocks: Iterable[JsonObject]) -> tuple[str, list[JsonObject]]:
    """Return a result's text with the labels that replace media, and the blocks of the other media.

    Such a result is read back in the same form: rendered again, it does not change.
    """
    lines = [text] if text.strip() else []
    carried: list[JsonObject] = []
    for block in blocks:
        label = block.get("text")
        if label is None:
            carried.append(block)
        else:
            lines.append(label)
    return "\n".join(lines), carried


def written_as_text(media: Media) -> str:
    """The note for media that the request contains as text only."""
    return f"written as text: {short_label(media)}"


def arguments_text(call: ToolCall) -> str:
    """The JSON text of a call's arguments, as the model wrote it if that is known."""
    return call.raw_arguments or compact_json(call.arguments)


def system_text(draft: RequestDraft) -> tuple[list[str], Sequence[Turn]]:
    """The texts of the leading system turns, and the turns that follow them."""
    if draft.continues:  # the leading system turns were already sent
        return list(draft.system_texts), draft.turns
    texts, turns = split_system(draft.turns)
    return [*draft.system_texts, *texts], turns


def split_system(turns: Sequence[Turn]) -> tuple[list[str], Sequence[Turn]]:
    """The texts of the leading system turns, and the turns that follow them."""
    texts: list[str] = []
    for at, turn in enumerate(turns):
        if turn.role != "system":
            return texts, turns[at:]
        texts.extend(plain_text(part) for part in turn.parts if isinstance(part, (Text, Media)))
    return texts, ()


def texts_in_turn(draft: RequestDraft, turns: Sequence[Turn]) -> Iterable[tuple[bool, str]] | None:
    """Whether each of the draft's last turns is the user's, and its text.

    None if it is not known that each turn is a single text, if a text is empty, or if user and model do not speak in turn.
    """
    if draft.texts is None:
        return None
    texts = draft.texts[len(draft.turns) - len(turns) :]
    roles = [turn.role for turn in turns]
    if "system" in roles or not all(texts):
        return None
    are_users = [role == "user" for role in roles]
    if any(map(eq, are_users, islice(are_users, 1, None))):
        return None
    return zip(are_users, texts, strict=True)


def plain_text(part: Text | Media) -> str:
    """The part as text."""
    return part.content if isinstance(part, Text) else media_label(part)


def choose_tool(draft: RequestDraft, rule: str) -> str | None:
    """The requested tool choice; ``auto`` if it names a tool that is not offered."""
    choice = draft.tool_choice
    if choice is None or not draft.tools:
        return None
    if choice in ("auto", "none", "required") or any(tool.name == choice for tool in draft.tools):
        return choice
    draft.note(rule, f"the tool {choice!r} is not offered: left the choice to the model")
    return "auto"


def limit_tools(draft: RequestDraft, most: int, rule: str) -> Sequence[ToolDefinition]:
    """The first tools up to the receiver's limit; the note names those left out."""
    if len(draft.tools) <= most:
        return draft.tools
    names = ", ".join(tool.name for tool in draft.tools[most:])
    draft.note(rule, f"offered {most} tools only; left out: {names}")
    return draft.tools[:most]


def effort_of(thinking: int | str | bool | None) -> str | None:
    """The requested thinking effort; a token budget becomes one of three efforts. None means the model's default."""
    if thinking is None or thinking is True:
        return None
    if isinstance(thinking, str):
        return thinking
    return "low" if thinking < 4096 else "medium" if thinking < 16384 else "high"


def further_options(draft: RequestDraft, keys: Mapping[str, str], rule: str) -> JsonObject:
    """The less common options under the receiver's ``keys``; an option without a key is left out with a note.

    ``parallel_tool_calls`` is sent only if tools are offered: servers refuse it without tools.
    """
    written: JsonObject = {}
    for name in ("top_p", "seed", "parallel_tool_calls", "service_tier", "metadata"):
        value = getattr(draft.options, name)
        if value is None or (name == "parallel_tool_calls" and not draft.tools):
            continue
        if key := keys.get(name):
            written[key] = value
        else:
            draft.note(rule, f"{name} does not exist here: left it out")
    return written


#: The highest temperature that every dialect but Anthropic's accepts (OAI-31, GEM-32, OTH-03).
_HOTTEST = 2.0


def temperature_of(draft: RequestDraft) -> float | None:
    """The requested temperature, limited to the published range."""
    wanted = draft.options.temperature
    if wanted is None or 0 <= wanted <= _HOTTEST:
        return wanted
    fitting = min(max(wanted, 0.0), _HOTTEST)
    draft.note("OAI-31", f"the temperature lies between 0 and 2 here: sent {fitting}")
    return fitting


def without_nothing(**values: Any) -> JsonObject:
    """The settings that are not None."""
    return {key: value for key, value in values.items() if value is not None}


#: The longest string that OpenAI's dialects take in any text field (OAI-24).
LONGEST_TEXT = 10_485_760

_MARK = "\n[cut: the text is longer than this server takes]"


def cut_long_texts(draft: RequestDraft) -> Sequence[Turn]:
    """Cut every text and result to the limit; a cut text ends with a remark, and a note is added."""
    turns, characters = draft.turns, draft.characters
    if (characters is not None and characters <= LONGEST_TEXT) or not _has_long_texts(turns):
        return turns
    draft.note("OAI-24", f"cut texts to {LONGEST_TEXT} characters")
    draft.texts = None
    return [replace(turn, parts=tuple(map(_cut_part, turn.parts))) for turn in turns]


def _has_long_texts(turns: Sequence[Turn]) -> bool:
    # Runs for every part of every request, so short strings are checked without a function call.
    for turn in turns:
        for part in turn.parts:
            if type(part) is Text:
                if len(part.content) > LONGEST_TEXT:
                    return True
            elif type(part) is ToolResult and _is_long_value(part.content):
                return True
    return False


def _is_long(part: Part) -> bool:
    if type(part) is Text:
        return len(part.content) > LONGEST_TEXT
    return type(part) is ToolResult and _is_long_value(part.content)


def _is_long_value(content: object) -> bool:
    if isinstance(content, str):
        return len(content) > LONGEST_TEXT
    is_structure = isinstance(content, list | tuple | dict)
    return is_structure and len(split_result(content)[0]) > LONGEST_TEXT


def _cut_part(part: Part) -> Part:
    if not _is_long(part):
        return part
    assert isinstance(part, (Text, ToolResult))
    if isinstance(part, Text):
        return replace(part, content=_cut(part.content))
    return replace(part, content=_cut(split_result(part.content)[0]), extras=None)


def _cut(text: str) -> str:
    return text[: LONGEST_TEXT - len(_MARK)] + _MARK
