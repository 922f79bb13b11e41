"""Custom providers: subclasses that override ``call_api``, ``ask`` or ``format_history``, and plain objects."""

# The classes here are written as an application would write them, against the earlier systems' contract.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnnecessaryTypeIgnoreComment=false, reportUnknownLambdaType=false, reportPrivateUsage=false

import asyncio
import importlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.asking import HISTORY, Asker
from tests.cli.commands import Shell

from multi_llm_chat import (
    ChatService,
    LLMProvider,
    ModelRequest,
    ToolRegistry,
    UsageError,
    create_provider,
    execute_with_tools_sync,
    register_provider,
)
from multi_llm_chat.agent import providers as factories
from multi_llm_chat.agent.providers import (
    ClaudeProvider,
    FallbackProvider,
    GeminiProvider,
    PluginProvider,
    as_provider,
)
from multi_llm_chat.chat.speakers import configured_speakers
from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, Finish, ResponseEvent, TextDelta, ToolCallEnd, Usage
from multi_llm_chat.history.values import Text, Thinking, ToolCall
from multi_llm_chat.history_utils import normalize_history_turns
from multi_llm_chat.metering import model_windows
from multi_llm_chat.protocol.dialect_registry import DIALECTS, register_dialect
from multi_llm_chat.protocol.providers import ROWS, ProviderRow, provider_row
from multi_llm_chat.testing.simulator import Say, Simulator

Chunk = dict[str, Any]


class EchoProvider(LLMProvider):
    """The earlier systems' contract: only ``call_api``."""

    def call_api(
        self, history: Any, system_prompt: str | None = None, tools: Any = None
    ) -> Generator[Chunk]:
        last = normalize_history_turns(history)[-1]["content"][0]
        if tools and last["type"] == "text":
            call = {"name": tools[0]["name"], "arguments": {"city": last["content"]}}
            yield {"type": "tool_call", "content": call}
            return
        yield {"type": "text", "content": "You said: "}
        yield {"type": "text", "content": str(last["content"])}


class EventProvider:
    """A plug-in that is not a subclass: ``ask``, with events."""

    model = "event-1"

    async def ask(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        last = request.turns[-1].parts[0]
        yield TextDelta("Event: ")
        yield TextDelta(last.content if isinstance(last, Text) else "?")
        yield Usage(3, 2)
        yield Finish("stop")


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    """Undo a test's registrations at its end."""
    tables: Any = (
        factories._FACTORIES,
        ROWS,
        DIALECTS,
        model_windows._REGISTERED,
    )
    copies = [dict(table) for table in tables]
    yield
    for table, copy in zip(tables, copies, strict=True):
        table.clear()
        table.update(copy)


MAKERS: dict[str, Any] = {
    "a subclass with call_api": EchoProvider,
    "an object with ask": lambda: PluginProvider(EventProvider(), "event"),
}


@pytest.fixture(params=MAKERS, ids=str)
def made(request: pytest.FixtureRequest) -> LLMProvider:
    return MAKERS[request.param]()


def said(provider: LLMProvider) -> str:
    return "Event: Hello?" if isinstance(provider, PluginProvider) else "You said: Hello?"


def test_every_way_of_asking_uses_the_code(made: LLMProvider, asker: Asker):
    streamed = asker.stream(made)
    assert streamed.reply is not None
    assert streamed.reply.text == said(made)
    assert "".join(e.text for e in streamed.events if isinstance(e, TextDelta)) == said(made)
    assert isinstance(streamed.events[-1], Finish)
    completed = asker.complete(made)
    assert completed.reply is not None
    assert (completed.reply.text, completed.reply.turn.role) == (said(made), made.speaker)
    chunks = asker.call_api(made)
    assert "".join(chunk["content"] for chunk in chunks) == said(made)
    assert [model.id for model in asker.list_models(made)] == [made.model]


def test_it_has_a_name_a_speaker_and_messages():
    echo = EchoProvider()
    assert (echo.name, echo.speaker) == ("echo", "echo")
    assert echo.format_history(HISTORY) == [{"role": "user", "content": "Hello?"}]
    assert echo.get_token_info("Hello?")


def test_a_conversation_a_chain_and_all_use_the_code(made: LLMProvider):
    chain = FallbackProvider([made, GeminiProvider(api_key="k")])
    chain.set_up(speaker="chain")
    other = EchoProvider(speaker="other")
    with ChatService({made.speaker: made, "chain": chain, "other": other}) as chat:
        for event in chat.process_message("@all Hello?"):
            assert event is not None
        answers = {turn.role: turn.parts[0] for turn in chat.turns[1:]}
    assert answers["other"] == Text("You said: Hello?")
    assert answers[made.speaker] == Text(said(made))
    assert len(chat.turns) == 4


def test_a_chain_goes_to_the_next_when_the_code_fails(asker: Asker):
    class Broken(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            raise ConnectionError("no route")

    outcome = asker.stream(FallbackProvider([Broken(), EchoProvider()]))
    assert outcome.reply is not None
    assert outcome.reply.text == "You said: Hello?"
    assert [note.message for note in outcome.reply.notes if "broken" in note.message]


def test_the_agentic_loop_runs_its_tools():
    tools = ToolRegistry()

    @tools.tool
    def weather(city: str) -> str:
        """The weather."""
        return f"Sunny in {city}"

    result = execute_with_tools_sync(EchoProvider(), HISTORY, tools)
    assert result.final_text == "You said: Sunny in Hello?"
    call = next(part for part in result.history_delta[0].parts if isinstance(part, ToolCall))
    assert call.tool_call_id


def test_the_default_of_a_replaced_method_asks_the_network(asker: Asker):
    class Polite(GeminiProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            yield {"type": "text", "content": "Please: "}
            yield from super().call_api(history, system_prompt, tools)

    class Counting(GeminiProvider):
        async def ask(self, request: ModelRequest) -> AsyncIterator[Event]:
            async for event in super().ask(request):
                yield event
                if isinstance(event, TextDelta):
                    yield TextDelta("!")

    with Simulator({"gemini": [Say("sit."), Say("sit.")]}) as simulator:
        base = simulator.base_url("gemini")
        polite = asker.stream(Polite(api_key="k", base_url=base))
        counting = asker.stream(Counting(api_key="k", base_url=base))
    assert polite.reply is not None
    assert counting.reply is not None
    assert polite.reply.text == "Please: sit."
    assert counting.reply.text == "sit.!"
    assert counting.reply.usage.output_tokens > 0


def test_messages_of_ones_own_are_sent_as_they_are(asker: Asker):
    class Shouting(LLMProvider):
        default_provider = "openai-chat"

        @staticmethod
        def format_history(history: Any) -> Any:
            return [{"role": "user", "content": str(history[-1]["content"][0]["content"]).upper()}]

    with Simulator({"openai-chat": [Say("Fine."), Say("Fine.")]}) as simulator:
        provider = Shouting(api_key="k", base_url=simulator.base_url("openai-chat"))
        outcome = asker.stream(provider, system_prompt="Be kind.")
        assert asker.call_api(provider) == [{"type": "text", "content": "Fine."}]
        first, second = simulator.requests
    assert outcome.reply is not None
    assert first.body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "HELLO?"},
    ]
    assert second.body["messages"] == [{"role": "user", "content": "HELLO?"}]
    assert any("format_history" in note.message for note in outcome.reply.notes)


def test_format_history_belongs_to_the_class_too():
    contents = GeminiProvider.format_history(HISTORY)
    assert contents == [{"role": "user", "parts": [{"text": "Hello?"}]}]
    assert contents == GeminiProvider().format_history(HISTORY)
    with pytest.raises(ValueError, match="must be a list or string"):
        ClaudeProvider.format_history([{"role": "user", "content": {"text": "bad"}}])


def test_an_object_with_call_api_will_do_and_so_will_a_replaced_method(asker: Asker):
    """The earlier systems' tests set the return value of a provider's ``call_api``."""
    chunks: list[Chunk] = [
        {"type": "text", "content": "Hello"},
        {"type": "tool_call", "content": {"name": "search", "arguments": {"q": "test"}}},
    ]

    class Stand:
        def call_api(self, *_: Any, **__: Any) -> Iterator[Chunk]:
            return iter(chunks)

    outcome = asker.stream(as_provider(Stand(), "gemini"))
    assert outcome.reply is not None
    assert (outcome.reply.text, outcome.reply.turn.role) == ("Hello", "gemini")
    assert [(call.name, call.arguments) for call in outcome.reply.tool_calls] == [
        ("search", {"q": "test"})
    ]
    replaced = GeminiProvider(api_key="k")
    replaced.call_api = Stand().call_api  # pyright: ignore[reportAttributeAccessIssue]
    again = asker.complete(replaced)
    assert again.reply is not None
    assert again.reply.text == "Hello"


def test_a_subclass_need_not_call_our_init(asker: Asker):
    class Bare(EchoProvider):
        def __init__(self) -> None:
            self.model = "mine"

    outcome = asker.complete(Bare())
    assert outcome.reply is not None
    assert (outcome.reply.text, outcome.reply.turn.model) == ("You said: Hello?", "mine")


def test_what_the_code_raises_is_a_provider_error_without_secrets(asker: Asker):
    class Failing(LLMProvider):
        default_provider = "openai"

        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            yield {"type": "text", "content": "So far"}
            raise RuntimeError("bad key sk-secret-value")

    outcome = asker.stream(Failing(api_key="sk-secret-value"))
    assert isinstance(outcome.failure, ProviderError)
    assert "RuntimeError" in str(outcome.failure)
    assert "sk-secret" not in str(outcome.failure)
    assert outcome.failure.partial is not None
    assert outcome.failure.partial.parts == (Text("So far"),)


def test_settings_that_the_code_cannot_take_are_noted(asker: Asker):
    class Short(LLMProvider):
        def call_api(self, history: Any) -> Any:
            yield "short"

    outcome = asker.complete(Short(), system_prompt="Be kind.", options={"temperature": 0.5})
    assert outcome.reply is not None
    assert {note.message.split(":")[0] for note in outcome.reply.notes} == {
        "did not send system_prompt",
        "did not send options",
    }


def test_a_reader_that_leaves_ends_the_generator():
    closed = threading.Event()

    class Endless(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            try:
                while True:
                    yield "more "
            finally:
                closed.set()

    async def leave() -> None:
        async with Endless().astream(HISTORY) as stream:
            async for _ in stream:
                break

    asyncio.run(leave())
    assert closed.wait(20)


_WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_CHUNKS = st.lists(
    st.one_of(
        _WORDS,
        st.builds(lambda text: {"type": "text", "content": text}, _WORDS),
        st.builds(lambda text: {"type": "thinking", "content": text}, _WORDS),
        st.builds(
            lambda name, key: {"type": "tool_call", "content": {key: name, "arguments": {"a": 1}}},
            st.sampled_from(["search", "now"]),
            st.sampled_from(["name", "tool_name"]),
        ),
        st.builds(TextDelta, _WORDS),
    ),
    max_size=12,
)


@given(_CHUNKS)
def test_nothing_of_any_chunks_is_lost(chunks: list[Any]):
    class Any_(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            yield from chunks

    reply = Any_().complete(HISTORY)
    words = [
        chunk if isinstance(chunk, str) else chunk.text if isinstance(chunk, TextDelta) else chunk["content"]
        for chunk in chunks
        if not (isinstance(chunk, dict) and chunk["type"] != "text")
    ]  # fmt: skip
    thoughts = [c["content"] for c in chunks if isinstance(c, dict) and c["type"] == "thinking"]
    calls = [c for c in chunks if isinstance(c, dict) and c["type"] == "tool_call"]
    assert reply.text == "".join(words)
    found = [part.content for part in reply.turn.parts if isinstance(part, Thinking)]
    assert "".join(found) == "".join(thoughts)
    assert len(reply.tool_calls) == len(calls)
    assert len({call.tool_call_id for call in reply.tool_calls}) == len(calls)
    assert reply.finish.reason == ("tool_calls" if calls else "stop")


# By name.


def test_a_registered_class_of_either_kind_takes_what_settings_it_knows():
    register_provider("mine", EventProvider)
    mine = create_provider("mine", model="big", speaker="Bob")
    assert (mine.name, mine.model, mine.speaker) == ("mine", "big", "Bob")
    register_provider("echo2", EchoProvider)
    assert (create_provider("echo2").name, create_provider("echo2").speaker) == ("echo2", "echo2")
    with pytest.raises(UsageError, match="'mine' takes no base_url"):
        create_provider("mine", base_url="http://localhost")
    register_provider("none", object)
    with pytest.raises(UsageError, match="neither ask nor call_api"):
        create_provider("none")
    with pytest.raises(UsageError, match="a class, a function or a ProviderRow"):
        register_provider("number", 7)  # pyright: ignore[reportArgumentType]


def test_a_package_brings_a_row_its_dialect_and_its_windows(asker: Asker):
    row = ProviderRow(
        name="acme",
        dialect="acme_chat",
        speaker="acme",
        base_url="https://acme.example/v1",
        default_model="acme-9",
        key_variable="ACME_API_KEY",
    )
    register_provider("acme", row, windows={"acme-*": 77_000})
    with pytest.raises(UsageError, match="no known dialect"):
        create_provider("acme")
    register_dialect("acme_chat", DIALECTS["openai_chat"])
    with Simulator({"openai-chat": [Say("Acme here.")]}) as simulator:
        provider = create_provider("acme", api_key="k", base_url=simulator.base_url("openai-chat"))
        outcome = asker.complete(provider)
    assert outcome.reply is not None
    assert (outcome.reply.text, outcome.reply.turn.role) == ("Acme here.", "acme")
    assert model_windows.window_of("acme-9").tokens == 77_000
    assert provider_row("acme") == row


MINE = """
class Mine:
    def __init__(self, model="mine-1"):
        self.model = model
    def call_api(self, history, system_prompt=None, tools=None):
        yield {"type": "text", "content": f"{self.model} heard: {history[-1]['content'][0]['content']}"}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mine_llm.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("mine_llm", None)


CONFIG = """
default_speaker = "mine"
[speakers.mine]
provider = "mine_llm:Mine"
model = "mine-2"
[speakers.first]
provider = ["mine_llm:Mine", "claude"]
"""


def test_a_configured_path_is_a_speaker(package: Path):
    speakers = configured_speakers(parse_settings(CONFIG), Keys(secrets=MemorySecrets()))
    with ChatService(speakers, settings=parse_settings(CONFIG)) as chat:
        list(chat.process_message("Hello?"))
        list(chat.process_message("@first Hello?"))
    texts = [turn.parts[0] for turn in chat.turns if turn.role != "user"]
    assert texts == [Text("mine-2 heard: Hello?"), Text("mine-1 heard: Hello?")]


def test_a_path_that_leads_nowhere_is_named():
    for path, why in [
        ("no_such_module:Mine", "cannot be loaded"),
        ("json:Nothing", "cannot be loaded"),
        ("json:dumps", "no class of a provider"),
        ("json:JSONEncoder", "no class of a provider"),
    ]:
        with pytest.raises(UsageError, match=why):
            create_provider(path)


def test_the_command_line_asks_it(package: Path):
    (package / "config").mkdir()
    (package / "config" / "config.toml").write_text(CONFIG, encoding="utf-8")
    mlc = Shell(package, PYTHONPATH=":".join([str(package), *sys.path]))

    def output(*words: str) -> str:
        with mlc.start(*words) as process:
            printed, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        return printed.decode()

    assert output("ask", "-m", "mine", "Hello?") == "mine-2 heard: Hello?\n"
    findings = json.loads(output("doctor", "--json"))
    assert {f["name"]: f["state"] for f in findings if f["area"] == "speaker"} == {
        "mine": "ok",
        "first": "ok",
    }


def test_tools_reach_the_code_in_mcp_form():
    seen: list[Any] = []

    class Seeing(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            seen.append((history, system_prompt, tools))
            yield "ok"

    tool = {"name": "now", "description": "The time", "inputSchema": {"type": "object"}}
    Seeing().complete(HISTORY, "Be kind.", [tool])
    history, prompt, tools = seen[0]
    assert history == [{"role": "user", "content": [{"type": "text", "content": "Hello?"}]}]
    assert prompt == "Be kind."
    assert [(each["name"], each["description"]) for each in tools] == [("now", "The time")]
    assert "inputSchema" in tools[0]


def test_calls_of_a_stream_end_with_their_call(asker: Asker):
    class Calling(LLMProvider):
        def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
            yield {"type": "tool_call", "content": {"name": "now", "arguments": "{}"}}

    events = asker.stream(Calling()).events
    assert [event.call.name for event in events if isinstance(event, ToolCallEnd)] == ["now"]
