"""Hardships of a store in another process: one that is not root, or has no space to write."""

import os
import resource
from pathlib import Path

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import append, create, list_conversations, open_store, path

NOBODY = 65534


def open_and_list(place: str) -> list[str]:
    with open_store(place) as store:
        return [item.title for item in store.run(list_conversations).conversations]


def in_read_only_folder(folder: str, conversation: str) -> tuple[str, str, int]:
    if os.getuid() == 0:
        os.setuid(NOBODY)
    with open_store(f"{folder}/chats.db") as store:
        assert len(store.run(path, conversation)) == 1  # it can be read
        try:
            store.run(append, conversation, [Turn("user", (Text("secret words"),))])
        except StoreError as error:
            first = error
        else:
            raise AssertionError("it was written")
    try:
        open_store(f"{folder}/other.db").close()
    except StoreError as error:
        return str(first), str(error), len(error.reason)
    raise AssertionError("it was made")


def on_small_disk(folder: str, limit: int | None) -> tuple[str, str, int, int]:
    """Write until the disk is full; then free space and continue.

    Returns:
        The error's reason, its text, the number of turns saved before, and the number of turns at the end.
    """
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    ballast = Path(folder, "ballast")
    if limit is None:
        ballast.write_bytes(bytes(700_000))
    with open_store(f"{folder}/chats.db") as store:
        conversation = store.run(create, "t").id
        pending, number, error = Turn("user"), 0, None
        while error is None:
            pending = Turn(
                "user", (Text(f"secret {number} " + os.urandom(3000).hex()),), id=f"{number}"
            )
            try:
                store.run(append, conversation, [pending])
                number += 1
            except StoreError as raised:
                error = raised
        still_readable = len(store.run(path, conversation))
        assert still_readable == number
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ballast.unlink(missing_ok=True)
        store.run(append, conversation, [pending])
        ids = [turn.id for turn in store.run(path, conversation)]
        assert ids == [f"{n}" for n in range(number + 1)]
        return error.reason, str(error), number, len(ids)
