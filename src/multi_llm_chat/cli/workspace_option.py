"""What most commands begin with: the user's workspace, and a conversation named on the command line."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from multi_llm_chat.chat.workspace import Workspace
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
    """Where the conversation is stored; None is the place of the settings.

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
    """The user's speakers, tools and conversations, closed in the end."""
    with Workspace(place=db, approve=approve, lease=lease) as workspace:
        yield workspace


def find_conversation(store: Store, words: str) -> Summary:
    """The one conversation that is meant by an id, the beginning of one, or a title.

    Raises:
        UsageError: None is, or several are.
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
