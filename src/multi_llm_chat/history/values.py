"""The values a history is made of.

Rules:
1. Values are immutable; a function never changes a turn it was given, a changed turn is a new one.
2. ``role`` is who spoke: ``user``, ``system``, ``tool``, or the name of a speaking model.
3. Every tool call has a non-empty id. A result may lack one (it is then paired by name).
4. A call whose arguments were not a JSON object carries ``error`` and is never executed.
5. ``raw_arguments`` is the text exactly as the model wrote it: kept next to valid arguments so
   that a replay is byte for byte the same, and next to an ``error`` so that nothing is lost.
6. ``Thinking`` belongs to its ``origin``. A ``Thinking`` part with empty content and opaque data is the
   signature of the part that follows it.
7. Nothing that a provider sends is dropped. An item for which there is no part type is a ``Native`` part; additional fields
   of a part (citations, ``phase``, cache marks, a namespace) are its ``extras``. Both are sent back unchanged to the
   provider and endpoint they came from; other providers get the text in ``Native.text``.

Values hold JSON, which has no cycles, so the garbage collector does not track them (``gc=False``):
with it, long histories would cost more than linear time.
"""

from typing import Any, TypeAlias

from msgspec import Struct, field

JsonObject: TypeAlias = dict[str, Any]

#: Roles that are not a speaking model's name.
RESERVED_ROLES = frozenset({"user", "system", "tool"})

#: Roles that provider-native histories give to any model.
ANONYMOUS_SPEAKERS = frozenset({"assistant", "model"})


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where opaque data came from; it may be replayed only there."""

    provider: str = ""
    endpoint: str = ""
    model: str = ""


#: The origin of opaque data that cannot be traced: it is never replayed.
NOWHERE = Origin()


class Extras(Struct, frozen=True, gc=False):
    """Provider-specific fields of a part; they are sent back only to that provider."""

    origin: Origin
    fields: JsonObject


class Text(Struct, frozen=True, gc=False):
    """A piece of text."""

    content: str
    extras: Extras | None = None


class ToolCall(Struct, frozen=True, gc=False):
    """A model asks for a tool to be run."""

    name: str
    arguments: JsonObject
    tool_call_id: str
    raw_arguments: str | None = None
    error: str | None = None
    extras: Extras | None = None


class ToolResult(Struct, frozen=True, gc=False):
    """The result of a tool call; ``synthetic`` if the library created it because the tool returned none."""

    name: str
    content: Any
    tool_call_id: str = ""
    is_error: bool = False
    synthetic: bool = False
    extras: Extras | None = None


class Thinking(Struct, frozen=True, gc=False):
    """A model's reasoning, with the signature or encrypted form that its provider checks."""

    content: str
    origin: Origin = NOWHERE
    opaque: JsonObject = field(default_factory=dict)


class Media(Struct, frozen=True, gc=False):
    """An image, sound or file: base64 ``data``, a ``url``, or the ``file_id`` under which its origin stores it."""

    mime: str
    data: str | None = None
    url: str | None = None
    name: str | None = None
    file_id: str | None = None
    extras: Extras | None = None


class Native(Struct, frozen=True, gc=False):
    """An item that only its provider understands: a server tool's step, an approval, a compaction, executable code.

    ``raw`` is the item as it was received, ``text`` its readable content: the query, titles, URLs, code, output.
    """

    kind: str
    text: str
    origin: Origin = NOWHERE
    raw: JsonObject = field(default_factory=dict)


Part: TypeAlias = Text | ToolCall | ToolResult | Thinking | Media | Native


class Turn(Struct, frozen=True, gc=False):
    """One turn of a conversation: its role and its parts.

    ``meta`` keeps all other data of the turn. ``unreadable`` is set on the placeholder for an entry
    that was not a turn at all: the placeholder is stored, and never sent.
    """

    role: str
    parts: tuple[Part, ...] = ()
    id: str | None = None
    created_at: Any = None
    model: str | None = None
    meta: JsonObject = field(default_factory=dict)
    unreadable: str | None = None
