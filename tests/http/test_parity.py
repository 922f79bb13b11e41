"""With and without ``async`` the same bytes give the same events, however they are cut."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asking import ASKERS, HISTORY, Outcome, failure_facts
from tests.protocol.corpus import Case, cases
from tests.servers import ScriptedServer, Send, chunk, head, serving, streamed

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.retry import ONCE

PROVIDERS = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
CASES = cases()


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with serving(streamed(b"")) as made:
        yield made


def expected(case: Case) -> Outcome:
    """What the exchange alone makes of the whole stream."""
    exchange = Exchange(HISTORY, PROVIDERS[case.dialect])
    events = exchange.receive(case.stream)
    try:
        events += exchange.end()
    except ProviderError as failure:
        return Outcome(events, None, failure)
    return Outcome(events, None, None)


def provider(server: ScriptedServer, case: Case) -> LLMProvider:
    name = PROVIDERS[case.dialect]
    return create_provider(name, base_url=server.url, api_key="k", retry=ONCE)


def placeless(value: Any, keys: tuple[str, ...] = ("origin",)) -> Any:
    """The value as JSON, without the origins of native items and extras: they name the server's port."""
    if isinstance(value, (list, tuple)):
        return [placeless(each, keys) for each in cast("list[Any]", value)]
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        entry = cast("dict[str, Any]", value)
        return {key: placeless(each, keys) for key, each in entry.items() if key not in keys}
    return value


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_both_drivers_give_what_the_exchange_gives(server: ScriptedServer, case: Case) -> None:
    server.play(streamed([case.stream]))
    wanted = expected(case)
    for asker in ASKERS.values():
        outcome = asker.stream(provider(server, case))
        assert placeless(outcome.events) == placeless(wanted.events)
        assert failure_facts(outcome.failure) == failure_facts(wanted.failure)


@settings(max_examples=60)
@given(case=st.sampled_from(CASES), cuts=st.lists(st.integers(0, 4000), max_size=8), data=st.data())
def test_the_cuts_do_not_matter(
    server: ScriptedServer, case: Case, cuts: list[int], data: st.DataObject
) -> None:
    places = sorted({0, len(case.stream), *(cut for cut in cuts if cut < len(case.stream))})
    pieces = [case.stream[start:stop] for start, stop in pairwise(places)]
    # Written in other pieces than those of the chunked encoding.
    written = b"".join([head(Transfer_Encoding="chunked"), *map(chunk, pieces), b"0\r\n\r\n"])
    halves = data.draw(st.integers(0, len(written)))
    server.play([Send(written[:halves]), Send(written[halves:])])
    wanted = expected(case)
    for asker in ASKERS.values():
        outcome = asker.stream(provider(server, case))
        assert placeless(outcome.events) == placeless(wanted.events)
        assert failure_facts(outcome.failure) == failure_facts(wanted.failure)
