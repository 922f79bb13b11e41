"""The central property, rule by rule: what we send instead of what the provider would refuse.

Every row is tested twice: the request of a client that knows no rules violates the rule, so the row is
meaningful; and our request for the same input is exactly what the row says, and legal.
"""

import copy
import json

import pytest
from tests.rules import anthropic, compatible, gemini, local_servers, openai_chat, openai_responses
from tests.rules.case import ABSENT, RuleCase

from multi_llm_chat.testing.validators import validate

CASES: list[RuleCase] = [
    *openai_chat.CASES,
    *openai_responses.CASES,
    *anthropic.CASES,
    *gemini.CASES,
    *compatible.CASES,
    *local_servers.CASES,
]
VISIBLE = [case for case in CASES if not case.unseen]


def identity(case: RuleCase) -> str:
    return case.identity


@pytest.mark.sample(64)
@pytest.mark.parametrize("case", CASES, ids=identity)
def test_the_request_keeps_the_rule(case: RuleCase) -> None:
    before = copy.deepcopy(case.history)
    rendered = case.render()
    body = rendered.body
    sent = {key: body.get(key, ABSENT) for key in case.sends}
    assert sent == case.sends
    assert tuple(note.rule for note in rendered.notes) == case.notes
    if case.names is not None:
        assert rendered.names == case.names
    if case.ids is not None:
        assert rendered.ids == case.ids
    assert validate(case.provider, body, model=rendered.model) == []
    json.dumps(body, allow_nan=False).encode()
    assert case.history == before, "the input was changed"


@pytest.mark.sample(32)
@pytest.mark.parametrize("case", VISIBLE, ids=identity)
def test_a_client_that_knows_no_rules_breaks_it(case: RuleCase) -> None:
    found = validate(case.provider, case.naive, model=case.model)
    assert found, "the naive request is legal: the row proves nothing"
    assert found[0].rule == (case.breaks or case.rule), found


def test_no_row_has_the_name_of_another() -> None:
    assert len({case.identity for case in CASES}) == len(CASES)


def test_a_row_without_a_naive_request_says_why() -> None:
    assert [case.identity for case in CASES if (case.naive is None) == (not case.unseen)] == []
