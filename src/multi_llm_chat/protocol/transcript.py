"""Finds the turns that are new since an earlier request, so that the next request begins with the same messages.

Rules:
1. What was sent stays the same, byte for byte (SPEC 2.9): messages, system prompt, tools, ids, names, texts that we added.
2. The turns that were sent are found at the beginning of the history. Other models' turns may be among them: they
   arrived while the request was in progress, and count as new.
3. The model's answer to the earlier request is put directly after it, before other models' turns that arrived meanwhile
   (so ``@all`` does not change the prefix). It is moved only past turns of other models, never past the user's. A request that
   does not continue an earlier one does the same if the user's turn says that several models were asked
   (``meta["addressed"]``).
4. A changed system prompt becomes a system turn at the end; the first prompt stays in its place.
5. If no tool is offered any more, all stay declared and none may be chosen. If tools are added or removed, a message says so for
   providers that have such messages (ANT-46): new tools are declared after the others, outside of the cached part. For other
   providers the declared tools change, and a note says so.
6. With ``cache="auto"``, only what a later request can reuse is cached: the requests of a loop with tools, and those of a
   conversation from its second one on. A single question is not cached, because writing to a cache costs money.
7. If the history does not begin with what was sent, or cannot be continued, the request is a cut: it is written
   completely, and a note says why.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, clean_text, compact_json
from multi_llm_chat.history.reader import ReadHistory
from multi_llm_chat.history.values import RESERVED_ROLES, Native, Text, ToolCall, Turn
from multi_llm_chat.history.writer import write_turn
from multi_llm_chat.protocol.request_draft import NO_CACHING, Caching, CutError
from multi_llm_chat.repair.policy import Target
from multi_llm_chat.request import ModelRequest, ToolDefinition, Transcript

CHANGED_PROMPT: Final = "These instructions replace the earlier ones:\n\n{prompt}"
NO_PROMPT: Final = "The earlier instructions no longer apply."

#: The range of milliseconds between two user messages for which Anthropic's short cache expires and its long one does not.
_PAUSES: Final = (270_000, 3_600_000)
_LATEST: Final = 32
_META: Final = attrgetter("meta")

_CHANGED: Final = "the history does not begin with what was sent"


def new_turns(sent: Transcript, turns: Sequence[Turn], target: Target) -> list[int]:
    """The indexes of the turns that were not sent yet, in the order in which they will be sent.

    Raises:
        CutError: The history does not begin with the turns that were sent.
    """
    count = len(sent.turns)
    arrived: list[int] = []
    # Usually the same turns, and then no search is needed.
    if sent.digests or tuple(turns[:count]) != sent.turns:
        arrived, count = _match(sent, turns, target)
    order = _own_first([*arrived, *range(count, len(turns))], turns, target)
    return arrange_answers(order, turns, target) or order


def arrange_answers(
    order: Sequence[int], turns: Sequence[Turn], target: Target
) -> list[int] | None:
    """The order in which the model's answer precedes other models' answers to the same message; None if nothing moves."""
    if (
        type(turns) is ReadHistory and turns.contents is not None
    ):  # turns in the usual form have no meta
        return None
    among = turns if len(order) == len(turns) else map(turns.__getitem__, order)
    if not any(map(_META, among)):  # the usual case
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
    """Find every turn that was sent; return the indexes of the new turns among them, and the index after the last of them."""
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
    """Whether this is the turn that was sent; id, date and model are not compared because they are not sent."""
    if isinstance(sent, bytes):
        return turn_digest(turn) == sent
    return sent is turn or (
        sent.role == turn.role and sent.parts == turn.parts and sent.unreadable == turn.unreadable
    )


def turn_digest(turn: Turn) -> bytes:
    """A hash of a turn's content."""
    written = write_turn(turn)
    said = [written.get("role"), written.get("content"), turn.unreadable]
    return blake2b(compact_json(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Others:
    """Recognises turns of other models and the results of their calls; has to see the turns in order."""

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
    """Move the model's answer to the front: its turn, and the turns that follow from its calls."""
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
    """Yield a system turn with the new system prompt, if it has changed."""
    if prompt != sent.instructions:
        yield Turn("system", (Text(CHANGED_PROMPT.format(prompt=prompt) if prompt else NO_PROMPT),))


class OfferedTools(Struct, frozen=True):
    """The tools to declare, and in ``news`` the turn that adds or removes tools.

    ``deferred`` and ``removed`` are as in ``Transcript``; with ``is_none``, no tool may be called.
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

    ``by_reference``: the receiver accepts messages that add and remove declared tools.

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
    if sent.has_tool_changes or sent.deferred or sent.removed:
        raise CutError("ANT-46", "tools changed that a message had added or removed")
    return OfferedTools(offered)


def _by_reference(
    sent: Transcript, offered: Sequence[ToolDefinition], target: Target
) -> OfferedTools | None:
    """The tools, with a message that adds and removes some of them; None if such a message cannot express the change."""
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
    """The index of the first turn of the model's last passage (its last neighbouring turns, which can share a message).

    0 if the model has no turn.
    """
    at = next((place for place in range(len(turns) - 1, -1, -1) if turns[place].role == speaker), 0)
    while at and turns[at - 1].role == speaker:
        at -= 1
    return at


def json_hash(value: object) -> str:
    """A hash of a JSON value."""
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()


def choose_caching(request: ModelRequest, target: Target, *, is_first: bool) -> Caching:
    """What the provider is asked to cache; ``is_first``: no earlier request is known."""
    wanted = request.options.cache
    if not wanted or (wanted == "auto" and request.conversation is None):
        return NO_CACHING
    turns = request.turns
    key = ""
    # The key is sent only to the provider's own endpoint: a gateway may not accept it.
    if request.conversation and target.origin.endpoint == target.default_endpoint:
        key = blake2b(request.conversation.encode(errors="replace"), digest_size=16).hexdigest()
    expected = request.conversation is not None
    if wanted == "auto":
        is_used = bool(request.tools) or not is_first or any(map(target.owns, turns[-_LATEST:]))
        wanted = is_used
    return Caching(wanted, wanted and _has_pauses(turns[-_LATEST:]), key, expected)


def _has_pauses(turns: Sequence[Turn]) -> bool:
    """Whether the last user messages were further apart than a short cache lasts."""
    dates = [turn.created_at for turn in turns if turn.role == "user"]
    times = [date for date in dates if isinstance(date, int)][-4:]
    return any(_PAUSES[0] < later - earlier < _PAUSES[1] for earlier, later in pairwise(times))
