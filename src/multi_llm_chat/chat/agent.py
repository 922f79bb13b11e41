"""``Agent``: a model with instructions, tools and a typed answer, as one object.

Rules:
1. A run takes a string or any history, and returns an ``AgentResult`` or raises; it never returns a failed answer.
2. An answer that does not fit ``output`` is sent back with the error, ``output_retries`` times; then ``OutputError``.
3. Without ``store`` a run is driven in this process and not saved. With ``store``, and with several speakers, it is a run
   of a ``ChatService``: each ``run`` is a conversation of its own, unless one is named.
4. ``resume`` finishes the runs that an earlier process of this program left in the store, with the tools of this agent.
5. MCP servers start with the first run, and stop with ``close``.
"""

import asyncio
import inspect
from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
)
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.agent.agent_loop import final_text
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.chat._agent_results import (
    AgentResult,
    AgentStream,
    ObservedSink,
    Pace,
    RunOutcome,
    add_outcome,
    collect_event,
    failure_of,
)
from multi_llm_chat.chat._agent_tools import RUN_DEPS, AgentTools
from multi_llm_chat.chat.agent_settings import (
    AgentSettings,
    Progress,
    RunContext,
    VerdictSettings,
    check_settings,
    provider_settings,
)
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.council import VERDICT, Verdict, read_verdict
from multi_llm_chat.chat.speakers import Models, configured_speakers, model_speakers
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import MultiLLMChatError, OutputError, UsageError
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.protocol.message_formats import read_any
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.driver import RunDriver
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.runs.leases import RunHost, report_unsaved
from multi_llm_chat.runs.spec import RunSpec
from multi_llm_chat.schema.python_types import OutputType
from multi_llm_chat.store import Store, append, create, open_store
from multi_llm_chat.store.runs import run_info
from multi_llm_chat.store.turns import turns_of_run
from multi_llm_chat.tools.background_loop import wait_for
from multi_llm_chat.tools.tool import Tool, ToolContext

__all__ = ["Agent", "AgentResult", "AgentStream", "RunContext", "load_agent"]

Output = TypeVar("Output")

#: The prompt of a run: a message, or a history in any form that ``render`` reads.
Prompt: TypeAlias = str | Iterable[Any]


class Agent(Generic[Output]):
    """A model with instructions, tools and a typed answer.

    Example:
        ```python
        agent = Agent("claude", tools=[get_weather], instructions="Be brief.", output=City)
        agent.run_sync("Which city has the best weather today?").output
        ```
    """

    @overload
    def __init__(
        self: "Agent[Verdict]", model: Models, *, council: str, **settings: Unpack[AgentSettings]
    ) -> None: ...
    @overload
    def __init__(
        self: "Agent[str]", model: Models, *, output: None = None, **settings: Unpack[AgentSettings]
    ) -> None: ...
    @overload
    def __init__(
        self, model: Models, *, output: type[Output], **settings: Unpack[AgentSettings]
    ) -> None: ...
    def __init__(
        self,
        model: Models,
        *,
        output: type[Any] | None = None,
        **settings: Unpack[VerdictSettings],
    ) -> None:
        """Configure the agent; the first run starts servers and sends requests.

        Args:
            model: The model: ``"claude"``, ``"claude:MODEL"`` or a provider. A list is a chain, in which a later model answers if an
                earlier one fails; a mapping gives several speakers, which all answer.
            output: The type of the answer: a dataclass, msgspec Struct, ``TypedDict``, pydantic model or another type.
            settings: See ``AgentSettings``; ``council`` names the speaker that writes a verdict.
        """
        check_settings(settings)
        self.name = settings.get("name", "agent")
        self.description = settings.get("description", "")
        self._output: OutputType[Any] | None = None
        if output is not None and output is not str:
            self._output = OutputType(output)
        self._retries = settings.get("output_retries", 2)
        self._instructions = settings.get("instructions")
        self._deps = settings.get("deps")
        self._limits = settings.get("limits")
        self._hooks = settings.get("hooks") or RunHooks()
        self.speakers = model_speakers(model, provider_settings(settings))
        self.tools = AgentTools(
            settings.get("tools", ()),
            approve=settings.get("approve"),
            elicit=settings.get("elicit"),
            hooks=self._hooks,
            deps=self._deps,
            offered=settings.get("offered_tools", True),
        )
        self._council = settings.get("council")
        if self._council and (output is not None or self._council not in self.speakers):
            raise UsageError("A council is one of several speakers, and its verdict is the output")
        if self._council:
            self._retries = 0  # the conversation itself asks for another verdict
        self._place = settings.get("store")
        self._store: Store | None = None
        self._host: RunHost | None = None

    # Running.

    async def run(
        self, prompt: Prompt, *, deps: object = None, conversation: str | None = None
    ) -> AgentResult[Output]:
        """Ask the model, run the tools that it calls, and return the answer.

        Args:
            prompt: A message, or a history in any form that ``render`` reads.
            deps: The object for tools and instructions of this run; the agent's if not given.
            conversation: The stored conversation to continue; a new one if not given.

        Raises:
            ProviderError: The provider refused or failed: ``AuthError`` for a wrong key, and so on.
            OutputError: No answer fitted ``output``.
            LimitReached: The run ended at one of its limits.
        """
        return await self.stream(prompt, deps=deps, conversation=conversation)

    def run_sync(
        self, prompt: Prompt, *, deps: object = None, conversation: str | None = None
    ) -> AgentResult[Output]:
        """``run`` for code without ``async``."""
        stream = self.stream(prompt, deps=deps, conversation=conversation)
        for _ in stream:
            pass
        return stream.result

    def stream(
        self, prompt: Prompt, *, deps: object = None, conversation: str | None = None
    ) -> AgentStream[Output]:
        """Like ``run``, as a stream of events; the arguments and errors are those of ``run``."""
        drivers: list[RunDriver] = []

        async def produce(stream: AgentStream[Output], sink: EventSink) -> None:
            await self._answer(
                stream, ObservedSink(sink, stream), _Task(prompt, deps, conversation), drivers
            )

        def stop() -> None:
            for driver in drivers:
                driver.cancel()

        return AgentStream(produce, stop if self._is_direct else None, self._output)

    def resume(self, conversation: str | None = None) -> AgentStream[Output]:
        """Finish interrupted runs. Read the stream to its end; ``results`` are their answers.

        Args:
            conversation: Only the runs of this conversation; all unfinished runs of the store if not given.

        Reading the stream raises the error of a failed run, after all runs have ended.
        """

        async def produce(stream: AgentStream[Output], sink: EventSink) -> None:
            await self.tools.start()
            service = self._service(None, self._hooks)
            by_run: dict[str, RunOutcome] = {}
            async for event in service.resume(conversation):
                if event.run:
                    collect_event(by_run.setdefault(event.run, RunOutcome([])), event)
                sink.put([event])
            for run, outcome in by_run.items():
                if outcome.failure is not None:
                    raise outcome.failure
                place = (await service.store.arun(run_info, run)).conversation
                outcome.turns = await service.store.arun(turns_of_run, place, run)
                stream.results.append(self._result(outcome, (), place))

        return AgentStream(produce, None, self._output)

    @overload
    async def map(
        self,
        prompts: Iterable[Prompt],
        *,
        concurrency: int = 10,
        rate: float | None = None,
        on_progress: Progress | None = None,
        return_errors: Literal[False] = False,
    ) -> list[AgentResult[Output]]: ...
    @overload
    async def map(
        self,
        prompts: Iterable[Prompt],
        *,
        concurrency: int = 10,
        rate: float | None = None,
        on_progress: Progress | None = None,
        return_errors: bool,
    ) -> list[AgentResult[Output] | Exception]: ...
    async def map(
        self,
        prompts: Iterable[Prompt],
        *,
        concurrency: int = 10,
        rate: float | None = None,
        on_progress: Progress | None = None,
        return_errors: bool = False,
    ) -> Any:
        """Answer many prompts; the results are in the order of the prompts.

        Args:
            prompts: The prompts.
            concurrency: How many are answered at once.
            rate: How many may start in a second.
            on_progress: Called with the number of finished prompts and the number of all.
            return_errors: Whether a failed prompt gives its exception; otherwise the first failure is raised and the
                others are cancelled.
        """
        if isinstance(prompts, str):
            raise UsageError("map takes a list of prompts; run answers a single one")
        waiting = list(prompts)
        results: list[AgentResult[Output] | Exception | None] = [None] * len(waiting)
        gate, pace, done = asyncio.Semaphore(concurrency), Pace(rate), 0

        async def answer(at: int, prompt: Prompt) -> None:
            nonlocal done
            async with gate:
                await pace.wait()
                try:
                    results[at] = await self.run(prompt)
                except MultiLLMChatError as error:
                    if not return_errors:
                        raise
                    results[at] = error
            done += 1
            if on_progress is not None:
                on_progress(done, len(waiting))

        tasks = [asyncio.ensure_future(answer(*each)) for each in enumerate(waiting)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [each for each in results if each is not None]

    @overload
    def map_sync(
        self,
        prompts: Iterable[Prompt],
        *,
        concurrency: int = 10,
        rate: float | None = None,
        on_progress: Progress | None = None,
        return_errors: Literal[False] = False,
    ) -> list[AgentResult[Output]]: ...
    @overload
    def map_sync(
        self,
        prompts: Iterable[Prompt],
        *,
        concurrency: int = 10,
        rate: float | None = None,
        on_progress: Progress | None = None,
        return_errors: bool,
    ) -> list[AgentResult[Output] | Exception]: ...
    def map_sync(self, prompts: Iterable[Prompt], **settings: Any) -> Any:
        """``map`` for code without ``async``."""
        answer = cast("Callable[..., Coroutine[Any, Any, Any]]", self.map)
        return wait_for(answer(prompts, **settings))

    def as_tool(self) -> Tool:
        """The agent as a tool of another one: it receives a task and returns its answer."""

        async def run(arguments: dict[str, Any], context: ToolContext[Any]) -> object:
            result = await self.run(str(arguments["task"]), deps=context.deps)
            return result.text

        schema = {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "What to do, in full: it knows nothing else.",
                }
            },
            "required": ["task"],
            "additionalProperties": False,
        }
        instructions = self._instructions if isinstance(self._instructions, str) else ""
        return Tool(self.name, run, self.description or instructions, schema)

    # Start and end.

    async def aclose(self) -> None:
        """Stop the MCP servers and close the connections and the store.

        Raises:
            StoreError: The store accepted no writes for five seconds; the text says how many steps are not saved.
        """
        await self.tools.stop()
        for provider in self.speakers.values():
            await provider.aclose()
        unsaved = 0 if self._host is None else await asyncio.to_thread(self._host.close)
        if self._store is not None and not isinstance(self._place, Store):
            await asyncio.to_thread(self._store.close)
        self._host = self._store = None
        report_unsaved(unsaved)

    def close(self) -> None:
        """``aclose`` for code without ``async``."""
        wait_for(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # One run.

    async def _answer(
        self,
        stream: AgentStream[Output],
        sink: ObservedSink,
        task: "_Task",
        drivers: list[RunDriver],
    ) -> None:
        await self.tools.start()
        asked = turns = read_any(task.prompt)
        deps = self._deps if task.deps is None else task.deps
        RUN_DEPS.set(deps)
        notes: list[Note] = []
        hooks = self._observing(notes)
        prompt = await self._system_prompt(RunContext(deps, turns))
        total = RunOutcome([])
        service: ChatService | None = None
        if not self._is_direct:
            service = await self._conversation(task.conversation, turns[:-1], prompt, hooks)
        for tries_left in range(self._retries, -1, -1):
            if service is None:
                outcome = await self._drive(
                    turns + tuple(total.turns), prompt, hooks, sink, drivers
                )
            else:
                outcome = await self._send(service, turns, sink)
            add_outcome(total, outcome)
            if outcome.failure is not None:
                raise outcome.failure
            try:
                name = None if service is None else service.conversation
                result = self._result(total, tuple(notes), name)
                stream.results.append(replace(result, history=asked + result.turns))
            except OutputError as error:
                if not tries_left:
                    error.turns = tuple(total.turns)
                    raise
                complaint = _complaint(error)
                if service is None:
                    total.turns.append(complaint)
                else:
                    turns = (complaint,)  # the conversation has the other ones
            else:
                return

    @property
    def _is_direct(self) -> bool:
        return self._place is None and len(self.speakers) == 1

    async def _drive(
        self,
        turns: tuple[Turn, ...],
        prompt: str | None,
        hooks: RunHooks,
        sink: ObservedSink,
        drivers: list[RunDriver],
    ) -> RunOutcome:
        """Run without a store."""
        (provider,) = self.speakers.values()
        spec = RunSpec(
            provider,
            turns,
            self.tools,
            provider.speaker,
            system_prompt=prompt,
            limits=self._limits or LoopLimits(),
            schema=None if self._output is None else self._output.schema,
            hooks=hooks,
        )
        driver = RunDriver(spec, sink)
        drivers.append(driver)
        await driver.drive()
        end = driver.end
        assert end is not None
        failure = failure_of(end.reason, final_text(end.delta), end.delta, end.error)
        cost = cost_of(end.usage, provider.priced_as, provider.model or "")
        return RunOutcome(
            list(end.delta),
            end.usage,
            None if cost is None else cost.total,
            end.reason,
            failure,
            {},
        )

    async def _send(
        self, service: ChatService, turns: tuple[Turn, ...], sink: ObservedSink
    ) -> RunOutcome:
        """Run as an answer of the conversation."""
        last = turns[-1] if turns else Turn("user")
        if last.role != "user":
            raise UsageError(
                "A stored run answers the user: the history must end with a turn of the user"
            )
        text = "\n\n".join(part.content for part in last.parts if isinstance(part, Text))
        media = [part for part in last.parts if isinstance(part, Media)]
        to = None if service.addresses(text) else list(self.speakers)
        schema = None if self._output is None else self._output.schema
        outcome = RunOutcome([])
        council = self._council or None
        async for event in service.process_message(
            text, media=media, to=to, council=council, verdict=bool(council), schema=schema
        ):
            sink.put([event])
            collect_event(outcome, event)
        if outcome.turns and outcome.turns[-1].meta.get(VERDICT):
            outcome.failure = None  # it belongs to a member of the council
        return outcome

    async def _conversation(
        self, name: str | None, earlier: tuple[Turn, ...], prompt: str | None, hooks: RunHooks
    ) -> ChatService:
        """The conversation of a stored run, with the turns before its message."""
        service = self._service(name, hooks)
        if earlier:
            await service.store.arun(_begin, service.conversation, earlier)
        if earlier or name is not None:
            await service.aopen(service.conversation)
        if prompt is not None:
            await service.aconfigure(system_prompt=prompt)
        return service

    def _service(self, conversation: str | None, hooks: RunHooks) -> ChatService:
        if self._store is None:
            place = ":memory:" if self._place is None else self._place
            self._store = place if isinstance(place, Store) else open_store(place)
            self._host = RunHost(self._store)
        return ChatService(
            self.speakers,
            store=self._store,
            host=self._host,
            tools=self.tools,
            conversation=conversation,
            limits=self._limits,
            hooks=hooks,
        )

    def _observing(self, notes: list[Note]) -> RunHooks:
        """The hooks, with one that collects the notes of the requests."""

        async def after(reply: Reply) -> None:
            notes.extend(note for note in reply.notes if note not in notes)
            await self._hooks.observe_reply(reply)

        return replace(self._hooks, after_model=after)

    async def _system_prompt(self, context: RunContext[Any]) -> str | None:
        if self._instructions is None or isinstance(self._instructions, str):
            return self._instructions
        made = self._instructions(context)
        return await made if inspect.isawaitable(made) else made

    def _result(
        self, outcome: RunOutcome, notes: tuple[Note, ...], conversation: str | None
    ) -> AgentResult[Output]:
        text = final_text(outcome.turns)
        if len(outcome.texts) > 1:
            text = "\n\n".join(f"{name}: {words}" for name, words in outcome.texts.items())
        output = cast("Output", text if self._output is None else self._output.read(text))
        if self._council:
            verdict = read_verdict(outcome.turns[-1])
            if verdict is None:
                raise OutputError("The council has no verdict that fits its schema", text=text)
            output, text = cast("Output", verdict), verdict.answer
        return AgentResult(
            output,
            text,
            tuple(outcome.turns),
            outcome.usage,
            outcome.cost,
            notes,
            outcome.reason,
            conversation,
            outcome.texts,
        )


class _Task(Struct, frozen=True):
    """The parsed prompt of a run."""

    prompt: Prompt
    deps: object
    conversation: str | None


def _complaint(error: OutputError) -> Turn:
    words = f"{error}. Answer again with JSON that fits the schema, and nothing else."
    return Turn("user", (Text(words),))


def _begin(transaction: Any, conversation: str, turns: tuple[Turn, ...]) -> None:
    create(transaction, identifier=conversation)
    append(transaction, conversation, turns)


def load_agent(
    speaker: str,
    *,
    output: type[Any] | None = None,
    settings: Settings | None = None,
    keys: Keys | None = None,
    **given: Unpack[AgentSettings],
) -> Agent[Any]:
    """Make an agent with the provider, instructions, options and tool selection of a configured persona or speaker.

    Args:
        speaker: The persona's or speaker's name in ``config.toml``.
        output: The type of the answer, as for ``Agent``.
        settings: Used instead of the configuration file.
        keys: Finds the providers' keys; the program's own if not given.
        given: Further arguments of ``Agent``; they override the configuration.

    Raises:
        UsageError: No persona or speaker has this name.
    """
    folders = program_folders()
    found = settings or read_settings(folders.config_file)
    made = configured_speakers(found, keys or Keys(folders=folders)).named(speaker)
    own: AgentSettings = {
        "instructions": made.settings.system_prompt or found.system_prompt,
        "offered_tools": made.settings.tools,
        "name": made.name,
    }
    return Agent(made.provider, output=cast("Any", output), **{**own, **given})
