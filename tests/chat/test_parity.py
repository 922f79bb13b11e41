"""The same happens with and without ``async``; and context windows are respected."""

import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chat.stage import Read, read_async, read_plainly, stage

from multi_llm_chat.config.settings import ContextSettings, Settings
from multi_llm_chat.events import Event, HistoryCompressed, RunFailed, RunFinished
from multi_llm_chat.testing.simulator import Call, Disconnect, Say, Status
from multi_llm_chat.tools import ToolRegistry

TOOLS = ToolRegistry()


@TOOLS.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


replies = st.sampled_from(
    [
        Say("Fine."),
        Say("Two and two", calls=[Call("add", {"a": 2, "b": 2}), Call("add", {"a": "x"})]),
        Say(calls=[Call("unknown")]),
        Say("Cut off here", faults=[Disconnect(after_frames=5)]),
        Say(thinking="Hm.", text="Thought."),
        Status(529),
        Status(400, "no such thing"),
    ]
)
messages = st.sampled_from(["@claude hi", "memo", "@all hello", "@gemini you"])


def shape(event: Event) -> Any:
    """Return an event without what differs from run to run: ids, times, addresses."""
    match event:
        case RunFinished():
            return (event.speaker, "finished", event.stop_reason)
        case RunFailed():
            return (event.speaker, "failed", event.error.kind)
        case _:
            return (event.speaker, type(event).__name__)


def happens(
    read: Read, said: Sequence[str], claude: Sequence[Any], gemini: Sequence[Any]
) -> tuple[list[list[Any]], list[Any], list[Any]]:
    with stage(tools=TOOLS, claude=claude, gemini=gemini) as scene:
        events = [sorted(map(repr, map(shape, read(scene.service.process_message(text))))) for text in said]  # fmt: skip
        turns = sorted(
            (turn.role, re.sub(r"127.0.0.1:\d+", "", repr(turn.parts)), turn.meta.get("partial"))
            for turn in scene.service.turns
        )
        records = [(run.speaker, run.status) for run in scene.service.answers()]
        return events, turns, sorted(records)


@settings(max_examples=15)
@given(
    st.lists(messages, min_size=1, max_size=3),
    st.lists(replies, min_size=12, max_size=12),
    st.lists(replies, min_size=12, max_size=12),
)
def test_both_ways_give_the_same_events_turns_and_records(
    said: list[str], claude: list[Any], gemini: list[Any]
) -> None:
    claude, gemini = [*claude, *["End."] * 40], [*gemini, *["End."] * 40]
    plain = happens(read_plainly, said, claude, gemini)
    assert happens(read_async, said, claude, gemini) == plain


def test_a_long_conversation_is_compressed_visibly_and_that_can_be_undone(read: Read) -> None:
    small = Settings(context=ContextSettings(windows={"*": 6_000}))
    with stage(small, claude=["ok"] * 30) as scene:
        service = scene.service
        events: list[Event] = []
        for number in range(12):
            events = read(service.process_message(f"number {number} " + "word " * 600))
        notes = [event for event in events if isinstance(event, HistoryCompressed)]
        sent = json.dumps(scene.body("claude"))
        assert "number 11 " in sent
        assert "number 0 " not in sent
        assert any("compressed" in turn.meta for turn in service.turns)
        assert len(service.turns) == 24
        texts = "".join(note.note.text for note in notes)
        assert not notes or "History shortened" in texts
        service.configure(compress=False)
        read(service.process_message("all of it"))
        assert "number 0 " in json.dumps(scene.body("claude"))
