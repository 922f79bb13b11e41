"""What is asked in one process and answered in another."""

import pytest

from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import Store, begin_run, create, delete, end_run, read_standing
from multi_llm_chat.store.questions import Question, answer_question, ask, withdraw

PATIENCE_MS = 60_000


@pytest.fixture
def run(store: Store) -> str:
    """An answer that is being given."""
    store.run(create, "Title", identifier="c")
    return store.run(begin_run, "c", "claude", base=None)


def shown(store: Store) -> tuple[Question, ...]:
    standing = store.run(read_standing, "c")
    assert standing is not None
    return standing.questions


@pytest.mark.usefixtures("run")
def test_a_question_is_shown_until_it_is_answered_and_the_first_answer_counts(store: Store):
    first, second = Question("1", {"tool": "東京"}), Question("2", {"tool": "\ud800"})
    assert store.run(ask, "c", second, PATIENCE_MS) is None
    assert store.run(ask, "c", first, PATIENCE_MS) is None
    assert shown(store) == (first, second)
    assert store.run(answer_question, "c", "1", {"allow": "once"})
    assert not store.run(answer_question, "c", "1", {"deny": "no"})
    assert shown(store) == (second,)
    assert store.run(ask, "c", first, PATIENCE_MS) == {"allow": "once"}
    assert store.run(ask, "c", second, PATIENCE_MS) is None
    store.run(withdraw, "2")
    assert shown(store) == ()
    assert not store.run(answer_question, "c", "2", {"allow": "once"})


@pytest.mark.usefixtures("run")
def test_a_question_whose_asker_is_gone_is_nobodys(store: Store):
    question, other = Question("1", {}), Question("2", {})
    store.run(ask, "c", question, -1)
    assert shown(store) == ()
    assert not store.run(answer_question, "c", "1", {"allow": "once"})
    store.run(ask, "c", other, PATIENCE_MS)  # forgets the first
    store.run(ask, "c", question, PATIENCE_MS)  # who was only held up asks again
    assert shown(store) == (question, other)


def test_what_nobody_answers_any_more_is_not_asked(store: Store, run: str):
    store.run(ask, "c", Question("1", {}), PATIENCE_MS)
    store.run(end_run, run, "cancelled")
    assert shown(store) == ()


@pytest.mark.usefixtures("run")
def test_only_the_user_answers_and_only_where_it_was_asked(store: Store):
    store.run(ask, "c", Question("1", {}), PATIENCE_MS)
    somebody = store.as_user("somebody else")
    with pytest.raises(StoreError):
        somebody.run(answer_question, "c", "1", {"allow": "once"})
    somebody.run(create, identifier="d")
    assert not somebody.run(answer_question, "d", "1", {"allow": "once"})
    store.run(delete, "c")
    with pytest.raises(StoreError):
        store.run(ask, "c", Question("1", {}), PATIENCE_MS)
