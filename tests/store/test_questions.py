"""Questions that one process asks and another one answers."""

import pytest

from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import (
    Fence,
    Store,
    begin_run,
    create,
    delete,
    end_run,
    read_conversation_state,
    release_run,
    take_run,
)
from multi_llm_chat.store.questions import Question, answer_question, ask, read_answer, withdraw

PATIENCE_MS = 60_000


def question(identifier: str, asker: str = "worker") -> Question:
    return Question(identifier, asker, {"tool": "東京 \ud800"})


@pytest.fixture
def run(store: Store) -> str:
    """Create a run for a worker."""
    store.run(create, "Title", identifier="c")
    run_id = store.run(begin_run, "c", "claude", base=None)
    store.run(take_run, run_id, "worker", PATIENCE_MS)
    return run_id


def shown(store: Store) -> list[str]:
    state = store.run(read_conversation_state, "c")
    assert state is not None
    assert all(each == question(each.id, each.asker) for each in state.questions)
    return [each.id for each in state.questions]


@pytest.mark.usefixtures("run")
def test_a_question_is_shown_until_it_is_answered_and_the_first_answer_counts(store: Store):
    for identifier in ("2", "1", "1"):
        store.run(ask, "c", question(identifier))
    assert shown(store) == ["1", "2"]
    assert store.run(read_answer, "1") is None
    assert store.run(answer_question, "c", "1", {"allow": "once"})
    assert not store.run(answer_question, "c", "1", {"deny": "no"})
    assert shown(store) == ["2"]
    assert store.run(read_answer, "1") == {"allow": "once"}
    store.run(withdraw, "2")
    assert shown(store) == []
    assert not store.run(answer_question, "c", "2", {"allow": "once"})
    assert store.run(read_answer, "2") is None


def test_questions_about_a_run_that_another_process_has_taken_are_closed(store: Store, run: str):
    store.run(ask, "c", question("1"))
    store.run(ask, "c", question("0", "work"))  # not the owner: a name with the same prefix
    assert shown(store) == ["1"]
    store.run(release_run, Fence(run, 1))
    assert shown(store) == []
    store.run(take_run, run, "other", PATIENCE_MS)
    assert shown(store) == []
    assert not store.run(answer_question, "c", "1", {"allow": "once"})
    store.run(ask, "c", question("2", "other"))
    assert shown(store) == ["2"]
    assert store.run(lambda transaction: transaction.rows("SELECT id FROM questions")) == [("2",)]


def test_a_question_without_an_asker_is_not_open(store: Store, run: str):
    store.run(ask, "c", question("1"))
    store.run(end_run, run, "cancelled")
    assert shown(store) == []


@pytest.mark.usefixtures("run")
def test_only_the_user_answers_and_only_where_it_was_asked(store: Store):
    store.run(ask, "c", question("1"))
    other = store.as_user("another user")
    with pytest.raises(StoreError):
        other.run(answer_question, "c", "1", {"allow": "once"})
    other.run(create, identifier="d")
    assert not other.run(answer_question, "d", "1", {"allow": "once"})
    store.run(delete, "c")
    with pytest.raises(StoreError):
        store.run(ask, "c", question("2"))
