"""How a history is to be repaired, for whom, and what was done."""

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

    ``unanswered`` calls get a synthetic error result (``answer``) or go (``drop``).
    ``orphans``, results without a call, become user text (``note``) or go (``drop``).
    ``foreign`` speakers' words become user text with their name (``label``), become the model's
    own turns (``adopt``, for a handover), or go (``drop``).
    ``steps`` are functions of one's own, ``turns -> turns``: each gets the history and returns the one to send. They run
    before the repair, so that what they return is made legal; they do not change the history itself.

    Raises:
        UsageError: A word is none of these, or a step cannot be called.
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


#: Seed 001's behaviour: what has no partner is removed; every assistant is this one.
PAIRS_ONLY = RepairPolicy(unanswered="drop", orphans="drop", foreign="adopt")

#: What the model says between tool results and a user turn, where the target wants an answer there.
ACKNOWLEDGED = "OK."


#: What may open and what may end a request; see ``Target``.
Opens: TypeAlias = Literal["any", "words", "user"]
Ends: TypeAlias = Literal["any", "spoken", "user"]


class Target(Struct, frozen=True):
    """What the receiver of a request demands of the history.

    ``speaker`` is the role of the model that will answer; turns by one of ``speakers`` are its
    own. ``origin`` is the only place whose thinking may be replayed. ``system`` says where system
    turns may stand; ``alternates`` that turns of one side may not follow each other;
    ``answers_after_tools`` that no user turn may follow a result directly; ``most_calls``
    how many calls one turn may make: further ones are put in turns of their own.
    ``opens`` says what may stand first behind the system's turns: anything, a model's words but no call, or only the user;
    ``ends`` what may stand last: anything, anything once the user spoke, or only the user, a tool or the system.
    ``pauses`` are the kinds of native items with which the provider pauses a turn that it continues itself.
    ``keeps_blanks``: blank texts beside native items of the model's turn go back as they came (ANT-06).
    ``blank_texts``: a text may be empty, so an otherwise legal history keeps those it has.
    ``any_order``: the results of one turn's calls may stand in any order.
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
        """The roles of the turns that this model owns."""
        return self.speakers | ANONYMOUS_SPEAKERS | {self.speaker}

    def owns(self, turn: Turn) -> bool:
        """Whether the turn is this model's own."""
        role = turn.role
        return role == self.speaker or role in self.speakers or role in ANONYMOUS_SPEAKERS

    def recognises(self, thinking: Thinking) -> bool:
        """Whether opaque thinking data came from exactly here."""
        model = thinking.origin.model
        return bool(model) and model == self.origin.model and self.issued(thinking.origin)

    def stores(self, media: Media) -> bool:
        """Whether the media's file id, if it has one, is of this provider and endpoint."""
        return media.file_id is None or (
            media.extras is not None and self.issued(media.extras.origin)
        )

    def issued(self, origin: Origin) -> bool:
        """Whether native items and extras of this origin came from this provider and endpoint, whichever the model."""
        return (
            origin.provider == self.origin.provider
            and (origin.endpoint or self.default_endpoint) == self.origin.endpoint
        )


class Note(Struct, frozen=True, gc=False):
    """One change: the rule that asked for it, the turn it concerns, and what was done."""

    rule: str
    turn: int | None
    message: str
