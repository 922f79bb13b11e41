"""The input cost of our requests compared with the lowest possible cost: lost prompt caches are expensive bugs."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from multi_llm_chat import render
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.events import RunFailed
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.testing.billing import BilledRequest, bill, least_bill
from multi_llm_chat.testing.simulator import Call, RecordedRequest, Reply, Say, Simulator
from multi_llm_chat.tools import ToolRegistry

PROVIDERS = {"claude": "anthropic", "chatgpt": "openai", "gemini": "gemini"}
#: Claude always; the others run in ``make judges``.
SPEAKERS = [
    "claude",
    *(pytest.param(each, marks=pytest.mark.judge) for each in ("chatgpt", "gemini")),
]
MODELS = {"anthropic": "claude-opus-5-5"}
PROMPT = "You are a careful assistant. " + "Think about what the user needs. " * 200
WORDS = "some words about the matter at hand, " * 20


def recorded(requests: list[RecordedRequest], provider: str) -> list[BilledRequest]:
    """Return the requests to one provider, ten seconds apart."""
    sent = [request for request in requests if request.provider == provider]
    return [
        BilledRequest(provider, request.body, 10.0 * number) for number, request in enumerate(sent)
    ]


@contextmanager
def conversation(
    answer: Callable[[RecordedRequest], Reply],
    settings: Settings,
    place: str = ":memory:",
    identifier: str | None = None,
) -> Generator[tuple[ChatService, Simulator]]:
    registry = ToolRegistry()

    def look(at: int) -> str:
        """Look at a place."""
        return f"seen {at}: {WORDS}"

    registry.tool(look)
    with Simulator(answer) as simulator:
        providers = {
            speaker: create_provider(
                provider,
                model=MODELS.get(provider),
                api_key="k",
                base_url=simulator.base_url(provider),
            )
            for speaker, provider in PROVIDERS.items()
        }
        service = ChatService(
            providers, store=place, tools=registry, settings=settings, conversation=identifier
        )
        try:
            yield service, simulator
        finally:
            service.close()


def say(service: ChatService, text: str) -> None:
    failed = [event for event in service.process_message(text) if isinstance(event, RunFailed)]
    assert failed == []


def numbered(first: int = 0) -> Callable[[RecordedRequest], Reply]:
    count: Iterator[int] = iter(range(first, 10_000))
    return lambda _request: Say(f"answer {next(count)}: {WORDS}")


def tool_session(speaker: str) -> list[RecordedRequest]:
    """Run fifty rounds of tools, sometimes with four calls, after one question."""
    rounds = iter(range(50))

    def answer(_request: RecordedRequest) -> Reply:
        number = next(rounds, None)
        if number is None:
            return Say("done")
        wanted = [Call("look", {"at": 10 * number + each}) for each in range(1 + number % 4)]
        return Say(f"round {number}", calls=wanted)

    settings = Settings(system_prompt=PROMPT)
    settings = replace(settings, tools=replace(settings.tools, max_iterations=100))
    with conversation(answer, settings) as (service, simulator):
        say(service, f"@{speaker} Look around.")
        return list(simulator.requests)


def chat(speaker: str) -> list[RecordedRequest]:
    """Send forty messages and get their answers."""
    with conversation(numbered(), Settings(system_prompt=PROMPT)) as (service, simulator):
        for number in range(40):
            say(service, f"@{speaker} question {number}: {WORDS}")
        return list(simulator.requests)


def three_speakers(_speaker: str) -> list[RecordedRequest]:
    """Let three speakers answer each message, and change the prompt once."""
    with conversation(numbered(), Settings(system_prompt=PROMPT)) as (service, simulator):
        for number in range(20):
            if number == 10:
                service.configure(system_prompt=f"{PROMPT} Be brief.")
            say(service, f"@all question {number}: {WORDS}")
        return list(simulator.requests)


def compaction(speaker: str) -> list[RecordedRequest]:
    """Run a chat that outgrows its window."""
    settings = Settings(system_prompt=PROMPT)
    settings = replace(settings, context=replace(settings.context, windows={"*": 24_000}))
    with conversation(numbered(), settings) as (service, simulator):
        for number in range(60):
            say(service, f"@{speaker} question {number}: {WORDS}")
        return list(simulator.requests)


def reopened(_speaker: str) -> list[RecordedRequest]:
    """Let three speakers answer each message, and send each message from another program."""
    with TemporaryDirectory() as folder:
        place, identifier = f"{folder}/chats.db", None
        requests: list[RecordedRequest] = []
        for number in range(20):
            with conversation(
                numbered(number), Settings(system_prompt=PROMPT), place, identifier
            ) as (service, simulator):
                say(service, f"@all question {number}: {WORDS}")
                identifier = service.conversation
                requests += simulator.requests
        return requests


SCENARIOS = [tool_session, chat, three_speakers, reopened, compaction]


@pytest.mark.parametrize("speaker", SPEAKERS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_input_costs_what_it_must(
    scenario: Callable[[str], list[RecordedRequest]], speaker: str
) -> None:
    requests = recorded(scenario(speaker), PROVIDERS[speaker])
    assert len(requests) >= 20
    paid, least = bill(requests), least_bill(requests)
    assert paid.cost <= 1.02 * least.cost
    assert paid.read >= 0.99 * least.read
    # Each request begins with the whole of an earlier one; only a compaction breaks the prefix.
    cuts = [charge.diverged_at for charge in paid.charges if charge.diverged_at is not None]
    assert len(cuts) <= (6 if scenario is compaction else 0)


@pytest.mark.parametrize("provider", PROVIDERS.values())
def test_a_client_without_memory_pays_the_same(provider: str) -> None:
    """Each request is rendered from scratch, as in a gateway."""
    turns = [Turn("user", (Text(WORDS),))]
    own = {name: speaker for speaker, name in PROVIDERS.items()}[provider]
    requests: list[BilledRequest] = []
    for number in range(40):
        body = render(
            turns, provider, model=MODELS.get(provider), system_prompt=PROMPT, conversation="",
            tools=[{"name": "look", "inputSchema": {"type": "object"}}],
        ).body  # fmt: skip
        requests.append(BilledRequest(provider, body, 10.0 * number))
        turns += [
            Turn(own, (Text(f"round {number}"), ToolCall("look", {"at": number}, f"c{number}"))),
            Turn("tool", (ToolResult("look", f"seen {WORDS}", f"c{number}"),)),
        ]
    paid, least = bill(requests), least_bill(requests)
    assert paid.cost <= 1.02 * least.cost
    assert paid.read >= 0.99 * least.read


def _corrupt(value: Any) -> Any:
    """Return the text with one character changed."""
    if isinstance(value, str):
        return value.replace("careful", "carefuL", 1)
    if isinstance(value, Mapping):
        return {key: _corrupt(each) for key, each in value.items()}  # type: ignore[reportUnknownVariableType]
    return [_corrupt(each) for each in value] if isinstance(value, list) else value  # type: ignore[reportUnknownVariableType]


@pytest.mark.parametrize("speaker", PROVIDERS)
def test_one_changed_byte_is_seen_in_the_bill(speaker: str) -> None:
    requests = recorded(chat(speaker), PROVIDERS[speaker])
    assert "careful" in str(requests[20].body)
    changed = [
        replace(request, body=_corrupt(request.body)) if number == 20 else request
        for number, request in enumerate(requests)
    ]
    before, after = bill(requests), bill(changed)
    assert after.cost > 1.05 * before.cost
    assert before.charges[20].diverged_at is None
    assert after.charges[20].diverged_at is not None
    assert after.charges[20].read < before.charges[20].read / 10


def test_a_cache_lasts_as_long_as_it_was_asked_for() -> None:
    mark = {"type": "ephemeral"}
    text = {"type": "text", "text": PROMPT * 2, "cache_control": mark}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": [text]}]}
    for ttl, at, is_read in ((None, 200, True), (None, 400, False), ("1h", 400, True)):
        text["cache_control"] = mark | ({"ttl": ttl} if ttl else {})
        first = BilledRequest("anthropic", body, 0)
        charges = bill([first, BilledRequest("anthropic", body, at)]).charges
        assert charges[0].written > 0
        assert (charges[1].read > 0) is is_read


def test_what_is_short_is_not_cached() -> None:
    text = {"type": "text", "text": "short", "cache_control": {"type": "ephemeral"}}
    request = BilledRequest("anthropic", {"messages": [{"role": "user", "content": [text]}]})
    assert [charge.written + charge.read for charge in bill([request, request]).charges] == [0, 0]
