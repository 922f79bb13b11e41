"""The start of the MCP servers, as a user of the terminal sees it.

Rules:
1. A command waits until every server has started or failed. After two seconds a line names those it waits for;
   Ctrl-C leaves, or in a conversation returns to the prompt.
2. A server that did not start is named, with the reason, before anything is asked.
3. Both go to standard error: what a script reads on standard output stays the same.
"""

from threading import Event
from typing import Any, Final

from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.messages import one_line, print_message

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
    """Name what is missing, once."""
    for problem in [*workspace.problems, *missing_servers(workspace)]:
        print_message(one_line(problem))
    workspace.problems.clear()


def missing_servers(workspace: Workspace) -> list[str]:
    """A sentence for each server that did not start."""
    servers = workspace.servers
    return [] if servers is None else [one_line(line) for line in servers.missing()]
