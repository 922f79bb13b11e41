"""A fallback chain: when a provider fails, the next one takes over the conversation."""

import threading

import pytest
from tests.agent.replies import TEXT, stream_of, whole_of
from tests.asking import Asker
from tests.servers import PATIENCE, Reset, Script, ScriptedServer, serving, streamed, whole

from multi_llm_chat.agent.providers import FallbackProvider, LLMProvider, create_provider
from multi_llm_chat.errors import Overloaded, ProviderError, Refused, StreamBroken, UsageError
from multi_llm_chat.protocol.retry import RetryPolicy

SWIFT = RetryPolicy(attempts=2, first_wait=0.0)
HISTORY = [
    {"role": "user", "content": "Who are you?"},
    {"role": "claude", "content": "I am Claude."},
    {"role": "user", "content": "Go on."},
]


def members(first: ScriptedServer, second: ScriptedServer) -> list[LLMProvider]:
    return [
        create_provider("claude", base_url=first.url, api_key="k", retry=SWIFT),
        create_provider("gemini", base_url=second.url, api_key="k", retry=SWIFT),
    ]


@pytest.mark.parametrize(
    "trouble", [whole({}, 529), whole({}, 401), [Reset()], whole({"error": "prompt is too long"}, 400)]
)  # fmt: skip
def test_the_next_answers_and_has_the_history(asker: Asker, trouble: Script) -> None:
    with serving(trouble) as first, serving(stream_of("gemini")) as second:
        outcome = asker.stream(FallbackProvider(members(first, second)), HISTORY)
    assert outcome.reply is not None
    assert outcome.reply.text == TEXT
    assert outcome.reply.provider == "gemini"
    assert outcome.reply.turn.role == "gemini"
    assert [note.message for note in outcome.reply.notes if "next provider" in note.message]
    contents = second.requests[0].json["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [{"text": "I am Claude."}]


def test_with_labels_the_others_words_stay_the_others(asker: Asker) -> None:
    with serving(whole({}, 529)) as first, serving(whole_of("gemini")) as second:
        chain = FallbackProvider(members(first, second), foreign="label")
        outcome = asker.complete(chain, HISTORY)
    assert outcome.reply is not None
    assert "[claude] I am Claude." in second.requests[0].body.decode()


def test_the_first_answers_while_it_can(asker: Asker) -> None:
    with serving(whole_of("anthropic")) as first, serving(whole_of("gemini")) as second:
        outcome = asker.complete(FallbackProvider(members(first, second)), HISTORY)
    assert outcome.reply is not None
    assert outcome.reply.provider == "anthropic"
    assert second.connections == 0


def test_a_reply_that_has_begun_is_not_started_again_by_the_next_provider(asker: Asker) -> None:
    begun = stream_of("anthropic")[1]
    cut = streamed([], ending=[begun, Reset()])
    with serving(cut) as first, serving(stream_of("gemini")) as second:
        # The whole stream arrives in one chunk before the connection is lost: the reply is complete.
        assert asker.stream(FallbackProvider(members(first, second)), HISTORY).reply is not None
    delta = (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\n'
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"I"}}\n\n'
    )
    with serving(streamed([delta], ending=[Reset()])) as first, serving(whole({})) as second:
        outcome = asker.stream(FallbackProvider(members(first, second)), HISTORY)
    assert isinstance(outcome.failure, StreamBroken)
    assert second.connections == 0


def test_when_all_fail_the_last_failure_is_raised(asker: Asker) -> None:
    with serving(whole({}, 529)) as first, serving(whole({}, 503)) as second:
        outcome = asker.stream(FallbackProvider(members(first, second)), HISTORY)
    assert isinstance(outcome.failure, Overloaded)
    assert outcome.failure.status == 503


def test_a_refusal_is_an_answer(asker: Asker) -> None:
    refusal = {"error": {"type": "invalid_request_error", "code": "content_policy_violation"}}
    with serving(whole(refusal, 400)) as first, serving(whole_of("gemini")) as second:
        outcome = asker.complete(FallbackProvider(members(first, second)), HISTORY)
    assert isinstance(outcome.failure, Refused)
    assert second.connections == 0


def test_stopping_while_the_first_is_waited_for_does_not_ask_the_next() -> None:
    with (
        serving(whole({}, 429, Retry_After="50")) as first,
        serving(whole({})) as second,
        FallbackProvider(members(first, second)) as chain,
    ):
        stream = chain.stream(HISTORY)
        stopper = threading.Thread(target=lambda: (first.asked.wait(PATIENCE), stream.stop()))
        stopper.start()
        with pytest.raises(ProviderError, match=r"429|stopped here"):  # whichever comes first
            list(stream)
        stopper.join(PATIENCE)
        assert second.connections == 0


def test_a_chain_is_made_from_names(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = create_provider(["claude", "gemini"], retry=SWIFT)
    assert isinstance(chain, FallbackProvider)
    assert [member.name for member in chain.members] == ["anthropic", "gemini"]
    assert repr(chain) == "FallbackProvider(anthropic, gemini)"
    with pytest.raises(UsageError, match="own model"):
        create_provider(["claude", "gemini"], model="x")
    with pytest.raises(UsageError, match="at least one"):
        create_provider([])
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        chain.stream(HISTORY)
