"""A conversation at the terminal: reads lines, sends messages, shows answers.

Rules:
1. A line that begins with ``/`` and a known word is a command; a line with only ``exit`` or ``quit`` leaves; everything else is a message.
2. Ctrl-C stops the answers and keeps the text that has arrived; a second one leaves. No message of the user is ever lost.
3. Tools start while the first message is typed; no request is sent before they are ready. Ctrl-C during the wait for a slow server returns
   the message to the prompt.
4. If a tool question arrives while no answer is shown (from an answer that continues after an interruption), it is announced, and asked
   when the user sends the next line, which may be empty.
5. Leaving does not answer an open question: it is asked again at the next start.
6. A message that cannot be saved or sent is returned to the prompt, with its files.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import Self

from msgspec import Struct, structs

from multi_llm_chat.chat.council import COUNCIL_PREFIX, readable_verdicts
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.messages import nearest, one_line, print_message, tr
from multi_llm_chat.cli.request_options import configure_requests
from multi_llm_chat.cli.slash_commands import COMMANDS, LeaveChat, Session, run_command
from multi_llm_chat.cli.terminal import (
    Board,
    TerminalQuestions,
    Vocabulary,
    open_board,
    stopped_by_interrupt,
)
from multi_llm_chat.cli.terminal.boards import show
from multi_llm_chat.cli.workspace_option import (
    find_conversation,
    last_conversation,
    missing_servers,
    store_place,
    wait_for_startup,
)
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Event, MessageSaved
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.store import RunInfo
from multi_llm_chat.tools.approval import ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp.server_messages import Elicitation, ElicitationAnswer


class DeferredApprovals:
    """The questions that wait for the user; other threads call ``approve``."""

    def __init__(self, announce: Callable[[str], None] = print_message) -> None:
        self._announce = announce
        self._waiting: SimpleQueue[tuple[ApprovalRequest, Future[Decision]]] = SimpleQueue()

    def __bool__(self) -> bool:
        return not self._waiting.empty()

    def approve(self, request: ApprovalRequest) -> Decision:
        """Queue a question, and wait in the calling thread for the user's answer."""
        decided: Future[Decision] = Future()
        self._waiting.put((request, decided))
        self._announce(
            tr(
                "{tool} waits for your decision: press Enter to be asked.",
                tool=one_line(request.tool),
            )
        )
        return decided.result()

    def ask(self, approve: Callable[[ApprovalRequest], Decision]) -> None:
        """Ask the queued questions, one after the other."""
        while True:
            try:
                request, decided = self._waiting.get_nowait()
            except Empty:
                return
            decided.set_result(approve(request))


#: Words that leave the conversation, as in the first system.
_LEAVING = frozenset({"exit", "quit"})

#: The commands that need the tools; the others do not wait for slow servers.
_USING_TOOLS = frozenset({"tools", "mcp", "retry", "continue", "edit"})


class ChatOptions(Struct, frozen=True):
    """The options of the command line."""

    continued: bool = False
    conversation: str | None = None
    columns: bool = False
    plain: bool = False
    db: str | None = None
    no_store: bool = False
    to: tuple[str, ...] = ()
    system: str | None = None
    temperature: float | None = None
    option: tuple[str, ...] = ()


def _report_interrupted(info: RunInfo) -> None:
    print_message(tr("Continuing an interrupted answer of @{speaker}.", speaker=info.speaker))


class ChatRepl:
    """One conversation: handles lines, sends messages, shows answers."""

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._questions: TerminalQuestions | None = None
        self._is_saved = True  # the last message
        self._later = DeferredApprovals()
        continues = options.conversation or options.continued
        place = store_place(options.db, no_store=options.no_store, continues=continues)
        self.workspace = Workspace(place=place, approve=self.approve)
        service = self.workspace.chat(self._conversation())
        service.load()
        named = configure_requests(service, structs.asdict(options))
        if named:
            service.configure(speakers=list(named))
        self.session = Session(self.workspace, service)
        if service.turns:
            print_message(tr("Continuing after {count} turns.", count=len(service.turns)))
        if waiting := service.outbox():
            wait = "message waits" if len(waiting) == 1 else "messages wait"
            print_message(f"{len(waiting)} {wait} to be sent; /outbox lists them.")
        # Not ``Thread.join``: Python 3.11 takes a thread for ended after Ctrl-C has interrupted it (bpo-45274).
        self._started = threading.Event()
        threading.Thread(target=self._start_tools, daemon=True).start()
        self.workspace.resume_in_background(self._started.wait, on_found=_report_interrupted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while not self._started.wait(0.1):  # do not wait for slow servers when leaving
            if self.workspace.servers is not None:
                self.workspace.servers.stop_sync()
        self.workspace.close()

    def approve(self, request: ApprovalRequest) -> Decision:
        """Ask whether a tool may run."""
        if not sys.stdin.isatty():
            return Deny("no user is there to be asked")
        asking = self._later if self._questions is None else self._questions
        return asking.approve(request)

    def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask the user a server's question."""
        if self._questions is None or not sys.stdin.isatty():
            return ElicitationAnswer("cancel")
        return self._questions.elicit(question)

    def handle(self, line: str) -> bool:
        """Handle one line; False if the user leaves."""
        if self._later:
            with open_board(plain=self._options.plain) as board:
                self._later.ask(TerminalQuestions(board).approve)
        if not line.strip():
            return True
        if line.strip().lower() in _LEAVING:
            return False
        if not self._wait_for_tools(line):
            return True
        while self.workspace.problems:
            print_message(self.workspace.problems.pop(0))
        try:
            self._is_saved = True
            stream = self._stream_of(line)
            if stream is not None:
                self._follow(stream)
        except LeaveChat:
            return False
        except MultiLLMChatError as error:
            print_message(str(error))
            if not self._is_saved and sys.stdin.isatty():
                self.session.take_back(line)
        return True

    def _start_tools(self) -> None:
        try:
            self.workspace.start_tools(elicit=self.elicit)
            self.workspace.problems += missing_servers(self.workspace)
        finally:
            self._started.set()

    def _wait_for_tools(self, line: str) -> bool:
        """Wait for slow servers if the line needs tools; False after Ctrl-C."""
        word = line.strip().partition(" ")[0].removeprefix("/")
        if line.startswith("/") and word in COMMANDS and word not in _USING_TOOLS:
            return True
        try:
            wait_for_startup(self._started, self.workspace)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
            self.session.restore_draft(line)
            print_message(tr("Not sent."))
            return False
        return True

    def vocabulary(self) -> Vocabulary:
        """The names for completion."""
        service = self.session.service
        return Vocabulary(
            {
                name: service.speakers.model_of(name)
                for name in (*service.names, *service.speakers.further)
            }
            | {f"{COUNCIL_PREFIX}{name}": "" for name in self.workspace.settings.councils},
            self.workspace.settings.groups,
            {f"/{name}": tr(command.usage) for name, command in COMMANDS.items()},
        )

    def toolbar(self) -> str:
        """The line at the bottom."""
        service = self.session.service
        parts = [" ".join(f"@{name}" for name in service.names)]
        if self.session.attached:
            parts.append(f"{len(self.session.attached)} attached")
        if not service.is_saved:
            parts.append("not saved")
        return "  ·  ".join(parts)

    def _conversation(self) -> str | None:
        store = self.workspace.store
        if self._options.conversation:
            return find_conversation(store, self._options.conversation).id
        return last_conversation(store).id if self._options.continued else None

    def _stream_of(self, line: str) -> EventStream | None:
        """The stream of a line: of a command, or of a message."""
        word, _, rest = line.strip().partition(" ")
        if word.startswith("/") and word[1:] in COMMANDS:
            return run_command(self.session, word[1:], rest.strip())
        if word.startswith("/") and word[1:].isalpha() and not line.startswith(" "):
            near = nearest(word[1:], COMMANDS)
            text = tr(
                "There is no command {word}; /help lists them. Begin with a space to send it.",
                word=word,
            )
            if near:
                text = tr(
                    "There is no command {word}; did you mean /{near}? Begin with a space to send it.",
                    word=word,
                    near=near,
                )
            print_message(text)
            return None
        self._is_saved = False  # until the event arrives
        return self.session.say(line.strip())

    def _follow(self, stream: EventStream) -> None:
        names = self.session.service.names
        with (
            open_board(
                plain=self._options.plain, columns=len(names) if self._options.columns else 0
            ) as board,
            stopped_by_interrupt(self.session.service.stop),
            closing(iter(stream)) as events,
        ):
            self._questions = TerminalQuestions(board)
            try:
                for event in readable_verdicts(events):
                    self._is_saved |= isinstance(event, MessageSaved)
                    _show(board, event, names)
            finally:
                self._questions = None


def _show(board: Board, event: Event, names: tuple[str, ...]) -> None:
    if isinstance(event, MessageSaved) and not event.addressed:
        known = ", ".join(f"@{name}" for name in names)
        board.notice(tr("(noted; address a speaker to get an answer: {known}, @all)", known=known))
    show(board, event)
