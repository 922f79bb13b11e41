"""The embedded model as a provider: a history in, events out.

Rules:
1. Creating a ``LocalModel`` is cheap; its file is loaded when it first answers, once per process.
2. Mistakes of the caller are raised at once, before the model runs.
3. ``stream`` and ``astream`` yield the same events; closing either stops the model.
4. The id of a call is made from its position in the history, and no earlier call has it.
"""

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from multi_llm_chat.events import Event, Finish, TextDelta, ThinkingDelta, ToolCallEnd, Usage
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject, Part, Text, Thinking, ToolCall, Turn
from multi_llm_chat.local._answer import AnswerTask, answer
from multi_llm_chat.local._engine import GenerationSink, LlamaEngine, Runtime, Work, load_engine
from multi_llm_chat.local._generation import EngineClient
from multi_llm_chat.local._prompt import read_prompt
from multi_llm_chat.local._tool_choice import Example, Router, make_offers, router_for
from multi_llm_chat.local.catalogue import PROVIDER, ModelRow, notice_of
from multi_llm_chat.local.locations import installed, locate
from multi_llm_chat.protocol.request_settings import read_options
from multi_llm_chat.repair.policy import RepairPolicy
from multi_llm_chat.request import Options
from multi_llm_chat.schema.dialect_rules import LLAMACPP
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.schema.tool_schema import project_schema

_DEFAULT_LENGTH = 512

Load = Callable[[Path, int], LlamaEngine]


class Completed(Struct, frozen=True):
    """A whole answer."""

    turn: Turn
    usage: Usage
    finish: Finish


class QuestionSettings(TypedDict, total=False):
    """The keyword arguments of ``LocalModel.question``, besides the speaker."""

    system_prompt: str | None
    tools: Iterable[Any] | None
    options: Options | Mapping[str, Any] | None
    policy: RepairPolicy | None


class LocalQuestion(Struct, frozen=True):
    """A request to an embedded model; ``stream`` and ``astream`` yield the same events."""

    runtime: Runtime
    work: Work

    def stream(self) -> Generator[Event]:
        """Run the model and yield its events; closing the generator stops it."""
        return self.runtime.stream(self.work)

    def astream(self) -> AsyncGenerator[Event]:
        """Like ``stream``, without blocking the event loop."""
        return self.runtime.astream(self.work)


class _Loaded(Struct, frozen=True):
    """The state that a process keeps for a model file: its runtime, and its router with what it has measured."""

    runtime: Runtime
    router: Router


_LOADED: dict[tuple[Path, int, Load], _Loaded] = {}
_LOADED_LOCK = threading.Lock()


class LocalModel:
    """An embedded model.

    Args:
        model: A known name or the path of a GGUF file; the configured model otherwise.
        folder: Where installed models are kept, if not in the platform's data folder.
        context: How many tokens a prompt and its answer may have together.
        examples: Messages that need a tool, by the tool's name; they help a small model.
        load: The function that loads a file as an engine.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        folder: Path | None = None,
        context: int | None = None,
        examples: Mapping[str, Sequence[Example]] | None = None,
        load: Load = load_engine,
    ) -> None:
        self._located = locate(model, folder=folder)
        self._context = context or self.row.context
        self._examples = dict(examples or {})
        self._load = load

    def __repr__(self) -> str:
        return f"LocalModel({self.row.name})"

    @property
    def row(self) -> ModelRow:
        """The model's row in the catalogue."""
        return self._located.row

    @property
    def path(self) -> Path:
        """The model's file, which may not be there yet."""
        return self._located.path

    @property
    def context(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        return self._context

    @property
    def runtime(self) -> Runtime:
        """The runtime that all models of this file share; it loads the file when it is used."""
        return self._loaded().runtime

    @property
    def notice(self) -> str:
        """The line that user interfaces show next to this model's answers."""
        return notice_of(self.row)

    def question(
        self,
        history: Iterable[Any],
        *,
        system_prompt: str | None = None,
        tools: Iterable[Any] | None = None,
        options: Options | Mapping[str, Any] | None = None,
        speaker: str = PROVIDER,
        policy: RepairPolicy | None = None,
    ) -> LocalQuestion:
        """Prepare a question, which is sent when its stream is read.

        Args:
            history: Turns in the serialised form (read liberally) or ``Turn`` values.
            system_prompt: Put before everything else.
            tools: Definitions in MCP, OpenAI, Anthropic or Gemini form, or ``ToolDefinition`` values.
            options: Settings with the names of ``Options``.
            speaker: The role of the model's turns in the history.
            policy: How the history is repaired, and what happens to other speakers' turns.
        """
        turns = read_history(history)
        wanted = read_options(options)
        offered = {tool.name: tool for tool in reversed(read_tools(tools).definitions)}
        task = AnswerTask(
            prompt=read_prompt(
                turns,
                model=self.row.name,
                system_prompt=system_prompt,
                speaker=speaker,
                policy=policy,
            ),
            settings=self._settings(wanted),
            tool_call_id=_new_call_id(turns),
            tools=tuple(reversed(offered.values())),
            tool_choice=wanted.tool_choice,
            examples=self._examples,
        )
        loaded = self._loaded()

        def work(engine: LlamaEngine, sink: GenerationSink) -> None:
            answer(task, loaded.router, EngineClient(engine, sink, self._context), sink)

        return LocalQuestion(loaded.runtime, work)

    def stream(
        self,
        history: Iterable[Any],
        *,
        speaker: str = PROVIDER,
        **settings: Unpack[QuestionSettings],
    ) -> Generator[Event]:
        """Answer the history, with the settings of ``question``; closing the generator stops the model."""
        return self.question(history, speaker=speaker, **settings).stream()

    def astream(
        self,
        history: Iterable[Any],
        *,
        speaker: str = PROVIDER,
        **settings: Unpack[QuestionSettings],
    ) -> AsyncGenerator[Event]:
        """Answer the history as ``stream`` does, without blocking the event loop."""
        return self.question(history, speaker=speaker, **settings).astream()

    def complete(
        self,
        history: Iterable[Any],
        *,
        speaker: str = PROVIDER,
        **settings: Unpack[QuestionSettings],
    ) -> Completed:
        """The whole answer at once."""
        events = list(self.stream(history, speaker=speaker, **settings))
        return self.collect(events, speaker)

    async def acomplete(
        self,
        history: Iterable[Any],
        *,
        speaker: str = PROVIDER,
        **settings: Unpack[QuestionSettings],
    ) -> Completed:
        """The whole answer at once, without blocking the event loop."""
        events = [event async for event in self.astream(history, speaker=speaker, **settings)]
        return self.collect(events, speaker)

    def warm(self, system_prompt: str | None = None, tools: Iterable[Any] | None = None) -> None:
        """Load the model and process the parts of the prompt that are already known, so that the first answer begins sooner.

        Args:
            system_prompt: The system prompt of later questions.
            tools: The tools of later questions.
        """
        prompt = read_prompt((), model=self.row.name, system_prompt=system_prompt)
        offers = make_offers(read_tools(tools).definitions, "", self._examples)
        loaded = self._loaded()

        def work(engine: LlamaEngine, sink: GenerationSink) -> None:
            client = EngineClient(engine, sink, self._context)
            if offers:
                loaded.router.prepare(client, offers)
            client.ask(prompt.messages(), {"max_tokens": 1, "temperature": 0})

        for _ in loaded.runtime.stream(work):
            pass

    def _loaded(self) -> _Loaded:
        path = installed(self._located)
        key = (path.resolve(), self._context, self._load)
        with _LOADED_LOCK:
            if key not in _LOADED:
                runtime = Runtime(lambda: self._load(path, self._context))
                _LOADED[key] = _Loaded(runtime, router_for(self.row.routing))
            return _LOADED[key]

    def _settings(self, wanted: Options) -> JsonObject:
        settings: JsonObject = {**self.row.sampling, **wanted.extra}
        settings["max_tokens"] = min(wanted.max_tokens or _DEFAULT_LENGTH, self._context // 2)
        if wanted.temperature is not None:
            settings["temperature"] = wanted.temperature
        if wanted.stop:
            settings["stop"] = list(wanted.stop)
        if wanted.schema is not None:
            settings["json_schema"] = project_schema(wanted.schema, LLAMACPP).schema
        return settings

    def collect(self, events: Iterable[Event], speaker: str = PROVIDER) -> Completed:
        """Combine the events of an answer to the whole answer."""
        calls: list[Part] = []
        usage, finish = Usage(), Finish("other")
        words: dict[type, str] = {ThinkingDelta: "", TextDelta: ""}
        for event in events:
            match event:
                case TextDelta() | ThinkingDelta():
                    words[type(event)] += event.text
                case ToolCallEnd():
                    calls.append(event.call)
                case Usage():
                    usage = event
                case Finish():
                    finish = event
                case _:
                    pass
        parts: list[Part] = [Thinking(words[ThinkingDelta])] if words[ThinkingDelta] else []
        parts += [Text(words[TextDelta])] if words[TextDelta] else []
        turn = Turn(speaker, (*parts, *calls), model=self.row.name)
        return Completed(turn, usage, finish)


def _new_call_id(turns: Sequence[Turn]) -> str:
    taken = {
        part.tool_call_id for turn in turns for part in turn.parts if isinstance(part, ToolCall)
    }
    identifier = f"call_{len(turns)}_0"
    while identifier in taken:
        identifier += "x"
    return identifier
