"""Everything that a program can read from a store, as one JSON value to compare."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from multi_llm_chat.store import (
    Store,
    Transaction,
    calls,
    children,
    heads,
    list_conversations,
    list_runs,
    path,
    read_conversation_state,
    read_document,
    read_events,
    reading,
    runs,
    search,
    total,
    totals,
)
from multi_llm_chat.store.conversations import Which

USERS = ("local", "somebody")
#: What ``search`` looks for.
WORDS = ("weather", "東京", "hotel", "nothing of that kind")


def read_all(store: Store) -> Any:
    """What the users of the sample find in it, as plain JSON."""
    found = {user: read_store(store.as_user(user)) for user in USERS}
    return msgspec.json.decode(msgspec.json.encode(found))


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where a reading differs from an earlier one; fields that are new do not count."""
    if isinstance(before, dict) and isinstance(now, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
        for name in old:
            if name in new:
                yield from differences(old[name], new[name], f"{place}/{name}")
            else:
                yield f"{place}/{name} is missing"
    elif isinstance(before, list) and isinstance(now, list):
        items, others = cast("list[Any]", before), cast("list[Any]", now)
        if len(items) != len(others):
            yield f"{place} had {len(items)} items and has {len(others)}"
        for number, (one, other) in enumerate(zip(items, others, strict=False)):
            yield from differences(one, other, f"{place}/{number}")
    elif before != now:
        yield f"{place} was {before!r} and is {now!r}"


def read_store(store: Store) -> dict[str, Any]:
    """All conversations of the store's user, their runs and what stands beside them."""
    lists: tuple[Which, ...] = ("open", "archived", "deleted")
    listed = {which: store.run(list_conversations, which=which).conversations for which in lists}
    return {
        "conversations": listed,
        "contents": {
            each.id: _read_conversation(store, each.id)
            for which in ("open", "archived")
            for each in listed[which]
        },
        "runs": [
            # How much of a lease is left depends on the clock.
            msgspec.structs.replace(each, lease_left_ms=None)
            for each in store.run(list_runs, None)
        ],
        "search": {words: store.run(search, words, archived=True) for words in WORDS},
        "rates": store.run(_rates),
        "workers": store.run(_workers),
    }


def _read_conversation(store: Store, conversation: str) -> dict[str, Any]:
    answers = store.run(runs, conversation)
    branches = store.run(heads, conversation)
    state = store.run(read_conversation_state, conversation)
    assert state is not None
    return {
        "document": store.run(read_document, conversation),
        "branches": {
            name: [turn.id for turn in store.run(path, conversation, head=name)]
            for name in branches
        },
        "roots": store.run(children, conversation, None),
        "runs": answers,
        "calls": {run.id: store.run(calls, run.id) for run in answers},
        "journals": {run.id: store.run(read_events, run.id).events for run in answers},
        "questions": state.questions,
        "total": store.run(total, conversation),
        "totals": {
            "turn": store.run(totals, conversation, "turn"),
            "speaker": store.run(totals, conversation, "speaker"),
            "model": store.run(totals, conversation, "model"),
        },
    }


@reading
def _rates(transaction: Transaction) -> list[tuple[Any, ...]]:
    return transaction.rows(
        "SELECT key, requests, tokens, counted_ms, closed_until_ms FROM rates ORDER BY key"
    )


@reading
def _workers(transaction: Transaction) -> list[tuple[Any, ...]]:
    return transaction.rows("SELECT id, seen_ms FROM workers ORDER BY id")
