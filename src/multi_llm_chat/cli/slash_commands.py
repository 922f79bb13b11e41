"""The commands of a conversation: ``/help`` and the others.

Rules:
1. A command reports what it did on standard error, or returns the stream of an answer.
2. Slash commands use the same code as the commands of the shell.
3. Every command is a row of ``COMMANDS``, which also holds its help.
"""

import base64
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import click
from msgspec import Struct

from multi_llm_chat import store as operations
from multi_llm_chat.archive.text_export import Format
from multi_llm_chat.chat.branch import typed
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.transfer import export_conversations, import_conversations
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.attachments import attach, read_files_at
from multi_llm_chat.cli.messages import one_line, print_message, tr
from multi_llm_chat.cli.terminal.words import cost_text
from multi_llm_chat.cli.workspace_option import find_conversation
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Text
from multi_llm_chat.runs.event_stream import EventStream


class LeaveChat(Exception):
    """Raised to leave the conversation."""


class Session:
    """The state that commands work on."""

    def __init__(self, workspace: Workspace, service: ChatService) -> None:
        self.workspace = workspace
        self.service = service
        self.attached: list[str] = []
        self._draft = ""
        self._edited: str | None = None
        self._unsent: tuple[str | None, list[str]] = (None, [])

    def say(self, text: str) -> EventStream:
        """Send a message with the attachments; after ``/edit``, instead of the last message."""
        self._unsent = (self._edited, list(self.attached))
        files = attach(tuple(self.attached))
        words = "\n\n".join(filter(None, [text, files.text]))
        turn, self._edited = self._edited, None
        self.attached.clear()
        if turn is not None:
            return self.service.edit(turn, words)
        return self.service.process_message(words, media=files.media)

    def edit(self, turn: str, text: str) -> None:
        """Let the next message replace an earlier one, whose text becomes the draft."""
        self._edited, self._draft = turn, text

    def take_back(self, text: str) -> None:
        """Restore a refused message, so that it can be sent again: its text, its files, and the message that it was to replace."""
        self._draft = text
        self._edited, self.attached = self._unsent[0], list(self._unsent[1])

    def restore_draft(self, text: str) -> None:
        """Set the draft of the next message to text that was not sent."""
        self._draft = text

    def take_draft(self) -> str:
        """Return and clear the draft of the next message."""
        draft, self._draft = self._draft, ""
        return draft


class Command(Struct, frozen=True):
    """A command: its arguments, its help, and its function."""

    usage: str
    run: Callable[[Session, str], EventStream | None]


def run_command(session: Session, name: str, rest: str) -> EventStream | None:
    """Run a command; return the stream of an answer, if it starts one."""
    return COMMANDS[name].run(session, rest)


def _help(_session: Session, _rest: str) -> None:
    for name, command in COMMANDS.items():
        print_message(f"/{name:10} {tr(command.usage)}")


def _model(session: Session, rest: str) -> None:
    name, _, model = rest.partition(" ")
    if not name:
        for each in session.service.names:
            print_message(f"@{each:12} {session.service.speakers[each].provider.model or ''}")
        return
    speaker = session.service.speakers.named(name.removeprefix("@"))
    if not model.strip():
        print_message(
            f"@{speaker.name} speaks with {speaker.provider.model}; /model {speaker.name} MODEL changes it"
        )
        return
    speaker.provider.model = model.strip()
    print_message(f"@{speaker.name} speaks with {speaker.provider.model} from now on.")


def _system(session: Session, rest: str) -> None:
    if not rest:
        print_message(session.service.own_settings.get("system_prompt") or tr("There is no system prompt of this conversation."))  # fmt: skip
        return
    prompt = None if rest in ("-", "none", "clear") else rest
    session.service.configure(system_prompt=prompt)
    print_message(
        tr("The system prompt is set.") if prompt else tr("The system prompt is removed.")
    )


def _history(session: Session, rest: str) -> None:
    word, _, words = rest.partition(" ")
    action = _HISTORY.get(word or "list")
    if action is None:
        raise UsageError(f"/history knows {', '.join(_HISTORY)}; not {word!r}")
    action(session, words.strip())


def _list(session: Session, _words: str) -> None:
    for each in session.service.store.run(operations.list_conversations, limit=20).conversations:
        here = "*" if each.id == session.service.conversation else " "
        print_message(f"{here} {each.id}  {one_line(each.title)}")


def _save(session: Session, words: str) -> None:
    if not words:
        print_message(
            "Every message is saved when it is sent; /history save TITLE names this conversation."
        )
        return
    session.service.store.run(operations.rename, session.service.conversation, words)
    print_message(f"This conversation is called {one_line(words)!r}.")


def _load(session: Session, words: str) -> None:
    if not words:
        raise UsageError("Name a conversation: /history load TITLE or ID")
    found = find_conversation(session.service.store, words)
    session.service.open(found.id)
    print_message(f"{one_line(found.title)}: {len(session.service.turns)} turns.")


def _new(session: Session, _words: str) -> None:
    session.service.open()
    print_message(tr("A new conversation begins."))


def _reset(session: Session, _words: str) -> None:
    """Start a new conversation with the system prompt of this one, like the first system's ``/reset``."""
    prompt = session.service.own_settings.get("system_prompt")
    session.service.open()
    if prompt:
        session.service.configure(system_prompt=prompt)
    kept = tr("A new conversation begins. The system prompt stays.")
    print_message(kept if prompt else tr("A new conversation begins."))


def _search(session: Session, words: str) -> None:
    hits = session.service.store.run(operations.search, words)
    for hit in hits:
        print_message(
            f"{hit.conversation}  {one_line(hit.title)}\n    {one_line(hit.author)}: {one_line(hit.snippet)}"
        )
    if not hits:
        print_message(tr("Nothing was found."))


_HISTORY: Final[dict[str, Callable[[Session, str], None]]] = {
    "list": _list,
    "save": _save,
    "load": _load,
    "new": _new,
    "search": _search,
}


def _tools(session: Session, rest: str) -> None:
    word, _, name = rest.partition(" ")
    tools = session.workspace.tools
    if word in ("on", "off") and name:
        (tools.enable if word == "on" else tools.disable)(name.strip())
        return
    for tool in tools.listing():
        print_message(f"{tool.name:32} {tool.approval if tool.enabled else 'off':7} {tool.source}")
    if not tools.listing():
        print_message(tr("There are no tools; see: mlc mcp add"))


def _mcp(session: Session, _rest: str) -> None:
    servers = session.workspace.servers
    for state in servers.states() if servers else ():
        print_message(f"{state.server:16} {state.state:10} {one_line(state.message)}")
    if not servers:
        print_message(tr("There are no MCP servers; see: mlc mcp add"))


def _export(session: Session, rest: str) -> None:
    place = Path(rest).expanduser() if rest else None
    forms = {".md": "markdown", ".txt": "text"}
    form = cast("Format", forms.get(place.suffix, "json") if place else "markdown")
    written = session.service.store.run(export_conversations, [session.service.conversation], form)
    if place is None:
        click.echo(written, nl=False)
        return
    try:
        place.write_text(written, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}") from None
    print_message(tr("Written to {place}", place=place))


def _import(session: Session, rest: str) -> None:
    report = session.service.store.run(
        import_conversations, list(read_files_at(Path(rest).expanduser()))
    )
    for problem in report.problems:
        print_message(problem)
    print_message(f"{len(report.conversations)} imported; /history load ID goes to one:")
    for identifier in report.conversations:
        print_message(f"  {identifier}")


def _copy(session: Session, rest: str) -> None:
    answers = [
        words
        for turn in reversed(session.service.turns)
        if turn.role not in ("user", "tool", "system")
        and (words := "".join(part.content for part in turn.parts if isinstance(part, Text)))
    ]
    if not answers:
        raise UsageError(tr("There is no answer to copy yet"))
    if rest and not rest.isdecimal():
        raise UsageError(
            tr("/copy takes a number, 0 for the last answer; not {rest}", rest=repr(one_line(rest)))
        )
    number = int(rest or 0)
    if number >= len(answers):
        if len(answers) == 1:
            raise UsageError(tr("There is no answer {number}: there is only 0", number=number))
        raise UsageError(
            tr(
                "There is no answer {number}: 0 is the last one, {first} the first",
                number=number,
                first=len(answers) - 1,
            )
        )
    words = answers[number]
    if not sys.stdout.isatty():
        click.echo(words)
        return
    # The terminal sets the clipboard (OSC 52), also if this program runs on another machine.
    coded = base64.b64encode(words.encode()).decode()
    click.echo(f"\x1b]52;c;{coded}\x07", nl=False)
    other = tr("Answer {number} is in the clipboard, if the terminal allows it.", number=number)
    print_message(
        other if number else tr("The last answer is in the clipboard, if the terminal allows it.")
    )


def _retry(session: Session, _rest: str) -> EventStream:
    return session.service.retry()


def _continue(session: Session, rest: str) -> EventStream:
    return session.service.continue_answer(rest.removeprefix("@") or None)


def _edit(session: Session, rest: str) -> EventStream | None:
    last = next((turn for turn in reversed(session.service.turns) if turn.role == "user"), None)
    if last is None:
        raise UsageError(tr("There is no message to edit yet"))
    if rest:
        return session.service.edit(last.id or "", rest)
    session.edit(last.id or "", typed(last))
    return None


def _cost(session: Session, _rest: str) -> None:
    store, conversation = session.service.store, session.service.conversation
    if not session.service.turns:
        print_message(tr("Nothing was spent yet."))
        return
    for name, total in store.run(operations.totals, conversation, "speaker").items():
        costs = " + ".join(cost_text(amount) for amount in total.costs.values())
        unknown = f" ({total.unknown_costs} of unknown price)" if total.unknown_costs else ""
        tokens = total.tokens
        cached = f" ({tokens.cache_read_tokens:,} cached)" if tokens.cache_read_tokens else ""
        print_message(f"@{name:12} {tokens.input_tokens:,} in{cached}, {tokens.output_tokens:,} out  {costs or 'unknown'}{unknown}")  # fmt: skip


def _attach(session: Session, rest: str) -> None:
    paths = _paths(rest)
    if not paths:
        raise UsageError("Name a file: /attach PATH")
    attach(paths)  # reports an error now if it cannot be sent
    session.attached += paths
    for path in paths:
        print_message(tr("{file} goes with the next message.", file=path))


def _paths(rest: str) -> tuple[str, ...]:
    """The named files: one with any characters in its name, or several, quoted or with escaped spaces as in a shell."""
    if not rest or Path(rest).expanduser().exists():
        return (rest,) if rest else ()
    try:
        # Backslashes separate folders on Windows.
        words = shlex.split(rest, posix=True) if os.sep == "/" else _quoted(rest)
    except ValueError:
        return (rest,)
    # An unquoted text with spaces is one path, unless each of its words is a file.
    found = tuple(words)
    is_list = len(found) == 1 or all(Path(each).expanduser().exists() for each in found)
    return found if is_list or any(quote in rest for quote in "'\"\\") else (rest,)


def _quoted(rest: str) -> list[str]:
    return [word.strip("'\"") for word in shlex.split(rest, posix=False)]


def _outbox(session: Session, rest: str) -> EventStream | None:
    word, _, rest = rest.partition(" ")
    waiting = session.service.outbox()
    if word in ("", "list"):
        for number, message in enumerate(waiting, 1):
            print_message(f"{number:3} {one_line(message.text)}")
        if not waiting:
            print_message(tr("No message waits."))
        return None
    number, _, text = rest.strip().partition(" ")
    if word not in ("send", "edit", "withdraw") or not number.isdecimal():
        raise UsageError("/outbox [list] | send N | edit N TEXT | withdraw N")
    if not 0 < int(number) <= len(waiting):
        raise UsageError(f"There is no waiting message {number}; /outbox lists them")
    message = waiting[int(number) - 1]
    if word == "send":
        return session.service.send_queued(message)
    if word == "edit":
        session.service.edit_queued(message.id, text)
    else:
        session.service.withdraw(message.id)
    print_message(
        tr("The message is changed.") if word == "edit" else tr("The message is withdrawn.")
    )
    return None


def _queue(session: Session, rest: str) -> None:
    session.service.queue(rest)
    print_message(tr("The message waits; /outbox send 1 sends the first one."))


def _leave(_session: Session, _rest: str) -> None:
    raise LeaveChat


COMMANDS: Final[dict[str, Command]] = {
    "help": Command("list the commands", _help),
    "model": Command("[SPEAKER [MODEL]] show or change who speaks with what", _model),
    "system": Command("[PROMPT|clear] show, set or take back the system prompt", _system),
    "history": Command("list | save TITLE | load NAME | new | search WORDS", _history),
    "tools": Command("[on|off NAME] list, enable or disable tools", _tools),
    "mcp": Command("how the MCP servers are doing", _mcp),
    "attach": Command("PATH send a file with the next message", _attach),
    "export": Command("[FILE] write this conversation (.json, .md, .txt)", _export),
    "import": Command("PATH take in conversations of a file or a folder", _import),
    "copy": Command("[N] put an answer into the clipboard; 0 is the last one", _copy),
    "reset": Command("begin a new conversation with the same system prompt", _reset),
    "retry": Command("ask again those who failed, or all", _retry),
    "continue": Command("[SPEAKER] let the last speaker continue", _continue),
    "edit": Command("[TEXT] change the last message and ask again", _edit),
    "cost": Command("tokens and cost by speaker", _cost),
    "queue": Command("TEXT save a message that is sent later", _queue),
    "outbox": Command("[list] | send N | edit N TEXT | withdraw N: messages that wait", _outbox),
    "quit": Command("leave", _leave),
    "exit": Command("leave", _leave),
}
