"""Hostile files are read or refused within limits; the kit is public."""

import pytest

from multi_llm_chat.archive.importer import read_conversations
from multi_llm_chat.data_limits import ARCHIVE_LIMITS, MEGABYTE, Limits
from multi_llm_chat.errors import UsageError
from multi_llm_chat.testing.hostile_files import HOSTILE_FILES

SMALL = Limits(total_bytes=8 * MEGABYTE, item_bytes=8 * MEGABYTE, values=400_000, parts=5_000)

#: Files that are large or slow to create; the others are a sample.
LARGE = {"a zip bomb", "a zip bomb of lists", "many lists", "a zip that lies", "a long chain"}


def outcome(data: bytes, limits: Limits) -> tuple[str, bool]:
    """Return the refusal's message, and whether anything was read or reported."""
    try:
        imported = read_conversations(data, limits=limits)
    except UsageError as refusal:
        return str(refusal), False
    return "", bool(imported.conversations or imported.problems)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.fault] * (name in LARGE)) for name in HOSTILE_FILES],
)
def test_a_hostile_file_is_read_or_refused(name: str):
    data = HOSTILE_FILES[name]()
    for limits in (SMALL, ARCHIVE_LIMITS):
        words, is_read = outcome(data, limits)
        assert len(words) < 1000
        assert words or is_read


def test_the_table_of_files_is_long_enough():
    assert len(HOSTILE_FILES) >= 30
