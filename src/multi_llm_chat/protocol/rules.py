"""The rules of the providers, as data.

Rules:
1. ``rules.json`` has one row per rule: the requirement and to whom it applies, the provider's error texts, the repair,
   the evidence, and the code and tests that implement it. A rule that is not implemented says why.
2. The file is read once, when a row is first needed: after a refusal, by ``mlc doctor``, for the page ``docs/rules.md``. No
   request reads it.
3. A package adds its own rows with ``add_rules``; a row with a known id replaces the earlier one.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

#: The grades of evidence for a rule, the strongest first.
GRADES = {
    "RUN": "run here", "REC": "recorded exchange", "OBS": "observed at the provider", "SRC": "read in source",
    "DOC": "documented", "ISS": "reported with its text", "TXT": "text found in public code", "INF": "inferred",
}  # fmt: skip


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """A source for a rule; ``date`` is the source's own date, or the month in which it was read.

    ``against``: the source contradicts the rule.
    """

    source: str
    date: str
    url: str = ""
    against: bool = False


class HoldsFor(Struct, frozen=True, forbid_unknown_fields=True):
    """To whom a rule applies: rows of the provider table, models, and settings as text; empty means all."""

    providers: tuple[str, ...] = ()
    models: str = ""
    setting: str = ""


class Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of an error text with which a provider refuses a request, and the repair with which the request is sent again."""

    pattern: str
    repair: str


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a provider.

    ``errors`` are the provider's error texts; ``repair`` describes the change that makes a request legal. ``code`` and ``tests``
    are paths below the package and ``tests/``.
    """

    id: str
    rule: str
    holds_for: HoldsFor
    repair: str
    grade: str
    evidence: tuple[Evidence, ...]
    errors: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    not_implemented: str = ""


@cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule by its id, in the order of the file."""
    data = Path(__file__).with_name("rules.json").read_bytes()
    return {rule.id: rule for rule in _read(data)}


def add_rules(rules: Iterable[Rule] | bytes) -> None:
    """Add a package's own rules, as values or as JSON of the form of ``rules.json``."""
    known = cast("dict[str, Rule]", all_rules())
    known.update((rule.id, rule) for rule in (_read(rules) if isinstance(rules, bytes) else rules))
    refusals.cache_clear()


@cache
def refusals() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    """Every pattern of a refusal, compiled, with the ids of its rule and its repair."""
    return tuple(
        (re.compile(each.pattern, re.IGNORECASE | re.DOTALL), rule.id, each.repair)
        for rule in all_rules().values()
        for each in rule.refusals
    )


def _read(data: bytes) -> list[Rule]:
    return msgspec.json.decode(data, type=list[Rule])


def source_of(rule: Rule) -> str:
    """The URL of the first source that supports the rule, else the source's name."""
    supporting = [each for each in rule.evidence if not each.against] or list(rule.evidence)
    found = next((each.url for each in supporting if each.url), "")
    return found or (supporting[0].source if supporting else "")
