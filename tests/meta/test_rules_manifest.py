"""``docs/rules.md`` says what is true: every rule has a source and a date, is kept and tested where the page says, and none is missing."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.rules.page import PAGE, SECTIONS, page

from multi_llm_chat.protocol._rejections import REPAIRS, find_rejection
from multi_llm_chat.protocol.rules import GRADES, Rule, add_rules, all_rules, source_of

ROOT = Path(__file__).parents[2]
CODE = ROOT / "src" / "multi_llm_chat"
TESTS = ROOT / "tests"

#: How many rows each section of the catalogue has.
COUNTS = {
    "OAI": 33, "RSP": 29, "ANT": 53, "GEM": 34, "GRQ": 9, "CER": 3, "FWK": 2, "MIS": 18, "DSK": 12, "XAI": 8, "ORT": 9,
    "OLL": 11, "VLL": 9, "LCP": 14, "AZR": 4, "BDR": 12, "VTX": 5, "KMI": 4, "QWN": 3, "ZAI": 4, "OTH": 4, "STR": 23,
}  # fmt: skip
CATALOGUE = {f"{name}-{row:02}" for name, rows in COUNTS.items() for row in range(1, rows + 1)}
#: A row 99 stands for "no such rule" in tests of lookups.
ID = re.compile(rf"\b(?:{'|'.join(COUNTS)})-(?:(?!99)\d\d|DOC|JSON)\b")
DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])(-\d\d)?")
RULES = list(all_rules().values())
DONE = [rule for rule in RULES if not rule.not_implemented]


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


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_rule_of_the_catalogue_is_there_once():
    listed = re.findall(
        r'^    "id": "([A-Z]{3}-\w+)"', words_of(CODE / "protocol" / "rules.json"), re.MULTILINE
    )
    assert sorted(set(listed)) == sorted(listed)
    assert CATALOGUE - set(listed) == set()
    assert set(COUNTS) == set(SECTIONS)


def lacks_of_source(rule: Rule) -> Iterator[str]:
    if not rule.evidence or not source_of(rule):
        yield "no source"
    for evidence in rule.evidence:
        if len(evidence.source) < 3:
            yield f"no source: {evidence}"
        if not DATE.fullmatch(evidence.date):
            yield f"no date: {evidence}"
        if evidence.url and not evidence.url.startswith("https://"):
            yield f"no https address: {evidence}"
    if not set(re.split(r"[/+]", rule.grade)) <= set(GRADES):
        yield f"unknown grade: {rule.grade}"


def test_every_rule_has_a_source_and_a_date():
    assert [(rule.id, lack) for rule in RULES for lack in lacks_of_source(rule)] == []


def test_every_error_text_of_a_rule_finds_its_repair():
    wrong: list[tuple[str, str, str]] = []
    for rule in RULES:
        repairs = {refusal.repair for refusal in rule.refusals}
        wrong += [(rule.id, repair, "unknown") for repair in repairs - set(REPAIRS)]
        for text in rule.errors if repairs else ():
            found = find_rejection(text)
            if found is None or found.repair not in repairs:
                wrong.append((rule.id, text, found.repair if found else "not found"))
    assert wrong == []


def test_a_package_brings_rules_of_its_own():
    own = Rule(
        "ACM-01", "No odd words", RULES[0].holds_for, "Leave them out", "DOC", RULES[0].evidence
    )
    with_text = rb"""[{"id": "ACM-02", "rule": "No even words", "holds_for": {}, "repair": "Leave them out", "grade": "DOC",
        "evidence": [{"source": "acme.example", "date": "2026-11"}], "refusals": [{"pattern": "even words", "repair": "drop_options"}]}]"""
    try:
        add_rules([own])
        add_rules(with_text)
        found = find_rejection("No EVEN words here")
        assert found is not None
        assert found.rule == "ACM-02"
        assert all_rules()["ACM-01"] == own
    finally:
        all_rules.cache_clear()
        add_rules([])
    assert find_rejection("No EVEN words here") is None


def test_every_rule_named_in_code_or_tests_is_listed():
    listed = {rule.id for rule in RULES}
    named = {
        (path.relative_to(ROOT).as_posix(), rule)
        for folder in (CODE, TESTS)
        for path in sources(folder)
        for rule in ID.findall(words_of(path))
        if rule not in listed
    }
    assert named == set()


def test_a_rule_is_named_by_the_tests_that_are_said_to_show_it():
    assert [rule.id for rule in DONE if not rule.tests] == []
    silent = [
        f"{name} does not name {rule.id}"
        for rule in DONE
        for name in rule.tests
        if rule.id not in words_of(TESTS / name)
    ]
    assert silent == []


def test_a_rule_is_implemented_in_a_module_that_exists():
    assert [rule.id for rule in DONE if not rule.code] == []
    missing = [
        (rule.id, name) for rule in DONE for name in rule.code if not (CODE / name).is_file()
    ]
    assert missing == []


def test_what_is_not_implemented_has_a_reason():
    missing = [rule for rule in RULES if rule.not_implemented]
    assert [rule.id for rule in missing if len(rule.not_implemented) < 20] == []
    assert [rule.id for rule in missing if rule.code or rule.tests] == []


def test_every_row_says_what_the_rule_is():
    assert [rule.id for rule in RULES if len(rule.rule) < 10] == []
