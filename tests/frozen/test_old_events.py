"""Journals and ``--jsonl`` output of the first format are read and written to the letter."""

import json
from typing import Any, get_args

import pytest
from tests.frozen.old_events import ANSWER, JOURNAL, JSONL
from tests.frozen.samples import lines_of

from multi_llm_chat.client.agent_events import AgentEvent
from multi_llm_chat.durable.stream import StreamEvent, read_stream_event, write_stream_event
from multi_llm_chat.service.encoding import write_event
from multi_llm_chat.service.events import ChatEvent

STORED = lines_of("old_journal.jsonl")
STREAMED = lines_of("old_jsonl_events.jsonl")


def kinds(events: Any) -> set[type]:
    return {type(event) for event in events}


def test_there_is_a_sample_of_every_kind():
    assert kinds(JOURNAL) == set(get_args(StreamEvent))
    assert kinds(ANSWER) == set(get_args(AgentEvent))
    assert kinds(JSONL) == set(get_args(ChatEvent))


@pytest.mark.parametrize(("line", "event"), list(zip(STORED, JOURNAL, strict=True)))
def test_a_stored_event_is_read_and_written(line: str, event: StreamEvent):
    assert read_stream_event(line) == event
    assert write_stream_event(event) == line


@pytest.mark.parametrize(("line", "event"), list(zip(STREAMED, JSONL, strict=True)))
def test_a_streamed_event_is_written(line: str, event: ChatEvent):
    assert json.dumps(write_event(event), ensure_ascii=False) == line


def test_a_stored_event_of_an_unknown_kind_is_skipped():
    assert read_stream_event('["later",1,{"more":true}]') is None
