"""Questions of tools and servers to the person at the keyboard.

Rules:
1. While one is asked, the answers stand still (``Board.suspended``); questions come one at a time.
2. All of what will be done can be read before it is allowed: what is cut says so, and a key shows it.
3. Ctrl-C, Ctrl-D and Escape mean no. What was decided stays on the screen, in one line.
"""

from typing import Final
from urllib.parse import urlsplit

from multi_llm_chat.cli.terminal.boards import Board
from multi_llm_chat.cli.terminal.forms import CANCELLED, ask_form
from multi_llm_chat.cli.terminal.key_choice import Line, Teletype, open_teletype
from multi_llm_chat.cli.terminal.safety import harmless, one_line
from multi_llm_chat.cli.terminal.words import argument_lines
from multi_llm_chat.tools.approval import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp.server_messages import Elicitation, ElicitationAnswer

_MOST_LINES: Final = 12


class Questions:
    """Asks. ``approve`` and ``elicit`` are callbacks: plain functions, to be called in a thread."""

    def __init__(self, board: Board, teletype: Teletype | None = None) -> None:
        self._board = board
        self._teletype = teletype

    def approve(self, request: ApprovalRequest) -> Decision:
        """May this call run?"""
        with self._board.suspended():
            teletype = self._teletype or open_teletype()
            return _approve(teletype, request)

    def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask what a server wants to know."""
        with self._board.suspended():
            teletype = self._teletype or open_teletype()
            teletype.forget_what_was_typed()
            source = one_line(question.server)
            teletype.show([("", ""), ("bold fg:ansicyan", f"? {source} asks")])
            teletype.show([("", f"  {line}") for line in harmless(question.message).split("\n")])
            ask = _visit if question.mode == "url" else ask_form
            answer = ask(teletype, question)
            teletype.show([("fg:ansibrightblack", f"  {_TOLD[answer.action]} {source}"), ("", "")])
            return answer


_TOLD: Final = {"accept": "answered", "decline": "declined to answer", "cancel": "did not answer"}


def _approve(teletype: Teletype, request: ApprovalRequest) -> Decision:
    name = one_line(request.tool)
    lines = argument_lines(request.call)
    teletype.show([("", ""), *_asked(request), *_shown(lines[:_MOST_LINES])])
    options = {"y": "once", "a": "in this conversation", "n": "no", "r": "no, because …"}
    if request.conversation is None:
        del options["a"]
    hidden = len(lines) - _MOST_LINES
    if hidden > 0:
        options["v"] = f"{hidden:,} more lines"
    key = teletype.choose(options, back="n")
    if key == "v":
        teletype.show(_shown(lines[_MOST_LINES:]))
        del options["v"]
        key = teletype.choose(options, back="n")
    decision = _decided(teletype, key)
    teletype.show([_outcome(decision, name), ("", "")])
    return decision


def _asked(request: ApprovalRequest) -> list[Line]:
    source = f" of {one_line(request.source)}" if request.source else ""
    name = f"{one_line(request.tool)}{source}"
    question = f"? May {name} run?"
    if request.interrupted:
        question = f"? {name} was interrupted and may have done its work. Run it again?"
    told = [("bold fg:ansiyellow", question)]
    if request.description:
        told.append(("fg:ansibrightblack", f"  {one_line(request.description)[:200]}"))
    return told


def _shown(lines: list[str]) -> list[Line]:
    return [("", f"  {line}") for line in lines]


def _decided(teletype: Teletype, key: str) -> Decision:
    match key:
        case "y":
            return Allow("once")
        case "a":
            return Allow("conversation")
        case "r":
            try:
                return Deny(teletype.session().prompt("  Why not? ").strip())
            except (KeyboardInterrupt, EOFError):
                return Deny()
        case _:
            return Deny()


def _outcome(decision: Decision, name: str) -> Line:
    match decision:
        case Allow("conversation"):
            return "fg:ansigreen", f"  {name} is allowed in this conversation"
        case Allow():
            return "fg:ansigreen", f"  {name} is allowed once"
        case Deny(reason):
            return "fg:ansired", f"  {name} is denied" + (f": {one_line(reason)}" if reason else "")


def _visit(teletype: Teletype, question: Elicitation) -> ElicitationAnswer:
    """Show an address. Nothing is opened: whether and where to is the reader's decision."""
    url = harmless(question.url or "").replace("\n", "")
    host = _host(url)
    teletype.show(
        [
            ("", "  Open this address in your browser, if you trust it:"),
            ("underline", url),
            ("", f"  It leads to {host}" if host else "  It is no valid address."),
        ]
    )
    key = teletype.choose({"y": "done, go on", "n": "decline", "c": "cancel"}, back="c")
    answers = {"y": ElicitationAnswer("accept"), "n": ElicitationAnswer("decline")}
    return answers.get(key, CANCELLED)


def _host(url: str) -> str:
    """Where the address leads; a name that only looks like another is spelt out."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    if host.isascii():
        return host
    try:
        return f"{host} ({host.encode('idna').decode()})"
    except UnicodeError:
        return f"{host} (not a valid name)"
