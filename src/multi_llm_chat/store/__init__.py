"""Conversations that last: one schema on SQLite and Postgres.

``open_store`` gives a ``Store``; ``store.run(operation, …)`` and ``await store.arun(operation, …)`` run
the operations of this package, each in one transaction.
"""

from multi_llm_chat.store.branches import (
    children,
    drop_head,
    heads,
    move_head,
    newest_leaf,
    siblings,
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
from multi_llm_chat.store.documents import read_document, write_document
from multi_llm_chat.store.opening import LOCAL_USER, Store, open_store
from multi_llm_chat.store.runs import begin_call, begin_run, calls, end_call, end_run, runs
from multi_llm_chat.store.searching import search
from multi_llm_chat.store.spending import record_spending, total, totals
from multi_llm_chat.store.transaction import Transaction, reading
from multi_llm_chat.store.turns import END, append, get_turn, page, path, path_to
from multi_llm_chat.store.values import (
    Appended,
    Call,
    Conflict,
    ErrorRecord,
    Hit,
    Listing,
    Page,
    Placed,
    Run,
    Spending,
    Summary,
    Total,
)

__all__ = [
    "END",
    "LOCAL_USER",
    "Appended",
    "Call",
    "Conflict",
    "ErrorRecord",
    "Hit",
    "Listing",
    "Page",
    "Placed",
    "Run",
    "Spending",
    "Store",
    "Summary",
    "Total",
    "Transaction",
    "append",
    "archive",
    "begin_call",
    "begin_run",
    "calls",
    "children",
    "create",
    "delete",
    "drop_head",
    "end_call",
    "end_run",
    "find",
    "get",
    "get_turn",
    "heads",
    "list_conversations",
    "move_head",
    "newest_leaf",
    "open_store",
    "page",
    "path",
    "path_to",
    "purge",
    "read_document",
    "reading",
    "record_spending",
    "rename",
    "runs",
    "search",
    "set_settings",
    "siblings",
    "total",
    "totals",
    "undelete",
    "write_document",
]
