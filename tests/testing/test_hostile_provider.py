"""Whatever a provider does, every call ends with the right answer or a typed error, within its limits."""

from collections.abc import Generator

import pytest
from tests.asking import Asker, AsyncAsker, SyncAsker

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.data_limits import Limits
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.http import Timeouts
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.testing.hostile_provider import BEHAVIOURS, CORRECT, HostileProvider

KEY = "sk-very-secret-key"
DIALECTS = ("openai-chat", "openai", "anthropic", "gemini")
SMALL = Limits(total_bytes=600_000, item_bytes=300_000, error_bytes=20_000, values=5_000, parts=50)
SHORT = Timeouts(connect=20.0, first_event=0.4, read=0.4, total=1.5)
TWICE = RetryPolicy(attempts=2, first_wait=0.0)

ALL = [(name, dialect, kind) for name in BEHAVIOURS for dialect in DIALECTS for kind in ("sync", "async")]  # fmt: skip


@pytest.fixture(scope="module")
def hostile() -> Generator[HostileProvider]:
    with HostileProvider() as server:
        yield server


@pytest.mark.parametrize(
    ("name", "dialect", "kind"),
    [pytest.param(*case, id=" ".join(case)) for case in ALL],
)
def test_a_call_ends_with_the_right_answer_or_a_typed_error(
    hostile: HostileProvider, name: str, dialect: str, kind: str
):
    asker: Asker = SyncAsker() if kind == "sync" else AsyncAsker()
    provider = create_provider(
        dialect, base_url=hostile.url(name), api_key=KEY, retry=TWICE, timeouts=SHORT, limits=SMALL
    )
    outcome = asker.stream(provider)
    if outcome.failure is None:
        assert outcome.reply is not None
        assert len(outcome.reply.text) <= SMALL.total_bytes
    else:
        assert isinstance(outcome.failure, ProviderError)
        assert KEY not in str(outcome.failure)
        assert len(str(outcome.failure)) < 5_000
    if name in CORRECT:
        assert outcome.reply is not None, outcome.failure
        assert outcome.reply.text == "Hello"


def test_the_table_of_behaviours_is_long_enough():
    assert len(BEHAVIOURS) >= 60
    assert set(BEHAVIOURS) >= CORRECT
