"""The transcripts of conversations: what each model was sent, so that its next request begins with it (SPEC 2.9).

Rules:
1. A transcript belongs to a conversation, a provider, a model and a speaker (its target). Each target keeps a few, the newest: those of
   other branches, and the one before a request whose last turn is not saved.
2. A request continues the newest transcript whose last turn the history has, at the same position or later.
3. Memory is bounded by the number of targets and by the bytes of their messages. If no transcript is found, the request is written anew;
   there is no other cost.
4. In the store a transcript is a series of rows. Each row has what its request added, so that a long conversation is not written again with
   each request; it is saved in the transaction that saves the answer. Turns are stored as digests.
5. The rows are read once, before a process's first request in a conversation in which the model has spoken. A store that cannot be read,
   and unreadable rows, are ignored.
6. Any thread may call the methods.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.reader import read_turn
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.history.writer import write_turn
from multi_llm_chat.protocol.transcript import is_same_turn, turn_digest
from multi_llm_chat.request import ToolDefinition, Transcript
from multi_llm_chat.store import Store
from multi_llm_chat.store.runs import SentRow, read_sent
from multi_llm_chat.store.transaction import read_json, write_json

#: How many targets are remembered, how many transcripts of each, and how many bytes of messages in all.
_MOST_TARGETS: Final = 256
_MOST_BRANCHES: Final = 4
_MOST_BYTES: Final = 64_000_000
#: The version of the rows; rows of another version are ignored.
_VERSION: Final = 1
#: Fields that a row has only if they changed, and fields of which it has only the additions.
_CHANGING: Final = (
    "system_prompt",
    "instructions",
    "system_texts",
    "tools",
    "tools_sent",
    "pictures",
    "deferred",
    "removed",
    "has_tool_changes",
)
_GROWING: Final = ("names", "ids", "calls")

_Key: TypeAlias = tuple[str | None, str]


class SentRecorder(Protocol):
    """Saves transcripts; the ``Journal`` of a run does."""

    store: Store
    sent: SentRow | None


class SentSeries(Struct):
    """A transcript, and the last row of its series in the store; a series without rows has the number -1."""

    transcript: Transcript
    name: str
    number: int


class Transcripts:
    """The transcripts of all models in this process."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: OrderedDict[_Key, list[SentSeries]] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._read: set[_Key] = set()
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    async def find(
        self,
        conversation: str | None,
        provider: LLMProvider,
        turns: Sequence[Turn],
        journal: "SentRecorder | None" = None,
    ) -> Transcript | None:
        """The transcript that a request with these turns continues; read from the journal's store if none is in memory."""
        key = _key(conversation, provider)
        with self._lock:
            found = [each.transcript for each in self._kept.get(key, ())]
            is_read = found or journal is None or key in self._read
        if not is_read and journal is not None and _speaks(provider, turns):
            await self._load(key, journal)
            with self._lock:
                found = [each.transcript for each in self._kept.get(key, ())]
        return next((each for each in found if _may_continue(each, turns)), None)

    async def _load(self, key: _Key, journal: "SentRecorder") -> None:
        try:
            rows = await journal.store.arun(read_sent, key[0] or "", key[1])
        except StoreError:
            return
        with self._lock:
            if key not in self._read and key not in self._kept:
                self._keep(key, read_series(rows))
            self._read.add(key)

    def keep(
        self,
        conversation: str | None,
        provider: LLMProvider,
        reply: Reply,
        journal: "SentRecorder | None" = None,
    ) -> None:
        """Keep the transcript of a reply; the journal saves it with the answer."""
        transcript = reply.transcript
        if transcript is None:
            return
        key = _key(conversation, provider)
        with self._lock:
            known = self._kept.get(key, [])
            before = next(
                (each for each in known if _is_continued(each.transcript, transcript)), None
            )
            if before is None or any(
                each.name == before.name and each.number > before.number for each in known
            ):
                before = None  # it starts a new series
            series = SentSeries(
                transcript, uuid4().hex if before is None else before.name,
                0 if before is None else before.number + 1,
            )  # fmt: skip
            self._keep(key, [series, *known[: _MOST_BRANCHES - 1]])
        if journal is not None:
            earlier = None if before is None else before.transcript
            content = write_row(earlier, transcript)
            journal.sent = SentRow(key[1], series.name, series.number, content)

    def _keep(self, key: _Key, kept: list[SentSeries]) -> None:
        self._kept.pop(key, None)
        if not kept:
            return
        self._kept[key] = kept
        self._sizes[key] = sum(map(len, kept[0].transcript.messages))
        while len(self._kept) > 1 and (
            len(self._kept) > _MOST_TARGETS or sum(self._sizes.values()) > self._most_bytes
        ):
            oldest, _ = self._kept.popitem(last=False)
            del self._sizes[oldest]
            self._read.discard(oldest)


def _key(conversation: str | None, provider: LLMProvider) -> _Key:
    return conversation, f"{provider.name} {provider.model or ''} {provider.speaker}"


def _speaks(provider: LLMProvider, turns: Sequence[Turn]) -> bool:
    return any(turn.role == provider.speaker for turn in turns)


def _may_continue(transcript: Transcript, turns: Sequence[Turn]) -> bool:
    sent: Sequence[Turn | bytes] = transcript.digests or transcript.turns
    if not sent:
        return True
    return any(is_same_turn(sent[-1], turn) for turn in turns[len(sent) - 1 :])


def _is_continued(before: Transcript, after: Transcript) -> bool:
    """Whether the later transcript begins with the messages of the earlier one, as the same byte objects."""
    last = after.kept - 1
    return 0 <= last < len(before.messages) and before.messages[last] is after.messages[last]


# Rows in the store.


class _Row(Struct, array_like=True):
    """What a request adds to a transcript."""

    version: int
    kept: int
    messages: list[bytes]
    #: How many digests of the previous row stay, and the digests (16 bytes each) of the turns after them, joined.
    known: int
    digests: bytes
    #: In the encoding of the store's JSON columns, because names and ids of a history may not be valid text.
    fields: str


def write_row(before: Transcript | None, after: Transcript) -> bytes:
    """The content of the row that follows the row of the previous transcript."""
    fields: JsonObject = {
        "target": after.target,
        "stable": after.stable,
        "tail": [write_turn(turn) for turn in after.tail],
        "state": after.state,
        "rewrites": after.rewrites,
    }
    for name in _CHANGING:
        if before is None or getattr(before, name) != getattr(after, name):
            fields[name] = getattr(after, name)
    if "tools" in fields:
        fields["tools"] = [[tool.name, tool.description, tool.schema] for tool in after.tools]
    for name in _GROWING:
        had: JsonObject = {} if before is None else getattr(before, name)
        added = {key: each for key, each in getattr(after, name).items() if key not in had}
        if added:
            fields[name] = added
    known = 0 if before is None else _count_same(before.turns, after.turns)
    digests = b"".join(map(turn_digest, after.turns[known:]))
    kept = after.kept if before is not None else 0
    messages = list(after.messages[kept:])
    return msgspec.msgpack.encode(
        _Row(_VERSION, kept, messages, known, digests, write_json(fields))
    )


def _count_same(before: Sequence[Turn], after: Sequence[Turn]) -> int:
    """How many turns both begin with; turns of other models may have been inserted."""
    pairs = zip(before, after, strict=False)
    shorter = min(len(before), len(after))
    return next(
        (at for at, (one, other) in enumerate(pairs) if not is_same_turn(one, other)), shorter
    )


def read_series(rows: Sequence[SentRow]) -> list[SentSeries]:
    """The transcripts that the rows encode, the newest first."""
    found: dict[str, SentSeries] = {}
    for row in rows:
        before = found.pop(row.series, None)
        if row.number != (0 if before is None else before.number + 1):
            continue  # an earlier row is missing
        try:
            transcript = _read_row(None if before is None else before.transcript, row.content)
        except (msgspec.MsgspecError, StoreError, KeyError, TypeError, ValueError):
            continue
        found[row.series] = SentSeries(transcript, row.series, row.number)
    return list(found.values())[::-1]


def _read_row(before: Transcript | None, content: bytes) -> Transcript:
    row = msgspec.msgpack.decode(content, type=_Row)
    if row.version != _VERSION:
        raise ValueError(f"version {row.version}")
    fields: JsonObject = read_json(row.fields)
    for name in _GROWING:
        had: JsonObject = {} if before is None else getattr(before, name)
        fields[name] = had | fields.get(name, {})
    fields["calls"] = {key: tuple(each) for key, each in fields["calls"].items()}
    fields["tail"] = tuple(read_turn(turn, None) for turn in fields["tail"])
    if "tools" in fields:
        fields["tools"] = tuple(ToolDefinition(*each) for each in fields["tools"])
    for name in ("system_texts", "deferred", "removed"):
        if name in fields:
            fields[name] = tuple(fields[name])
    digests = tuple(row.digests[at : at + 16] for at in range(0, len(row.digests), 16))
    if before is None:
        return Transcript(turns=(), messages=tuple(row.messages), digests=digests, **fields)
    messages = (*before.messages[: row.kept], *row.messages)
    digests = (*before.digests[: row.known], *digests)
    return replace(before, messages=messages, digests=digests, **fields)
