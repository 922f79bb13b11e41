"""Which turns of a history are new since an earlier request, and how the next request begins with what that one sent.

Rules:
1. What was sent stays, byte for byte (SPEC 2.9): messages, system prompt, tools, ids, names, words of ours.
2. The turns that were sent are found at the beginning of the history. Other models' turns may stand among them: they
   arrived while the request was under way, and are new.
3. The model's answer to the earlier request stands directly behind it, before other models' turns that arrived meanwhile
   (so ``@all`` does not change the prefix). It moves over turns of other models only, never over the user's. A request that is
   written from nothing does the same where the user's turn says that several models were asked (``meta["addressed"]``).
4. A changed system prompt is a system turn at the end; the first one stays in its place.
5. Where no tool is offered any more, all stay declared and none may be chosen. Tools that are added or removed are a message where
   the provider has one for it (ANT-46): the new ones are declared behind the others, outside of what is cached. Elsewhere the tools
   change, and a note says so.
6. Only what a later request can reuse is cached (``cache="auto"``): the requests of a loop with tools, and those of a
   conversation from its second one on. A question that is asked once is not: writing to a cache has its price.
7. Where the history does not begin with what was sent, or cannot be continued, the request is a cut: it is written from
   nothing, and a note says why.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, clean_text, compact_json
from multi_llm_chat.history.values import RESERVED_ROLES, Native, Text, ToolCall, Turn
from multi_llm_chat.history.writer import write_turn
from multi_llm_chat.protocol.request_draft import NO_CACHING, Caching, CutError
from multi_llm_chat.repair.policy import Target
from multi_llm_chat.request import ModelRequest, ToolDefinition, Transcript

CHANGED_PROMPT: Final = "These instructions replace the earlier ones:\n\n{prompt}"
NO_PROMPT: Final = "The earlier instructions no longer apply."

#: Milliseconds between two messages of the user for which Anthropic's short cache is too short, and its long one not.
_PAUSES: Final = (270_000, 3_600_000)
_LATEST: Final = 32
_META: Final = attrgetter("meta")

_CHANGED: Final = "the history does not begin with what was sent"


def new_turns(sent: Transcript, turns: Sequence[Turn], target: Target) -> list[int]:
    """The indexes of the turns that were not sent yet, in the order in which they are sent.

    Raises:
        CutError: The history does not begin with the turns that were sent.
    """
    count = len(sent.turns)
    arrived: list[int] = []
    if sent.digests or tuple(turns[:count]) != sent.turns:  # the very same turns, as a rule
        arrived, count = _match(sent, turns, target)
    order = _own_first([*arrived, *range(count, len(turns))], turns, target)
    return arrange_answers(order, turns, target) or order


def arrange_answers(
    order: Sequence[int], turns: Sequence[Turn], target: Target
) -> list[int] | None:
    """The turns with the model's answer before those of others that were asked the same; None where that is their order."""
    among = turns if len(order) == len(turns) else map(turns.__getitem__, order)
    if not any(map(_META, among)):  # as a rule
        return None
    asked = [place for place, at in enumerate(order) if _asks_several(turns[at])]
    if not asked:
        return None
    arranged = list(order[: asked[0] + 1])
    for place, following in pairwise([*asked, len(order)]):
        arranged += _own_first(list(order[place + 1 : following + 1]), turns, target)
    return arranged


def _asks_several(turn: Turn) -> bool:
    return turn.role == "user" and len(as_list(turn.meta.get("addressed")) or ()) > 1


def _match(sent: Transcript, turns: Sequence[Turn], target: Target) -> tuple[list[int], int]:
    """Find every turn that was sent; returns the others before the last of them, and where the rest begins."""
    arrived: list[int] = []
    at = 0
    others = _Others(target)
    for wanted in sent.digests or sent.turns:
        found = next((place for place in arrived if is_same_turn(wanted, turns[place])), None)
        if found is not None:
            arrived.remove(found)
            continue
        while at < len(turns) and not is_same_turn(wanted, turns[at]):
            if not others.includes(turns[at]):
                raise CutError("", _CHANGED)
            arrived.append(at)
            at += 1
        if at == len(turns):
            raise CutError("", _CHANGED)
        others.includes(turns[at])
        at += 1
    return arrived, at


def is_same_turn(sent: Turn | bytes, turn: Turn) -> bool:
    """Whether the turn was sent; its id, date and model are not."""
    if isinstance(sent, bytes):
        return turn_digest(turn) == sent
    return sent is turn or (
        sent.role == turn.role and sent.parts == turn.parts and sent.unreadable == turn.unreadable
    )


def turn_digest(turn: Turn) -> bytes:
    """A short form of what a turn says."""
    written = write_turn(turn)
    said = [written.get("role"), written.get("content"), turn.unreadable]
    return blake2b(compact_json(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Others:
    """Tells turns of other models, and the results of their calls, from all others; in the order of the turns."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._last = False

    def includes(self, turn: Turn) -> bool:
        if turn.role == "tool":
            speaker = turn.meta.get("speaker")
            if isinstance(speaker, str) and speaker:
                return not self._target.owns(Turn(speaker))
            return self._last
        self._last = turn.role not in RESERVED_ROLES and not self._target.owns(turn)
        return self._last


def _own_first(order: list[int], turns: Sequence[Turn], target: Target) -> list[int]:
    """The turns with the model's answer first: the turn, and those that follow from its calls."""
    spoken = (place for place, at in enumerate(order) if turns[at].role in ("user", "system"))
    end = next(spoken, len(order))
    first = next((place for place in range(end) if target.owns(turns[order[place]])), 0)
    if first == 0 or turns[order[first]].role == "tool":
        return order
    others = _Others(target)
    own: list[int] = []
    rest: list[int] = []
    is_open = True
    for at in order[:end]:
        turn = turns[at]
        if others.includes(turn) or not is_open:
            rest.append(at)
            continue
        own.append(at)
        if turn.role != "tool":
            is_open = any(type(part) is ToolCall for part in turn.parts)
    return [*own, *rest, *order[end:]]


def changed_prompt(sent: Transcript, prompt: str) -> Iterator[Turn]:
    """The system turn that says a changed system prompt; none where it is the same."""
    if prompt != sent.instructions:
        yield Turn("system", (Text(CHANGED_PROMPT.format(prompt=prompt) if prompt else NO_PROMPT),))


class OfferedTools(Struct, frozen=True):
    """The tools to declare, and the turn that says which of them came or went.

    ``deferred`` and ``removed`` are those of ``Transcript``; with ``is_none`` no tool may be called.
    """

    tools: Sequence[ToolDefinition]
    deferred: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    is_none: bool = False
    news: tuple[Turn, ...] = ()


def offer_again(
    sent: Transcript,
    offered: Sequence[ToolDefinition],
    new: Sequence[Turn],
    target: Target,
    *,
    by_reference: bool,
) -> OfferedTools:
    """The tools of a request that continues an earlier one with ``new`` turns.

    ``by_reference``: the receiver takes messages that add and remove declared tools.

    Raises:
        CutError: A message that added or removed a tool cannot stay as it was sent.
    """
    is_answered = bool(new) and target.owns(new[0])
    if sent.tail and _is_tool_change(sent.tail[-1]) and new and not is_answered:
        raise CutError("ANT-46", "a change of the tools stood at the end")
    known = {tool.name: tool for tool in sent.tools if tool.name not in sent.removed}
    is_same = len(offered) == len(known) and all(known.get(tool.name) == tool for tool in offered)
    if is_same or not offered:
        is_none = not offered and bool(known)
        return OfferedTools(sent.tools, sent.deferred, sent.removed, is_none)
    if by_reference and (new[-1:] or sent.tail[-1:]):
        last = (*sent.tail[-1:], *new)[-1].role
        changed = _by_reference(sent, offered, target) if last in ("user", "tool") else None
        if changed is not None:
            return changed
    if sent.deferred or sent.removed:
        raise CutError("ANT-46", "tools changed that a message had added or removed")
    return OfferedTools(offered)


def _by_reference(
    sent: Transcript, offered: Sequence[ToolDefinition], target: Target
) -> OfferedTools | None:
    """The tools with a message that adds and removes some; None where that does not say what changed."""
    declared = {tool.name: tool for tool in sent.tools}
    new = [tool for tool in offered if tool.name not in declared]
    taken = set(sent.names.values())
    is_sayable = all(
        target.name_pattern.fullmatch(tool.name) and tool.name not in taken for tool in new
    )
    is_changed = any(declared.get(tool.name, tool) != tool for tool in offered)
    if not declared or is_changed or not is_sayable:
        return None
    names = [tool.name for tool in offered]
    added = [name for name in names if name not in declared or name in sent.removed]
    gone = [name for name in declared if name not in names and name not in sent.removed]
    parts = [
        _tool_change(kind, sent.names.get(name, name), target)
        for kind, changed in (("tool_addition", added), ("tool_removal", gone))
        for name in changed
    ]
    return OfferedTools(
        (*sent.tools, *new),
        (*sent.deferred, *[tool.name for tool in new]),
        tuple(name for name in (*sent.removed, *gone) if name not in names),
        news=(Turn("system", tuple(parts)),),
    )


def _tool_change(kind: str, name: str, target: Target) -> Native:
    raw = {"type": kind, "tool": {"type": "tool_reference", "name": name}}
    return Native(kind, f"{kind}: {name}", target.origin, raw)


def _is_tool_change(turn: Turn) -> bool:
    return turn.role == "system" and any(type(part) is Native for part in turn.parts)


def calls_of(turns: Iterable[Turn]) -> dict[str, tuple[str, str]]:
    """The tool and the speaker of each call, by the call's id."""
    return {
        clean_text(part.tool_call_id): (clean_text(part.name), turn.role)
        for turn in turns
        for part in turn.parts
        if type(part) is ToolCall
    }


def last_passage(turns: Sequence[Turn], speaker: str) -> int:
    """Where the model's last passage begins: its neighbouring turns can share a message. 0 if it did not speak."""
    at = next((place for place in range(len(turns) - 1, -1, -1) if turns[place].role == speaker), 0)
    while at and turns[at - 1].role == speaker:
        at -= 1
    return at


def json_hash(value: object) -> str:
    """A short form of a JSON value."""
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()


def choose_caching(request: ModelRequest, target: Target, *, is_first: bool) -> Caching:
    """What the provider is asked to cache; ``is_first``: nothing says that an earlier request was sent."""
    wanted = request.options.cache
    if not wanted or (wanted == "auto" and request.conversation is None):
        return NO_CACHING
    turns = request.turns
    key = ""
    # A key costs nothing; a gateway may not know it.
    if request.conversation and target.origin.endpoint == target.default_endpoint:
        key = blake2b(request.conversation.encode(errors="replace"), digest_size=16).hexdigest()
    expected = request.conversation is not None
    if wanted == "auto":
        is_used = bool(request.tools) or not is_first or any(map(target.owns, turns[-_LATEST:]))
        wanted = is_used
    return Caching(wanted, wanted and _has_pauses(turns[-_LATEST:]), key, expected)


def _has_pauses(turns: Sequence[Turn]) -> bool:
    """Whether the user lately took longer to write than a short cache lasts."""
    dates = [turn.created_at for turn in turns if turn.role == "user"]
    times = [date for date in dates if isinstance(date, int)][-4:]
    return any(_PAUSES[0] < later - earlier < _PAUSES[1] for earlier, later in pairwise(times))
