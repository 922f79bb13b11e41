"""How to repair a history (``RepairPolicy``), for which receiver (``Target``), and what was changed (``Note``)."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import ANONYMOUS_SPEAKERS, NOWHERE, Media, Origin, Thinking, Turn

#: Takes the turns of a history and returns those to send.
RepairStep: TypeAlias = Callable[[Sequence[Turn]], Iterable[Any]]


class RepairPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """How a history is repaired: what happens to unanswered calls, orphan results and other speakers' turns.

    ``unanswered`` calls get a synthetic error result (``answer``) or are removed (``drop``).
    ``orphans``, results without a call, become user text (``note``) or are removed (``drop``).
    The turns of ``foreign`` speakers become user text with their name (``label``), become the model's
    own turns (``adopt``, for a handover), or are removed (``drop``).
    ``steps`` are the caller's own functions ``turns -> turns``: each receives the history and returns the one to send. They
    run before the repair, which makes their result legal; they do not change the history itself.

    Raises:
        UsageError: A value is none of these, or a step is not callable.
    """

    unanswered: Literal["answer", "drop"] = "answer"
    orphans: Literal["note", "drop"] = "note"
    foreign: Literal["label", "adopt", "drop"] = "label"
    steps: tuple[RepairStep, ...] = ()

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            word = getattr(self, name)
            if word not in words:
                raise UsageError(f"RepairPolicy: {name} is one of {', '.join(words)}; not {word!r}")
        if not all(callable(step) for step in self.steps):
            raise UsageError("RepairPolicy: steps are functions that take turns and return turns")


_WORDS: Final = {
    "unanswered": ("answer", "drop"),
    "orphans": ("note", "drop"),
    "foreign": ("label", "adopt", "drop"),
}


#: Seed 001's behaviour: calls and results without a partner are removed; every assistant turn is the model's own.
PAIRS_ONLY = RepairPolicy(unanswered="drop", orphans="drop", foreign="adopt")

#: The model's text between tool results and a user turn, for targets that require an answer there.
ACKNOWLEDGED = "OK."


#: Which turns may begin and end a request; see ``Target``.
Opens: TypeAlias = Literal["any", "words", "user"]
Ends: TypeAlias = Literal["any", "spoken", "user"]


class Target(Struct, frozen=True):
    """The requirements of a request's receiver on the history.

    ``speaker`` is the role of the model that will answer; turns by one of ``speakers`` are its
    own. Only thinking from ``origin`` may be replayed. ``system`` says where system turns may be;
    ``alternates``: turns of one side may not follow each other;
    ``answers_after_tools``: no user turn may directly follow a result; ``most_calls`` is
    the most calls of one turn: further ones are put in turns of their own.
    ``opens`` says which turn may be first after the system turns: any, a model's text but no call, or only a user turn;
    ``ends`` says which turn may be last: any, any after a user or tool turn, or only a user, tool or system turn.
    ``pauses`` are the kinds of native items with which the provider pauses a turn that it continues itself.
    ``keeps_blanks``: blank texts next to native items of the model's turn are sent back unchanged (ANT-06).
    ``blank_texts``: a text may be empty, so an otherwise legal history keeps its blank texts.
    ``any_order``: the results of one turn's calls may be in any order.
    ``signs_parts``: a signature belongs to its part, not to the beginning of a turn.
    """

    speaker: str
    speakers: frozenset[str] = frozenset()
    origin: Origin = NOWHERE
    default_endpoint: str = ""
    id_pattern: re.Pattern[str] = re.compile(r"[!-~]{1,40}")
    name_pattern: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
    system: Literal["anywhere", "leading"] = "anywhere"
    alternates: bool = False
    answers_after_tools: bool = False
    most_calls: int | None = None
    opens: Opens = "any"
    ends: Ends = "any"
    pauses: frozenset[str] = frozenset()
    keeps_blanks: bool = False
    blank_texts: bool = False
    any_order: bool = False
    signs_parts: bool = False

    @property
    def own_roles(self) -> frozenset[str]:
        """The roles of this model's own turns."""
        return self.speakers | ANONYMOUS_SPEAKERS | {self.speaker}

    def owns(self, turn: Turn) -> bool:
        """Whether the turn is this model's own."""
        role = turn.role
        return role == self.speaker or role in self.speakers or role in ANONYMOUS_SPEAKERS

    def recognises(self, thinking: Thinking) -> bool:
        """Whether the opaque thinking data came from exactly this origin."""
        model = thinking.origin.model
        return bool(model) and model == self.origin.model and self.issued(thinking.origin)

    def stores(self, media: Media) -> bool:
        """Whether the media has no file id, or one of this provider and endpoint."""
        return media.file_id is None or (
            media.extras is not None and self.issued(media.extras.origin)
        )

    def issued(self, origin: Origin) -> bool:
        """Whether native items and extras of this origin came from this provider and endpoint, from any of its models."""
        return (
            origin.provider == self.origin.provider
            and (origin.endpoint or self.default_endpoint) == self.origin.endpoint
        )


class Note(Struct, frozen=True, gc=False):
    """One change: the rule that requires it, the turn it concerns, and what was done."""

    rule: str
    turn: int | None
    message: str
