"""Sent requests are kept, in memory and in the store, so that the next request begins with them (SPEC 2.9)."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.test_append_only import ENDS, steps
from tests.protocol.test_never_a_400 import TARGETS
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Rendered, render
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.events import RunFailed
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.request import Transcript
from multi_llm_chat.runs.transcripts import read_series, write_row
from multi_llm_chat.store import Store, open_store
from multi_llm_chat.store.runs import SentRow
from multi_llm_chat.testing.simulator import Call, RecordedRequest, Reply, Say, Simulator
from multi_llm_chat.testing.simulator.prefix_binding import PrefixBinding
from multi_llm_chat.tools import ToolRegistry

WORDS = "words " * 50
SPEAKERS = {"claude": "anthropic", "chatgpt": "openai", "gemini": "gemini"}


def tools() -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool
    def look(at: int) -> str:
        """Look at a place."""
        return f"seen {at}"

    return registry


def answer(request: RecordedRequest) -> Reply:
    """Reply to a user message with a call, and then with an answer."""
    is_answered = request.number % 2 == 1
    return Say(WORDS) if is_answered else Say(calls=[Call("look", {"at": request.number})])


def service(
    simulators: dict[str, Simulator], store: Store, conversation: str | None, prompt: str
) -> ChatService:
    providers: dict[str, LLMProvider] = {
        speaker: create_provider(
            provider,
            model="claude-opus-5-5" if provider == "anthropic" else None,
            api_key="k",
            base_url=simulators[speaker].base_url(provider),
        )
        for speaker, provider in SPEAKERS.items()
    }
    settings = Settings(system_prompt=prompt)
    return ChatService(
        providers, store=store, tools=tools(), settings=settings, conversation=conversation
    )


def check_prefixes(requests: Sequence[RecordedRequest]) -> None:
    """Check that each request has the messages of the previous one, except its last one."""
    for before, after in pairwise(requests):
        key = next(name for name in ("messages", "input", "contents") if name in before.body)
        sent: list[Any] = before.body[key][:-1]
        assert after.body[key][: len(sent)] == sent
        heads = [
            [request.body.get(name) for name in ("instructions", "systemInstruction")]
            for request in (before, after)
        ]
        assert heads[0] == heads[1]


@pytest.mark.parametrize(
    "opens_anew", [False, True], ids=["one process", "a process for each message"]
)
def test_a_conversation_continues_behind_what_was_sent(tmp_path: Path, opens_anew: bool) -> None:
    claude = PrefixBinding(answer)
    place = tmp_path / "chats.db"
    with (
        Simulator(claude) as first,
        Simulator(answer) as second,
        Simulator(answer) as third,
    ):
        simulators = {"claude": first, "chatgpt": second, "gemini": third}
        identifier: str | None = None
        store = open_store(place)
        chat = service(simulators, store, identifier, "Be kind.")
        for number in range(10):
            if opens_anew and number:
                chat.close()
                store.close()
                store = open_store(place)
                chat = service(simulators, store, identifier, "Be kind.")
            # The history alone does not show when the prompt was changed.
            if number == 4:
                chat.configure(system_prompt="Be brief.")
            events = list(chat.process_message(f"@all question {number}: {WORDS}"))
            assert [event for event in events if isinstance(event, RunFailed)] == []
            identifier = chat.conversation
        chat.close()
        store.close()
        assert claude.refused == 0
        assert claude.recognised == sum(range(len(first.requests)))
        for simulator in simulators.values():
            assert len(simulator.requests) == 20
            check_prefixes(list(simulator.requests))


def test_rows_are_appended_and_not_written_again(tmp_path: Path) -> None:
    with Simulator(answer) as simulator, open_store(tmp_path / "chats.db") as store:
        simulators = dict.fromkeys(SPEAKERS, simulator)
        with service(simulators, store, None, "Be kind.") as chat:
            for number in range(12):
                list(chat.process_message(f"@gemini question {number}: {WORDS}"))
        with closing(sqlite3.connect(tmp_path / "chats.db")) as connection:
            found = connection.execute("SELECT length(content) FROM transcripts ORDER BY key")
            sizes = [size for (size,) in found]
    assert len(sizes) == 24
    # A row has only what its request added, however long the conversation is.
    assert sizes[-2] < 1.05 * sizes[4]
    assert sizes[-1] < 1.05 * sizes[5]
    assert sum(sizes) < 3 * len(simulator.requests[-1].content) + 24 * 1500


def test_damaged_rows_are_passed_over(tmp_path: Path) -> None:
    place = tmp_path / "chats.db"
    with Simulator(answer) as simulator:
        simulators = dict.fromkeys(SPEAKERS, simulator)
        with open_store(place) as store, service(simulators, store, None, "Be kind.") as chat:
            list(chat.process_message("@gemini hi"))
            identifier = chat.conversation
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("UPDATE transcripts SET content = x'93010203'")
            connection.commit()
        with open_store(place) as store, service(simulators, store, identifier, "Be kind.") as chat:
            events = list(chat.process_message("@gemini hi again"))
    assert [event for event in events if isinstance(event, RunFailed)] == []


@given(history=nasty_histories, ends=ENDS, target=st.sampled_from(TARGETS))
def test_a_transcript_from_rows_is_continued_like_the_one_that_was_written(
    history: list[Any], ends: list[int], target: tuple[str, str]
) -> None:
    provider, model = target
    rows: list[SentRow] = []
    before: Transcript | None = None
    for turns in steps(read_history(history), ends):
        written: Rendered = render(turns, provider, model=model, previous=before)
        (read,) = read_series(rows) if rows else (None,)
        again = render(turns, provider, model=model, previous=read and read.transcript)
        assert again.content == written.content
        transcript = written.transcript
        assert transcript is not None
        if not transcript.kept:
            rows, before = [], None
        rows.append(SentRow("t", "s", len(rows), write_row(before, transcript)))
        before = transcript


def test_ant_46_rows_have_the_changes_of_tools() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    turns: list[Any] = []
    rows: list[SentRow] = []
    before: Transcript | None = None
    for number, names in enumerate((["look", "find"], ["look"], ["look", "find"])):
        turns += [{"role": "user", "content": f"question {number}"}]
        offered = [{"name": name, "description": name, "inputSchema": schema} for name in names]
        written = render(
            turns, "anthropic", model="claude-opus-5-5", tools=offered, previous=before
        )
        transcript = written.transcript
        assert transcript is not None
        assert transcript.has_tool_changes == (number > 0)
        rows.append(SentRow("t", "s", number, write_row(before, transcript)))
        (read,) = read_series(rows)
        for name in Transcript.__struct_fields__:
            if name not in ("turns", "digests", "kept"):
                assert getattr(read.transcript, name) == getattr(transcript, name), name
        before = transcript
        turns += [{"role": "claude", "content": f"answer {number}"}]


def test_names_and_ids_that_are_no_valid_text_are_kept() -> None:
    call: dict[str, Any] = {"name": "\ud800", "arguments": {}, "tool_call_id": "\udfff"}
    turns: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "gemini", "content": [{"type": "tool_call", "content": call}]},
    ]
    transcript = render(read_history(turns), "gemini").transcript
    assert transcript is not None
    (read,) = read_series([SentRow("t", "s", 0, write_row(None, transcript))])
    assert read.transcript.names == transcript.names
    assert read.transcript.ids == transcript.ids
