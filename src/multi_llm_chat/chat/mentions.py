"""The mentions in a message: which speakers it addresses.

Rules:
1. A mention is ``@`` and a known name as a whole word, anywhere, in any case; an address such as
   ``me@gemini.com`` is not one.
2. ``@all`` addresses all speakers, a group's name its members; each speaker is addressed once, in the order named. Further speakers are
   addressed only by their own names.
3. The text sent to the models has no mentions; everything else in it stays as it was.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

ALL = "all"


class Addressed(Struct, frozen=True):
    """The speakers that a text addresses (none for a memo), and the text without mentions."""

    speakers: tuple[str, ...]
    text: str


def read_mentions(
    text: str,
    speakers: Iterable[str],
    groups: Mapping[str, Iterable[str]] | None = None,
    further: Iterable[str] = (),
) -> Addressed:
    """Find the speakers that the text addresses.

    Args:
        text: What the user wrote.
        speakers: The names of all speakers.
        groups: Names that stand for several speakers.
        further: The names of the speakers that ``@all`` does not include.
    """
    everybody = list(speakers)
    members = {name.lower(): [name] for name in (*further, *everybody)}
    members |= {name.lower(): list(names) for name, names in (groups or {}).items()}
    members.setdefault(ALL, everybody)
    named = [name.lower() for name in _pattern(members).findall(text)]
    addressed = dict.fromkeys(speaker for name in named for speaker in members[name])
    return Addressed(tuple(addressed), _without(text, members) if named else text)


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    # The longest name first, so that @claude-opus is not taken for @claude.
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w@./-])@({alternatives})(?![\w-]|\.\w)", re.IGNORECASE)


def _without(text: str, names: Iterable[str]) -> str:
    mention = _pattern(names).pattern
    # A mention at the start is removed with its comma or colon, any other mention with the space before it.
    opening = re.compile(rf"\A(?:\s*{mention}[,:;]?)+\s*", re.IGNORECASE)
    inside = re.compile(rf"[ \t]?{mention}", re.IGNORECASE)
    return inside.sub("", opening.sub("", text)).strip()
