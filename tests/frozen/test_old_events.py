"""Journals and ``--jsonl`` are written to the letter; what version 4 wrote is rewritten, and its names stay."""

import json
from typing import Any, get_args

import pytest
from tests.frozen.meanings import JOURNAL, JSONL, OLD_JOURNAL
from tests.frozen.samples import lines_of

from multi_llm_chat.event_codec import read_row, write_event, write_row
from multi_llm_chat.events import Event, MessageFinished, MessageSaved
from multi_llm_chat.store._tables import rewritten
from multi_llm_chat.store.transaction import read_json, write_json

STORED = lines_of("journal.jsonl")
STREAMED = lines_of("jsonl_events.jsonl")
OLD_STORED = lines_of("old_journal.jsonl")
OLD_STREAMED = lines_of("old_jsonl_events.jsonl")

#: What the events of version 4 are called today.
RENAMED = {
    "answer_started": "run_started",
    "answer_resumed": "run_resumed",
    "answer_finished": "run_finished",
    "answer_failed": "run_failed",
    "turn_saved": "turn_finished",
    "not_saved": "run_waiting",
    "delayed": "run_waiting",
}
#: Fields that have another name today, or none.
RENAMED_FIELDS = {("run_waiting", "error"), ("run_waiting", "provider"), ("run_waiting", "seconds")}


def test_there_is_a_sample_of_every_kind():
    kinds = set(get_args(Event))
    assert {type(event) for event in JSONL} == kinds
    assert {type(event) for event in JOURNAL} == kinds - {MessageSaved, MessageFinished}


@pytest.mark.parametrize(("line", "event"), list(zip(STORED, JOURNAL, strict=True)))
def test_a_stored_event_is_read_and_written(line: str, event: Event):
    assert read_row(read_json(line)) == event
    assert write_json(write_row(event)) == line


@pytest.mark.parametrize(("line", "event"), list(zip(STREAMED, JSONL, strict=True)))
def test_a_streamed_event_is_written(line: str, event: Event):
    assert json.dumps(write_event(event), ensure_ascii=False) == line


@pytest.mark.parametrize(("line", "event"), list(zip(OLD_STORED, OLD_JOURNAL, strict=True)))
def test_an_old_row_is_rewritten(line: str, event: Event | None):
    assert read_row(rewritten(read_json(line))) == event


def test_an_old_failure_gets_the_error_of_its_run():
    row = read_json(next(line for line in OLD_STORED if '"failed"' in line))
    error = {"kind": "Overloaded", "message": "busy"}
    assert rewritten(row, json.dumps(error))["error"] == error


def test_a_stored_event_of_an_unknown_kind_is_skipped():
    assert read_row({"type": "later", "more": True}) is None


@pytest.mark.parametrize("line", OLD_STREAMED)
def test_a_program_that_read_the_old_lines_finds_their_fields(line: str):
    old: dict[str, Any] = json.loads(line)
    kind = RENAMED.get(old["type"], old["type"])
    samples = [json.loads(each) for each in STREAMED]
    fields = {name for sample in samples if sample["type"] == kind for name in sample}
    assert {name for name in old if (kind, name) not in RENAMED_FIELDS} <= fields
