"""What every decoder is told about the request it reads the answer of."""

from collections.abc import Mapping

from msgspec import Struct, field

from multi_llm_chat.history.values import Origin


class DecodeContext(Struct, frozen=True):
    """The way back from the wire to the history.

    ``names`` maps tool names as they were sent to the names the caller knows; ``arguments``
    does the same for renamed argument keys, by the caller's tool name. ``id_prefix`` starts
    the ids of calls for which the provider sent none (or none of its own): prefix, underscore, number.
    """

    origin: Origin = Origin()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    id_prefix: str = "call"
