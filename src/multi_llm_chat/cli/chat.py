"""``mlc chat``: a conversation with one or more models in the terminal.

Rules:
1. A line that begins with ``/`` and a known word is a command; everything else is said.
2. Ctrl-C stops the answers and keeps what was said; a second one leaves. Nothing the user said is ever lost.
3. Tools are started while the first message is typed.
4. Without a terminal the lines come from standard input, and the answers are text.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import click

from multi_llm_chat.cli.opening import (
    find_conversation,
    last_conversation,
    open_workspace,
    prepare_speakers,
    store_option,
    tell,
)
from multi_llm_chat.cli.showing import show
from multi_llm_chat.cli.slash import COMMANDS, Leave, Session, run_command
from multi_llm_chat.cli.terminal import (
    Board,
    ChatPrompt,
    Questions,
    Vocabulary,
    open_board,
    stopped_by_interrupt,
)
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.service.chat import ChatService, Proceeding
from multi_llm_chat.service.events import ChatEvent, MessageSaved
from multi_llm_chat.service.workspace import Workspace
from multi_llm_chat.tools.approval import ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp.values import Elicitation, ElicitationAnswer


@click.command()
@click.option(
    "-c", "--continue", "continued", is_flag=True, help="Go on with the last conversation."
)
@click.option(
    "--chat", "conversation", metavar="ID", help="Go on with this conversation: id or title."
)
@click.option("--columns", is_flag=True, help="Show answers of several speakers side by side.")
@click.option("--plain", is_flag=True, help="Text only: no colours, nothing drawn.")
@store_option
def chat(
    continued: bool = False,
    conversation: str | None = None,
    columns: bool = False,
    plain: bool = False,
    db: str | None = None,
) -> None:
    """Talk to models in one conversation.

    Address a speaker with @name or all of them with @all; with one speaker no name is needed. /help lists
    the commands.
    """
    talk = Talk(columns=columns, plain=plain)
    with open_workspace(db, talk.approve) as workspace:
        store = workspace.store
        if conversation:
            conversation = find_conversation(store, conversation).id
        elif continued:
            conversation = last_conversation(store).id
        prepare_speakers(workspace)
        service = workspace.chat(conversation)
        service.load()
        talk.run(workspace, service)


class Talk:
    """Reads, lets answer, shows."""

    def __init__(self, *, columns: bool, plain: bool) -> None:
        self._columns = columns
        self._plain = plain
        self._questions: Questions | None = None

    def approve(self, request: ApprovalRequest) -> Decision:
        """Ask whether a tool may run."""
        if self._questions is None or not sys.stdin.isatty():
            return Deny("nobody is there to be asked")
        return self._questions.approve(request)

    def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask what a server wants to know."""
        if self._questions is None or not sys.stdin.isatty():
            return ElicitationAnswer("cancel")
        return self._questions.elicit(question)

    def run(self, workspace: Workspace, service: ChatService) -> None:
        """Talk until the user leaves."""
        session = Session(workspace, service)
        _greet(session)
        starting = threading.Thread(
            target=workspace.start_tools, kwargs={"elicit": self.elicit}, daemon=True
        )
        starting.start()
        for line in self._lines(session):
            if not line.strip():
                continue
            starting.join()
            _tell_problems(workspace)
            try:
                proceeding = self._meaning(session, line)
                if proceeding is not None:
                    self._follow(session, proceeding)
            except Leave:
                break
            except MultiLLMChatError as error:
                tell(str(error))
        starting.join()

    def _meaning(self, session: Session, line: str) -> Proceeding | None:
        """What a line asks for: a command, or words to be said."""
        word, _, rest = line.strip().partition(" ")
        if word.startswith("/") and word[1:] in COMMANDS:
            return run_command(session, word[1:], rest.strip())
        if word.startswith("/") and word[1:].isalpha():
            tell(f"There is no command {word}; /help lists them. Begin with a space to say it.")
            return None
        return session.say(line)

    def _follow(self, session: Session, proceeding: Proceeding) -> None:
        names = session.service.names
        side_by_side = len(names) if self._columns else 0
        with (
            open_board(plain=self._plain, columns=side_by_side) as board,
            stopped_by_interrupt(session.service.stop),
            closing(iter(proceeding)) as events,
        ):
            self._questions = Questions(board)
            for event in events:
                _show(board, event, names)

    def _lines(self, session: Session) -> Iterator[str]:
        if not sys.stdin.isatty():
            yield from (line.rstrip("\n") for line in sys.stdin)
            return
        prompt = ChatPrompt(
            session.workspace.folders.state, lambda: _vocabulary(session), lambda: _toolbar(session)
        )
        while (line := prompt.read(session.take_draft())) is not None:
            yield line


def _greet(session: Session) -> None:
    names = ", ".join(f"@{name}" for name in session.service.names)
    tell(f"Speakers: {names}. /help lists the commands, /quit or Ctrl-D leaves.")
    if session.service.turns:
        tell(f"Going on after {len(session.service.turns)} turns.")


def _tell_problems(workspace: Workspace) -> None:
    while workspace.problems:
        tell(workspace.problems.pop(0))


def _show(board: Board, event: ChatEvent, names: tuple[str, ...]) -> None:
    if isinstance(event, MessageSaved) and not event.addressed:
        known = ", ".join(f"@{name}" for name in names)
        board.notice(f"(noted; address somebody to get an answer: {known}, @all)")
    show(board, event)


def _vocabulary(session: Session) -> Vocabulary:
    service = session.service
    speakers = {name: service.speakers.model_of(name) for name in service.names}
    return Vocabulary(
        speakers,
        session.workspace.settings.groups,
        {name: command.usage for name, command in COMMANDS.items()},
    )


def _toolbar(session: Session) -> str:
    parts = [" ".join(f"@{name}" for name in session.service.names)]
    if session.attached:
        parts.append(f"{len(session.attached)} attached")
    if not session.service.is_saved:
        parts.append("not saved")
    return "  ·  ".join(parts)
