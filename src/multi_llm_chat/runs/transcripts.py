"""The transcripts of conversations: what each model was sent, so that its next request begins with it (SPEC 2.9).

Rules:
1. A transcript belongs to a conversation, a provider, a model and a speaker. The newest few are kept: those of other branches,
   and the one before a request whose last turn is not saved.
2. The one to continue is the newest whose last turn the history has, at its place or behind it.
3. Memory is bounded: by the number of targets, and by the bytes of their messages. What is not found costs a request that is written
   from nothing, nothing else.
4. Any thread may call.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.history.values import Turn
from multi_llm_chat.protocol.transcript import is_same_turn
from multi_llm_chat.request import Transcript

#: How many targets are remembered, how many transcripts of each, and how many bytes of messages in all.
_MOST_TARGETS: Final = 256
_MOST_BRANCHES: Final = 4
_MOST_BYTES: Final = 64_000_000

_Key: TypeAlias = tuple[str | None, str, str, str]


class Transcripts:
    """What the models of this process were sent."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: OrderedDict[_Key, list[Transcript]] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def find(
        self, conversation: str | None, provider: LLMProvider, turns: Sequence[Turn]
    ) -> Transcript | None:
        """The transcript that a request with these turns continues."""
        with self._lock:
            found = list(self._kept.get(_key(conversation, provider), ()))
        return next((each for each in found if _may_continue(each, turns)), None)

    def keep(self, conversation: str | None, provider: LLMProvider, reply: Reply) -> None:
        """Remember what was sent for a reply."""
        transcript = reply.transcript
        if transcript is None:
            return
        key = _key(conversation, provider)
        with self._lock:
            kept = self._kept.pop(key, [])
            # An earlier one with the same beginning is of no more use, unless its last turn comes back without the answer.
            self._kept[key] = [transcript, *kept[: _MOST_BRANCHES - 1]]
            self._sizes[key] = sum(map(len, transcript.messages))
            while len(self._kept) > 1 and (
                len(self._kept) > _MOST_TARGETS or sum(self._sizes.values()) > self._most_bytes
            ):
                oldest, _ = self._kept.popitem(last=False)
                del self._sizes[oldest]


def _key(conversation: str | None, provider: LLMProvider) -> _Key:
    return conversation, provider.name, provider.model or "", provider.speaker


def _may_continue(transcript: Transcript, turns: Sequence[Turn]) -> bool:
    sent = transcript.turns
    if not sent:
        return True
    last = sent[-1]
    return any(is_same_turn(last, turn) for turn in turns[len(sent) - 1 :])
