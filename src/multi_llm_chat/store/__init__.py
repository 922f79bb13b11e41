"""Stored conversations: one schema on SQLite and Postgres.

``open_store`` returns a ``Store``; ``store.run(operation, …)`` and ``await store.arun(operation, …)`` run
the operations of this package, each in one transaction.
"""

import warnings
from typing import Any, Final

from multi_llm_chat.store._conversation_state import (
    ConversationState,
    UnfinishedRun,
    read_conversation_state,
)
from multi_llm_chat.store._costs import (
    Spent,
    SpentRow,
    read_spent,
    record_spending,
    run_totals,
    spent_by_day,
    total,
    totals,
    turn_totals,
)
from multi_llm_chat.store._database import LOCAL_USER, Store, open_store
from multi_llm_chat.store._documents import (
    begin_document,
    continue_document,
    finish_document,
    read_document,
    write_document,
)
from multi_llm_chat.store._outbox import (
    QueuedMessage,
    edit_queued,
    list_outbox,
    queue_message,
    take_queued,
    waiting_conversations,
)
from multi_llm_chat.store.conversations import (
    archive,
    create,
    delete,
    find,
    get,
    list_conversations,
    purge,
    rename,
    set_settings,
    undelete,
)
from multi_llm_chat.store.journal import (
    CallStart,
    Events,
    Fence,
    RunEvents,
    Taken,
    append_events,
    begin_calls,
    calls,
    end_call,
    finish_run,
    prune_events,
    read_events,
    release_run,
    renew,
    take_run,
)
from multi_llm_chat.store.records import (
    Appended,
    Conflict,
    ErrorRecord,
    Hit,
    Listing,
    Page,
    Placed,
    RecordedCall,
    Run,
    Spending,
    Summary,
    Total,
)
from multi_llm_chat.store.runs import (
    RunInfo,
    begin_run,
    count_runs,
    end_run,
    list_runs,
    reopen_run,
    run_info,
    runs,
    runs_at,
    stop_run,
)
from multi_llm_chat.store.search import search
from multi_llm_chat.store.transaction import Transaction, reading
from multi_llm_chat.store.turns import (
    END,
    append,
    children,
    drop_head,
    end_of_branch,
    get_turn,
    heads,
    move_head,
    newest_leaf,
    page,
    path,
    path_to,
    siblings,
    turns_around,
    turns_with_text,
)

__all__ = [
    "END",
    "LOCAL_USER",
    "Appended",
    "CallStart",
    "Conflict",
    "ConversationState",
    "ErrorRecord",
    "Events",
    "Fence",
    "Hit",
    "Listing",
    "Page",
    "Placed",
    "QueuedMessage",
    "RecordedCall",
    "Run",
    "RunEvents",
    "RunInfo",
    "Spending",
    "Spent",
    "SpentRow",
    "Store",
    "Summary",
    "Taken",
    "Total",
    "Transaction",
    "UnfinishedRun",
    "append",
    "append_events",
    "archive",
    "begin_calls",
    "begin_document",
    "begin_run",
    "calls",
    "children",
    "continue_document",
    "count_runs",
    "create",
    "delete",
    "drop_head",
    "edit_queued",
    "end_call",
    "end_of_branch",
    "end_run",
    "find",
    "finish_document",
    "finish_run",
    "get",
    "get_turn",
    "heads",
    "list_conversations",
    "list_outbox",
    "list_runs",
    "move_head",
    "newest_leaf",
    "open_store",
    "page",
    "path",
    "path_to",
    "prune_events",
    "purge",
    "queue_message",
    "read_conversation_state",
    "read_document",
    "read_events",
    "read_spent",
    "reading",
    "record_spending",
    "release_run",
    "rename",
    "renew",
    "reopen_run",
    "run_info",
    "run_totals",
    "runs",
    "runs_at",
    "search",
    "set_settings",
    "siblings",
    "spent_by_day",
    "stop_run",
    "take_queued",
    "take_run",
    "total",
    "totals",
    "turn_totals",
    "turns_around",
    "turns_with_text",
    "undelete",
    "waiting_conversations",
    "write_document",
]

#: Earlier names; they still work.
_RENAMED: Final = {
    "Call": RecordedCall,
    "Standing": ConversationState,
    "Told": RunEvents,
    "UnderWay": UnfinishedRun,
    "read_standing": read_conversation_state,
}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = _RENAMED[name]
    warnings.warn(f"{__name__}.{name} is now {value.__name__}", DeprecationWarning, stacklevel=2)
    return value
