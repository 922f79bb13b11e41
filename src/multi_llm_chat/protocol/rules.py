"""The rules of the providers, as data.

Rules:
1. ``rules.json`` has one row per rule: what it demands and of whom, the provider's own words when it is broken, the repair,
   where that is known from, and which code and tests keep it. A rule that is not kept says why.
2. The file is read once, when a row is first needed: after a refusal, by ``mlc doctor``, by the page ``docs/rules.md``. No
   request reads it.
3. A package brings its own rows with ``add_rules``; a row whose id is known replaces that one.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

#: How a rule is known, the strongest first.
GRADES = {
    "RUN": "run here", "REC": "recorded exchange", "OBS": "observed at the provider", "SRC": "read in source",
    "DOC": "documented", "ISS": "reported with its text", "TXT": "text found in public code", "INF": "inferred",
}  # fmt: skip


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a rule is known from; ``date`` is the source's own day, or the month in which it was read.

    ``against``: the source shows that the rule does not hold there.
    """

    source: str
    date: str
    url: str = ""
    against: bool = False


class HoldsFor(Struct, frozen=True, forbid_unknown_fields=True):
    """Of whom a rule is demanded: rows of the provider table, models and settings in words; empty means all."""

    providers: tuple[str, ...] = ()
    models: str = ""
    setting: str = ""


class Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    """A text by which a provider refuses a request (a pattern), and the repair with which it is sent again."""

    pattern: str
    repair: str


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a provider.

    ``errors`` are the provider's own words; ``repair`` says in words what makes a request legal. ``code`` and ``tests`` are
    paths below the package and ``tests/``.
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
    """Every text by which a provider refuses, compiled, with the ids of the rule and of the repair."""
    return tuple(
        (re.compile(each.pattern, re.IGNORECASE | re.DOTALL), rule.id, each.repair)
        for rule in all_rules().values()
        for each in rule.refusals
    )


def _read(data: bytes) -> list[Rule]:
    return msgspec.json.decode(data, type=list[Rule])


def source_of(rule: Rule) -> str:
    """The address of the first source that supports the rule, else its name."""
    supporting = [each for each in rule.evidence if not each.against] or list(rule.evidence)
    found = next((each.url for each in supporting if each.url), "")
    return found or (supporting[0].source if supporting else "")
