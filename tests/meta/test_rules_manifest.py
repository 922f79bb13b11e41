"""``docs/rules.md`` says what is true: every rule is kept and tested where the page says, and none is missing."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
CODE = ROOT / "src" / "multi_llm_chat"
TESTS = ROOT / "tests"

#: How many rows each section of the catalogue has.
SECTIONS = {
    "OAI": 23, "RSP": 14, "ANT": 27, "GEM": 22, "GRQ": 7, "CER": 3, "FWK": 2, "MIS": 13, "DSK": 7,
    "XAI": 4, "ORT": 4, "OLL": 8, "VLL": 8, "LCP": 8, "AZR": 3, "STR": 17,
}  # fmt: skip
CATALOGUE = {f"{name}-{row:02}" for name, rows in SECTIONS.items() for row in range(1, rows + 1)}
#: A row 99 stands for "no such rule" in tests of lookups.
ID = re.compile(rf"\b(?:{'|'.join(SECTIONS)})-(?:(?!99)\d\d|DOC|JSON)\b")


class Row(Struct, frozen=True):
    """A line of the page."""

    id: str
    rule: str
    implemented: str
    tests: str

    @property
    def missing(self) -> str:
        """Why the rule is not implemented; empty when it is."""
        return self.implemented.partition("not implemented: ")[2]


def rows(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and ID.fullmatch(cells[0]):
            yield Row(*cells)


ROWS = list(rows(PAGE.read_text(encoding="utf-8")))
DONE = [row for row in ROWS if not row.missing]


def paths(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def words_of(path: Path) -> str:
    """The text of a file, or of the JSON files below a folder."""
    if path.is_dir():
        return "\n".join(words_of(file) for file in sorted(path.rglob("*.json")))
    return path.read_text(encoding="utf-8")


def sources(folder: Path) -> list[Path]:
    return [
        path for path in [*folder.rglob("*.py"), *folder.rglob("*.json")] if path != Path(__file__)
    ]


def identity(row: Row) -> str:
    return row.id


def test_no_rule_is_listed_twice():
    listed = [row.id for row in ROWS]
    assert sorted(set(listed)) == sorted(listed)


def test_every_rule_of_the_catalogue_is_listed():
    assert CATALOGUE - {row.id for row in ROWS} == set()


def test_every_rule_named_in_code_or_tests_is_listed():
    listed = {row.id for row in ROWS}
    named = {
        (path.relative_to(ROOT).as_posix(), rule)
        for folder in (CODE, TESTS)
        for path in sources(folder)
        for rule in ID.findall(words_of(path))
        if rule not in listed
    }
    assert named == set()


@pytest.mark.parametrize("row", DONE, ids=identity)
def test_a_rule_is_named_by_the_tests_that_are_said_to_show_it(row: Row):
    named = paths(row.tests)
    assert named
    for name in named:
        assert row.id in words_of(TESTS / name), f"{name} does not name {row.id}"


@pytest.mark.parametrize("row", DONE, ids=identity)
def test_a_rule_is_implemented_in_a_module_that_exists(row: Row):
    named = paths(row.implemented)
    assert named
    assert [name for name in named if not (CODE / name).is_file()] == []


def test_what_is_not_implemented_has_a_reason():
    assert {row.id for row in ROWS if row.missing} == {"ANT-27", "OLL-07"}
    assert [row.id for row in ROWS if row.missing and len(row.missing) < 20] == []


def test_every_row_says_what_the_rule_is():
    assert [row.id for row in ROWS if len(row.rule) < 10] == []
