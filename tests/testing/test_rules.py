"""Each rule of the catalogue refuses its minimal offender and takes its repaired counterpart."""

import json

import pytest
from tests.testing import anthropic_cases, gemini_cases, openai_cases, row_cases
from tests.testing.cases import Case

from multi_llm_chat.testing import PROVIDERS, Violation, error_body, validate

CASES: list[Case] = [
    *openai_cases.CHAT_CASES,
    *openai_cases.RESPONSES_CASES,
    *anthropic_cases.CASES,
    *gemini_cases.CASES,
    *row_cases.CASES,
]
_IDENTITIES = [case.identity for case in CASES]

#: Rules that no request body shows: server flags, the other side of the wire, opaque payloads.
_NOT_IN_A_BODY = {
    "OAI-03", "OAI-04",  # worded and tested as OAI-01 and OAI-02
    "RSP-04", "RSP-13",  # which reasoning belonged to an item; what is allowed
    "ANT-27",  # Bedrock
    "GEM-06", "GEM-07",  # genuineness and history of signatures
    "GRQ-04", "GRQ-05", "DSK-02", "XAI-04", "ORT-01", "ORT-04", "AZR-02",  # replies
    "OLL-07",  # the native endpoint
    "VLL-04", "LCP-05", "LCP-08",  # flags of the server
}  # fmt: skip
_SIZES = {
    "OAI": 23, "RSP": 14, "ANT": 27, "GEM": 22, "GRQ": 7, "CER": 3, "FWK": 2, "MIS": 13, "DSK": 7,
    "XAI": 4, "ORT": 4, "OLL": 8, "VLL": 8, "LCP": 8, "AZR": 3,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=_IDENTITIES)
def test_the_offender_is_refused_by_its_rule(case: Case) -> None:
    found = validate(case.provider, case.rejected, model=case.model)
    assert found
    assert found[0].rule == case.rule
    assert case.text in found[0].message
    assert found[0].status == case.status


@pytest.mark.parametrize("case", CASES, ids=_IDENTITIES)
def test_the_repaired_counterpart_is_accepted(case: Case) -> None:
    assert validate(case.provider, case.accepted, model=case.model) == []


def test_no_case_has_the_name_of_another() -> None:
    assert len(set(_IDENTITIES)) == len(_IDENTITIES)


def test_every_rule_that_a_body_can_show_has_a_case() -> None:
    wanted = {f"{prefix}-{n:02}" for prefix, size in _SIZES.items() for n in range(1, size + 1)}
    assert wanted - _NOT_IN_A_BODY - {case.rule for case in CASES} == set()


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_provider_wraps_an_error(provider: str) -> None:
    body = error_body(provider, Violation("X-01", "it is wrong", 400, "messages", "code"))
    assert "it is wrong" in json.dumps(body)


def test_an_unknown_provider_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="Unknown provider 'nobody'"):
        validate("nobody", {})
