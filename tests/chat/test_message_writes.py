"""What is kept when the store cannot be written, and what is exported and imported as files."""

import asyncio
import json
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chat.stage import Read, read_plainly, stage
from tests.runs.scene import text_of

from multi_llm_chat.archive.text_export import Format
from multi_llm_chat.chat._message_writes import title_of
from multi_llm_chat.chat.branch import plain_title
from multi_llm_chat.chat.display import logic_history_to_display
from multi_llm_chat.chat.transfer import (
    export_conversations,
    import_conversations,
    import_in_batches,
)
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Store, list_conversations, open_store, path, search


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Limit the size of files: writing beyond the limit fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_message_that_cannot_be_saved_is_refused_and_nothing_is_asked(
    read: Read, tmp_path: Path
) -> None:
    place = tmp_path / "c.db"
    with stage(store=place, claude=["A", "B", "C"]) as scene:
        service = scene.service
        read(service.process_message("one"))
        with files_no_larger_than(400_000), pytest.raises(StoreError, match="disk is full"):
            read(service.process_message("two " * 200_000))
        assert [role for role, _ in scene.words()] == ["user", "claude"]
        assert len(scene.simulators["claude"].requests) == 1
        assert service.answering == ()
        read(service.process_message("three"))
        assert service.is_saved
        assert service.store.run(path, service.conversation) == list(service.turns)
        assert len(service.turns) == 4


@pytest.mark.parametrize("form", ["json", "markdown", "text"])
def test_conversations_are_exported_one_or_all(form: Format) -> None:
    with stage(claude=["A1", "B1"]) as scene:
        service = scene.service
        read_plainly(service.process_message("first talk"))
        first = service.conversation
        service.open()
        read_plainly(service.process_message("second talk"))
        everything = service.store.run(export_conversations, None, form)
        one = service.store.run(export_conversations, [first], form)
        assert all(words in everything for words in ("first talk", "A1", "second talk", "B1"))
        assert "A1" in one
        assert "B1" not in one


def test_export_import_export_is_the_same_to_the_byte() -> None:
    with stage(claude=["A", "B", "C"], gemini=["G"]) as scene:
        service = scene.service
        read_plainly(service.process_message("@all hi"))
        read_plainly(service.regenerate(service.turns[-1].id or ""))
        service.open()
        read_plainly(service.process_message("@claude 日本語"))
        first = service.store.run(export_conversations)
    with open_store(":memory:") as other:
        report = other.run(import_conversations, first.encode())
        assert report.problems == ()
        assert other.run(export_conversations) == first
        again = other.run(import_conversations, first.encode())
        assert set(again.conversations).isdisjoint(report.conversations)
        assert len(other.run(list_conversations).conversations) == 4


def test_nothing_is_half_written() -> None:
    with open_store(":memory:") as store:
        with pytest.raises(UsageError):
            store.run(import_conversations, b"not a file of conversations")
        assert store.run(list_conversations).conversations == ()


def test_what_could_be_read_of_a_broken_file_is_in_and_the_rest_is_reported() -> None:
    document = [
        {"uuid": "a", "name": "Good", "chat_messages": [{"uuid": "1", "sender": "human", "text": "Hello there"}]},
        {"uuid": "b", "name": "Bad", "chat_messages": "?"},
    ]  # fmt: skip
    with open_store(":memory:") as store:
        report = store.run(import_conversations, json.dumps(document).encode())
        assert len(report.conversations) == 1
        assert len(report.problems) == 1
        assert [hit.title for hit in store.run(search, "hello")] == ["Good"]


def test_history_is_shown_in_pairs_with_marks() -> None:
    history: list[Any] = [
        {"role": "system", "content": "x"},
        {"role": "user", "content": "Weather?"},
        {"role": "claude", "content": [{"type": "text", "content": "I look."}, {"type": "tool_call", "name": "w", "arguments": {}, "tool_call_id": "1"}]},
        {"role": "tool", "content": [{"type": "tool_result", "name": "w", "content": "sunny", "tool_call_id": "1"}]},
        {"role": "claude", "content": "Sunny."},
        {"role": "gemini", "content": "Indeed."},
        {"role": "user", "content": "A memo"},
    ]  # fmt: skip
    assert logic_history_to_display(history) == [
        ["Weather?", "**claude:** I look.\n[Tool Call: w]\n\n[Tool Result: w] sunny\n\nSunny.\n\n**gemini:** Indeed."],
        ["A memo", None],
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "claude", "gemini", "tool", "system"]), st.text(min_size=1)
        )
    )
)
def test_every_word_is_shown(said: list[tuple[str, str]]) -> None:
    turns = [Turn(role, (Text(words),)) for role, words in said]
    shown = logic_history_to_display(read_history(turns))
    everything = "\n".join(half for pair in shown for half in pair if half)
    assert all(words in everything for role, words in said if role != "system")


def test_an_import_in_batches_writes_what_one_transaction_writes(tmp_path: Path):
    documents = [
        {"title": f"chat {number}", "turns": [{"role": "user", "content": "x"}] * (number * 2)}
        for number in range(1, 60)
    ]
    data = [(f"{number}.json", json.dumps(each).encode()) for number, each in enumerate(documents)]
    with open_store(str(tmp_path / "a.db")) as one, open_store(str(tmp_path / "b.db")) as many:
        whole = one.run(import_conversations, data)
        batched = asyncio.run(import_in_batches(many, data))
        assert len(batched.conversations) == len(whole.conversations) == 59
        assert batched.problems == whole.problems
        titles = [store.run(export_conversations, None, "text") for store in (one, many)]
        assert titles[0] == titles[1]


def test_a_long_conversation_is_imported_in_short_transactions_and_shown_when_it_is_whole(
    tmp_path: Path,
):
    """Another user waits for at most one of its transactions; an interrupted import's turns are not shown."""
    turns = [{"role": "user", "content": f"word{number}"} for number in range(1_000)]
    document = {"title": "long", "turns": turns}
    data = json.dumps(document).encode()
    # The beginning, fifty times twenty turns, and the end.
    for fails_at in (1, 2, 11, 52, None):
        with open_store(str(tmp_path / f"{fails_at}.db")) as store:
            steps = _CountedStore(store, fails_at)
            if fails_at is None:
                report = asyncio.run(import_in_batches(cast("Store", steps), data))
                (written,) = report.conversations
                assert [text_of(turn) for turn in store.run(path, written)] == [
                    f"word{number}" for number in range(1_000)
                ]
                assert store.run(search, "word999")
            else:
                with pytest.raises(StoreError):
                    asyncio.run(import_in_batches(cast("Store", steps), data))
                assert store.run(list_conversations, which="both").conversations == ()
        assert steps.count == (fails_at or 52)


class _CountedStore:
    """A store whose N-th transaction fails."""

    def __init__(self, store: Store, fails_at: int | None) -> None:
        self._store = store
        self._fails_at = fails_at
        self.count = 0

    async def arun(self, operation: Any, *arguments: Any) -> Any:
        self.count += 1
        if self.count == self._fails_at:
            raise StoreError("The disk is full.", reason="full")
        return await self._store.arun(operation, *arguments)


PLAIN = st.lists(st.text("abcxyz", min_size=1, max_size=6), min_size=1, max_size=4).map(" ".join)


@given(st.lists(st.tuples(PLAIN, st.sampled_from(["{}", "**{}**", "*{}*", "__{}__", "_{}_", "***{}***", "~~{}~~", "`{}`", "``{}``", "[{}](https://a.example/b_c)", "![{}](c.png \"d\")"])), min_size=1, max_size=3), st.sampled_from(["", "# ", "> ", "- ", "1. ", "```text\n"]))  # fmt: skip
def test_a_title_has_the_words_of_a_message_without_its_marks(
    pieces: list[tuple[str, str]], begin: str
):
    words = " ".join(words for words, _ in pieces)
    marked = begin + " ".join(form.format(words) for words, form in pieces)
    title = title_of([Turn("user", (Text(marked),))])
    assert title == words if len(words) <= 60 else words.startswith(title[:-1])


@given(PLAIN, st.integers(1, 40))
def test_a_title_that_an_earlier_version_cut_is_shown_without_its_marks(words: str, length: int):
    stored = f"**{words} and more words**"[: length + 2].rstrip() + "…"
    assert "**" not in plain_title(stored) or stored in ("**…", "** …")


@pytest.mark.parametrize(
    "text",
    ["snake_case and __init__.py", "2 * 3 * 4", "a ** b", "@claude #1 [x]", "*", "```", "C#"],
)
def test_a_title_keeps_signs_that_mark_nothing(text: str):
    assert title_of([Turn("user", (Text(text),))]) == text
