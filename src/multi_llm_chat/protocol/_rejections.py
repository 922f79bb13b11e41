"""The error texts with which providers reject a request, and the stronger repair for each.

Rules:
1. The texts are the ``refusals`` of the rules (``protocol.rules``): a pattern, and the repair that makes the request legal.
2. The first pattern that matches decides. Patterns are tried in the order of the repairs below, because texts about thinking
   often mention tools, too; within a repair, in the order of the rules.
3. A text that matches no pattern gets the repair for the kind of thing it mentions (thinking, media, tools); if it mentions
   none, the request is not sent again.
4. Patterns are compiled with the first rejection, not on import.

Repairs:
    resend             send the same request again: the model's own output failed, not the request
    disable_thinking   as ``drop_thinking``, and turn the model's thinking off for this request
    drop_thinking      send no thinking, signature, reasoning text or encrypted reasoning at all
    reasoning_none     send ``reasoning_effort: "none"`` (tools and reasoning exclude each other)
    drop_tools         as ``flatten_tools``, and offer no tools: the server cannot take any
    shorten_ids        give every call a new id of nine letters and digits
    rename_tools       give every tool, offered or in the history, a plain name
    plain_schemas      send only types, properties and descriptions of the tools' schemas
    flatten_tools      write all tool exchanges of the history as text, so that nothing needs a pair
    alternate          merge and add turns: user and model strictly alternate, user first and last
    drop_options       leave out every optional setting, and let the model choose its tool
    drop_media         replace images, sounds and files by a note: the model accepts none
    describe_media     as above, for those that are in the history so far: one of them was refused
    new_container      ask for a new container for code: the one of the conversation has expired
    drop_block         let Anthropic drop thinking whose prefix has changed
    newest_turns       leave out everything before the user's last turn; only the ladder asks for it
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from multi_llm_chat.protocol.rules import refusals


class Rejection(NamedTuple):
    """A known reason for which a request was rejected."""

    rule: str
    repair: str


#: Every repair that a rule may name, in the order in which their patterns are tried.
REPAIRS: Final = (
    "resend", "new_container", "drop_block", "disable_thinking", "drop_thinking", "reasoning_none", "drop_tools", "shorten_ids", "rename_tools",
    "plain_schemas", "flatten_tools", "alternate", "drop_options", "drop_media",
    "describe_media", "newest_turns",
)  # fmt: skip


@lru_cache(maxsize=1)
def _in_order(
    rows: tuple[tuple[re.Pattern[str], str, str], ...],
) -> tuple[tuple[re.Pattern[str], Rejection], ...]:
    ordered = sorted(rows, key=lambda row: REPAIRS.index(row[2]))
    return tuple((pattern, Rejection(rule, repair)) for pattern, rule, repair in ordered)


#: The repair for an unknown text, by the kind of thing that it mentions.
_KINDS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), repair)
    for pattern, repair in (
        (r"thinking|reasoning|signature", "drop_thinking"),
        (r"image|picture|audio|video|\bpdf\b|media|inline_?data|file_(data|uri|url|id)", "describe_media"),
        (r"tool|function", "flatten_tools"),
    )
)  # fmt: skip


def guess_repair(text: str) -> str | None:
    """The repair for the kind of thing that an unknown error text mentions."""
    return next((repair for pattern, repair in _KINDS if pattern.search(text)), None)


def find_rejection(text: str) -> Rejection | None:
    """Look up a provider's error text; ``None`` if no rule's pattern matches it."""
    for pattern, rejection in _in_order(refusals()):
        if pattern.search(text):
            return rejection
    return None
