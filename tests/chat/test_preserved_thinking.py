"""Claude's newest models bind thinking to the preceding content (ANT-28, ANT-29, ANT-31): no request is refused for that."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from multi_llm_chat import render
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.events import RunFailed
from multi_llm_chat.history.values import ToolCall, Turn
from multi_llm_chat.request import Transcript
from multi_llm_chat.testing.simulator import Call, RecordedRequest, Reply, Say, Simulator
from multi_llm_chat.testing.simulator.prefix_binding import PrefixBinding
from multi_llm_chat.tools import ToolRegistry

MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1")
EXCHANGES = 40


def answers() -> Iterator[Reply]:
    """Return replies that alternate between a call and an answer."""
    number = 0
    while True:
        number += 1
        yield Say(f"Let me look ({number}).", calls=[Call("look", {"at": number})])
        yield Say(f"It is {number}.")


class Stage:
    """A conversation with a strict Claude and two other speakers."""

    def __init__(
        self,
        service: ChatService,
        claude: PrefixBinding,
        simulator: Simulator,
        registry: ToolRegistry,
    ) -> None:
        self.service = service
        self.registry = registry
        self.claude = claude
        self.simulator = simulator

    def say(self, text: str) -> None:
        events = list(self.service.process_message(text))
        assert [event for event in events if isinstance(event, RunFailed)] == []


@contextmanager
def stage(model: str, settings: Settings | None = None) -> Generator[Stage]:
    replies = answers()

    def reply(_request: RecordedRequest) -> Reply:
        return next(replies)

    claude = PrefixBinding(reply)
    registry = ToolRegistry()

    def look(at: int) -> str:
        """Look at a place."""
        return f"seen {at}"

    registry.tool(look)
    others = Simulator(lambda _request: Say("I agree."))
    with Simulator(claude) as simulator, others:
        providers: dict[str, LLMProvider] = {
            "claude": create_provider(
                "anthropic", model=model, api_key="k", base_url=simulator.base_url("anthropic")
            ),
            "chatgpt": create_provider("openai", api_key="k", base_url=others.base_url("openai")),
            "gemini": create_provider("gemini", api_key="k", base_url=others.base_url("gemini")),
        }
        service = ChatService(providers, store=":memory:", tools=registry, settings=settings)
        try:
            yield Stage(service, claude, simulator, registry)
        finally:
            service.close()


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(model, marks=pytest.mark.judge) for model in MODELS[1:])]
)
def test_forty_exchanges_with_tools_replay_all_thinking(model: str) -> None:
    with stage(model) as at:
        for number in range(EXCHANGES):
            at.say(f"@claude question {number}")
        assert at.claude.refused == 0
        requests = len(at.simulator.requests)
        assert requests == 2 * EXCHANGES
        assert at.claude.recognised == sum(range(requests))  # every earlier block, each time


@pytest.mark.parametrize("model", MODELS[:1])
def test_a_changed_prompt_a_new_tool_and_a_shorter_history_refuse_nothing(model: str) -> None:
    with stage(model) as at:
        for number in range(EXCHANGES):
            if number == 10:
                at.service.configure(system_prompt="Be brief.")
            if number == 20:
                add_tool(at.registry)
            if number == 30:
                at.service.configure(system_prompt="Be long.")
            at.say(f"@claude question {number}")
        assert at.claude.refused == 0
        # Thinking since the last change is sent back.
        last = at.simulator.requests[-1].content
        assert 10 < last.count(b'"thinking":') < 2 * EXCHANGES


@pytest.mark.parametrize("model", MODELS[1:2])
def test_three_speakers_answer_and_take_over(model: str) -> None:
    with stage(model) as at:
        for number in range(EXCHANGES):
            speaker = ("@claude", "@all", "@gemini", "@claude", "@chatgpt")[number % 5]
            at.say(f"{speaker} question {number}")
        assert at.claude.refused == 0
        # Faster answers of other speakers do not change what was sent: every earlier block is sent back each time.
        assert at.claude.recognised == sum(range(len(at.simulator.requests)))


def test_a_changed_prompt_changes_nothing_before_it() -> None:
    with stage(MODELS[0]) as at:
        for number in range(12):
            if number % 4 == 3:
                at.service.configure(system_prompt=f"Be brief ({number}).")
            at.say(f"@all question {number}")
        assert at.claude.refused == 0
        requests = at.simulator.requests
        assert at.claude.recognised == sum(range(len(requests)))
        assert len({str(request.body.get("system")) for request in requests}) == 1
        assert b"Be brief (11)." in requests[-1].content


def test_ant_29_the_head_of_the_history_is_cut() -> None:
    with stage(MODELS[0]) as at, at.service.speakers["claude"].provider as provider:
        history: list[Any] = []
        for number in range(EXCHANGES):
            history.append({"role": "user", "content": f"question {number}"})
            if number % 7 == 6:
                history = history[4:]
            history.append(provider.complete(history).turn)
            calls = history[-1].parts[-1]
            result = {
                "type": "tool_result",
                "name": "look",
                "content": "seen",
                "tool_call_id": getattr(calls, "tool_call_id", ""),
            }
            if result["tool_call_id"]:
                history.append({"role": "tool", "content": [result]})
                history.append(provider.complete(history).turn)
        assert at.claude.refused == 0
        assert at.claude.recognised > EXCHANGES


def result_of(turn: Turn) -> dict[str, Any]:
    """Return the turn with the results for this turn's calls."""
    results = [
        {"type": "tool_result", "name": part.name, "content": f"seen {part.tool_call_id}", "tool_call_id": part.tool_call_id}
        for part in turn.parts
        if isinstance(part, ToolCall)
    ]  # fmt: skip
    return {"role": "tool", "content": results}


@pytest.mark.parametrize("continues", [True, False])
@pytest.mark.parametrize(
    "arrives", ["behind the other speaker", "after Claude's next answer", "never"]
)
def test_another_speaker_answers_while_calls_are_open(arrives: str, continues: bool) -> None:
    """A handover inside a tool loop: Claude's calls are unanswered while Gemini speaks, and their results come later or never."""
    question: dict[str, Any] = {"role": "user", "content": "And now?"}
    with stage(MODELS[0]) as at, at.service.speakers["claude"].provider as provider:
        history: list[Any] = []
        sent: Transcript | None = None

        def ask() -> Turn:
            nonlocal sent
            reply = provider.complete(history, previous=sent if continues else None)
            sent = reply.transcript
            return reply.turn

        for number in range(EXCHANGES // 4):
            history.append({"role": "user", "content": f"question {number}"})
            asked = ask()
            late = result_of(asked)
            history += [asked, {"role": "gemini", "content": f"I would say {number}."}]
            if arrives == "behind the other speaker":
                history.append(late)
            else:
                history.append(question)
            history.append(ask())
            if arrives == "after Claude's next answer" and late["content"]:
                history.append(late)
        history.append(question)
        ask()
        assert at.claude.refused == 0
        assert at.claude.recognised > 0


def test_ant_31_another_model_gets_no_thinking() -> None:
    with stage(MODELS[0]) as at, at.service.speakers["claude"].provider as provider:
        question = {"role": "user", "content": "hi"}
        turn = provider.complete([question]).turn
        history = [question, turn, question]
        origin: dict[str, Any] = {"base_url": at.simulator.base_url("anthropic")}
        own = render(history, "anthropic", model=MODELS[0], **origin).body
        other = render(history, "anthropic", model=MODELS[1], **origin).body
    assert own["messages"][1]["content"][0]["type"] == "thinking"
    assert "thinking" not in str(other["messages"])


def add_tool(registry: ToolRegistry) -> None:
    def measure(length: int) -> int:
        """Measure a length."""
        return length

    registry.tool(measure)
