"""Shared parts of most commands: the user's workspace, a conversation named on the command line, and the MCP servers.

Rules of the start of servers:
1. A command waits until every server has started or failed. After two seconds a line names the servers it waits for; Ctrl-C leaves, or in a
   conversation returns to the prompt.
2. A server that did not start is named, with the reason, before any request is sent.
3. Both go to standard error, so standard output stays the same for scripts.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event
from typing import Any, Final, TypeVar

import click

from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.messages import one_line, print_message
from multi_llm_chat.errors import UsageError
from multi_llm_chat.runs.leases import LEASE
from multi_llm_chat.store import Store, Summary, find, list_conversations
from multi_llm_chat.store.sqlite import MEMORY
from multi_llm_chat.tools.approval import ApprovalCallback

_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_option(command: _Command) -> _Command:
    """``--db``: another place for the conversations."""
    return click.option(
        "--db", metavar="PLACE", help="Where conversations are stored: a path or postgresql://…"
    )(command)


def memory_option(command: _Command) -> _Command:
    """``--no-store``: a conversation that is not saved."""
    return click.option(
        "--no-store",
        is_flag=True,
        help="Keep the conversation in memory only: nothing is saved, and it ends with the program.",
    )(command)


def store_place(
    db: str | None, *, no_store: bool, continues: str | bool | None = None
) -> str | None:
    """Where the conversation is stored; None for the configured place.

    Raises:
        UsageError: The options contradict each other.
    """
    if not no_store:
        return db
    if db or continues:
        raise UsageError(
            "--no-store begins a new conversation in memory: it goes neither with --db nor with --continue or --chat."
        )
    return MEMORY


@contextmanager
def open_workspace(
    db: str | None = None, approve: ApprovalCallback | None = None, *, lease: float = LEASE
) -> Generator[Workspace]:
    """Open the user's speakers, tools and conversations; close them at the end of the block."""
    with Workspace(place=db, approve=approve, lease=lease) as workspace:
        yield workspace


def find_conversation(store: Store, words: str) -> Summary:
    """Find the conversation by its id, the beginning of the id, or its title.

    Raises:
        UsageError: No conversation matches, or several do.
    """
    match store.run(find, words):
        case ():
            raise UsageError(f"There is no conversation {words!r}; see: mlc history list")
        case (only,):
            return only
        case several:
            listed = "\n".join(f"  {each.id}  {each.title}" for each in several)
            raise UsageError(f"Several conversations are called {words!r}:\n{listed}")


def last_conversation(store: Store) -> Summary:
    """The conversation that was changed last.

    Raises:
        UsageError: There is none.
    """
    listed = store.run(list_conversations, limit=1).conversations
    if not listed:
        raise UsageError("There is no conversation to continue yet")
    return listed[0]


# The messages about the start of the MCP servers.

_NOTICE_AFTER: Final = 2.0
#: Seconds between two checks of a start in another thread.
_INTERVAL: Final = 0.25


def start_tools(workspace: Workspace, **callbacks: Any) -> None:
    """Start the servers; print which are slow and which are missing."""
    workspace.start_tools(on_waiting=print_waiting, **callbacks)
    print_missing(workspace)


async def astart_tools(workspace: Workspace) -> None:
    """``start_tools`` for a command with an event loop."""
    await workspace.astart_tools(on_waiting=print_waiting)
    print_missing(workspace)


def wait_for_startup(over: Event, workspace: Workspace) -> None:
    """Wait until another thread has started the servers; print which are slow."""
    shown: tuple[str, ...] = ()
    timeout = _NOTICE_AFTER
    while not over.wait(timeout):
        timeout = _INTERVAL
        servers = workspace.servers
        slow = () if servers is None else servers.starting()
        if slow and slow != shown:
            print_waiting(slow)
            shown = slow


def print_waiting(servers: tuple[str, ...]) -> None:
    """Name the servers that are still starting."""
    names = ", ".join(f'"{one_line(name)}"' for name in servers)
    noun = "server" if len(servers) == 1 else "servers"
    print_message(f"Waiting for the MCP {noun} {names} to start …")


def print_missing(workspace: Workspace) -> None:
    """Name the missing servers, once."""
    for problem in [*workspace.problems, *missing_servers(workspace)]:
        print_message(one_line(problem))
    workspace.problems.clear()


def missing_servers(workspace: Workspace) -> list[str]:
    """A sentence for each server that did not start."""
    servers = workspace.servers
    return [] if servers is None else [one_line(line) for line in servers.missing()]
