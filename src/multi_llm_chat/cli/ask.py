"""``mlc ask``: one question, one answer, for the shell.

Rules:
1. The answer goes to standard output, everything else to standard error.
2. Piped input is part of the question, after the words of the command line.
3. ``--json`` prints one object at the end, ``--jsonl`` an object for each event; the output is always complete JSON, also after an error.
4. A tool that needs approval is asked about at the terminal; without a terminal it does not run.
5. If the program ends early, the text that has arrived is kept.
6. An answer that breaks ``--schema`` is sent back with the error, at most twice; after that it is printed on standard error and the exit
   code is not 0.
"""

import json
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.council import COUNCIL_PREFIX, readable_verdicts
from multi_llm_chat.chat.message_outcome import Outcome
from multi_llm_chat.chat.speaker_names import EMBEDDED
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.attachments import attach
from multi_llm_chat.cli.local import prepare_embedded
from multi_llm_chat.cli.messages import print_json, print_message, read_input
from multi_llm_chat.cli.request_options import (
    configure_requests,
    read_settings,
    request_options,
)
from multi_llm_chat.cli.terminal import TerminalQuestions, open_board, stopped_by_interrupt
from multi_llm_chat.cli.terminal.boards import show
from multi_llm_chat.cli.workspace_option import (
    find_conversation,
    last_conversation,
    memory_option,
    open_workspace,
    start_tools,
    store_option,
    store_place,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.event_codec import write_event
from multi_llm_chat.events import Event, RunFailed, RunFinished
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.request_settings import read_options
from multi_llm_chat.tools.approval import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.schema_validation import SchemaCheck

#: How often an answer that breaks its schema is asked for again.
_SCHEMA_RETRIES = 2
FAILED, PARTLY_FAILED, DENIED, INTERRUPTED = 1, 3, 4, 130


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1)
@request_options
@click.option(
    "-a", "--attach", "files", multiple=True, type=click.Path(), help="A file that goes with it."
)
@click.option("-c", "--continue", "continued", is_flag=True, help="Continue the last conversation.")
@click.option(
    "--chat", "conversation", metavar="ID", help="Continue this conversation: id or title."
)
@click.option(
    "--schema", metavar="FILE", help="A JSON Schema that the answer is to follow: file or JSON."
)
@click.option("--council", metavar="SPEAKER", help="Who weighs the answers of several.")
@click.option("--tools/--no-tools", default=True, help="Whether MCP servers are started.")
@click.option(
    "--server-tool",
    "server_tools",
    multiple=True,
    type=click.Choice(["web_search", "web_fetch", "code_execution", "image_generation"]),
    help="A tool that the provider runs itself; may be given several times.",
)
@click.option("--yes", is_flag=True, help="Let tools run that need approval.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@click.option("--plain", is_flag=True, help="Text only: no colours, nothing drawn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object in the end.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print every event as a line of JSON.")
@store_option
@memory_option
def ask(words: tuple[str, ...], db: str | None, **options: Any) -> None:
    """Ask once and print the answer.

    @name in the words addresses a speaker, @all everybody. What is piped in is part of the question.
    """
    continues = options["conversation"] or options["continued"]
    place = store_place(db, no_store=options["no_store"], continues=continues)
    piped = read_input()
    attached = attach(options["files"])
    text = "\n\n".join(filter(str.strip, [" ".join(words), piped, attached.text]))
    if not text.strip() and not attached.media:
        raise UsageError('There is no question. Try: mlc "Why is the sky blue?"')
    schema = _schema(options["schema"])
    read_options(read_settings(options["option"]))  # before the error about a missing key
    approval = _Approval(yes=options["yes"], asks=not piped and sys.stdin.isatty())
    with open_workspace(place, approval) as workspace:
        service = workspace.chat(_conversation(workspace, options))
        service.load()
        named = configure_requests(service, options)
        if options["server_tools"]:
            service.configure(server_tools=list(options["server_tools"]))
        to = _addressed(service, text, named)
        prepare_embedded(to, has_keys=tuple(workspace.speakers) != (EMBEDDED,))
        if options["tools"]:
            start_tools(workspace)
        check = None if schema is None else SchemaCheck(schema)
        is_council = any(name.startswith(COUNCIL_PREFIX) for name in to)
        outcome = Outcome(service.conversation, check)
        stopper = _Stopper(service)

        def send(message: str, to: tuple[str, ...]) -> Generator[Event]:
            media, council = (attached.media, options["council"]) if message == text else ((), None)
            stream = service.process_message(
                message, media=media, to=to, council=council, schema=schema
            )
            with closing(iter(stream)) as events:
                yield from outcome.following(events)

        with stopped_by_interrupt(stopper.stop), closing(send(text, to)) as events:
            wanted: Iterator[Event] = events if options["as_lines"] else readable_verdicts(events)
            if check is not None:
                wanted = _fitting(events, outcome, send, every=options["as_lines"])
            _print(wanted, approval, options, several=len(to) > 1 or is_council)
        if options["as_json"]:
            print_json(outcome.document)
        sys.exit(_code(outcome, approval, interrupted=stopper.stopped))


class _Stopper:
    """Stops the answers, and notes that it did."""

    def __init__(self, service: ChatService) -> None:
        self.stopped = False
        self._service = service

    def stop(self) -> None:
        self.stopped = True
        self._service.stop()


def _conversation(workspace: Workspace, options: dict[str, Any]) -> str | None:
    if options["conversation"]:
        return find_conversation(workspace.store, options["conversation"]).id
    return last_conversation(workspace.store).id if options["continued"] else None


def _addressed(service: ChatService, text: str, to: tuple[str, ...]) -> tuple[str, ...]:
    """The speakers to ask: those named, those mentioned, or else the first one, so that a question is always answered."""
    return to or service.addresses(text) or service.names[:1]


def _schema(given: str | None) -> JsonObject | None:
    if given is None:
        return None
    try:
        text = given if given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
        schema = as_object(json.loads(text))
    except OSError as error:
        raise UsageError(f"The schema {given} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"The schema is not JSON: {error}") from None
    if schema is None:
        raise UsageError("A JSON Schema is an object")
    return schema


def _print(
    events: Iterator[Event], approval: "_Approval", options: dict[str, Any], *, several: bool
) -> None:
    if options["as_lines"]:
        for event in events:
            print_json(write_event(event), indent=None)
        return
    if options["as_json"]:
        for _ in events:
            pass
        return
    with open_board(plain=options["plain"] or options["no_stream"], headers=several) as board:
        approval.questions = TerminalQuestions(board)
        for event in list(events) if options["no_stream"] else events:
            show(board, event, once=True)


def _fitting(
    events: Iterator[Event],
    outcome: Outcome,
    send: Callable[[str, tuple[str, ...]], Iterator[Event]],
    *,
    every: bool,
) -> Iterator[Event]:
    """The events of the answers that fit the schema, each when it is complete; the others are requested again.

    With ``every``, all events, also those of invalid answers.
    """
    for tries_left in range(_SCHEMA_RETRIES, -1, -1):
        runs: dict[str, list[Event]] = {}
        for event in events:
            if every:
                yield event
                continue
            runs.setdefault(event.run, []).append(event)
            if isinstance(event, RunFinished | RunFailed) and event.speaker not in outcome.misfits:
                yield from runs.pop(event.run)
        if not outcome.misfits:
            return
        for name, error in outcome.misfits.items():
            print_message(f"{name}: {error}")
            if not tries_left:
                print_message(error.text)
        if tries_left:
            words = "\n".join(dict.fromkeys(map(str, outcome.misfits.values())))
            message = f"{words}\nAnswer again with JSON that fits the schema, and nothing else."
            events = send(message, tuple(outcome.misfits))


def _code(outcome: Outcome, approval: "_Approval", *, interrupted: bool) -> int:
    if interrupted:
        return INTERRUPTED
    if outcome.failed or outcome.misfits:
        return PARTLY_FAILED if outcome.answered else FAILED
    return DENIED if approval.denied else 0


class _Approval:
    """Decides about tools that need approval, and notes whether one was denied."""

    def __init__(self, *, yes: bool, asks: bool) -> None:
        self.denied = False
        self.questions: TerminalQuestions | None = None
        self._yes = yes
        self._asks = asks

    def __call__(self, request: ApprovalRequest) -> Decision:
        if self._yes:
            return Allow()
        decision: Decision = Deny("no user is there to be asked; --yes allows tools")
        if self._asks and self.questions is not None:
            decision = self.questions.approve(request)
        self.denied |= isinstance(decision, Deny)
        return decision
