"""The state of a conversation, read in one small query by readers that poll.

Rules:
1. The query reads no turn, and no run of another conversation: with a thousand turns it takes a tenth of a millisecond.
2. A reader that has the same head and the same number of turns has every turn of the shown branch.
"""

from msgspec import Struct

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.questions import Question, open_questions
from multi_llm_chat.store.transaction import Transaction, reading


class UnfinishedRun(Struct, frozen=True):
    """A run that has not ended; ``is_free`` if any process may take it."""

    id: str
    speaker: str
    owner: str | None
    is_free: bool


class ConversationState(Struct, frozen=True):
    """The state of a conversation at one moment.

    ``head`` is the last turn of the shown branch, ``head_run`` the run that made it, ``turns`` the number of turns
    on all branches. ``questions`` are the open questions of its runs. ``listed`` changes whenever the user's list of
    conversations changes.
    """

    head: str | None
    head_run: str | None
    turns: int
    running: tuple[UnfinishedRun, ...]
    questions: tuple[Question, ...]
    listed: tuple[object, ...]


@reading
def read_conversation_state(
    transaction: Transaction, conversation: str
) -> ConversationState | None:
    """The state of a conversation; None if the user has none with this id."""
    row = transaction.row(
        "SELECT key, title, archived_ms FROM conversations"
        " WHERE user_id = ? AND id = ? AND deleted_ms IS NULL",
        transaction.user, clean_text(conversation),
    )  # fmt: skip
    if row is None:
        return None
    key, *entry = row
    head = transaction.row(
        "SELECT id, run_id FROM heads JOIN turns ON turns.key = heads.turn"
        " WHERE heads.conversation = ? AND name = ?",
        key, MAIN,
    )  # fmt: skip
    ((turns,),) = transaction.rows("SELECT count(*) FROM turns WHERE conversation = ?", key)
    running = transaction.rows(
        "SELECT id, speaker, owner,"  # noqa: S608 the database's clock
        f" owner IS NULL OR lease_until_ms IS NULL OR lease_until_ms < {transaction.clock}"
        # The unary plus makes SQLite use the index of running runs instead of that of all runs of the conversation.
        " FROM runs WHERE +conversation = ? AND status = 'running' ORDER BY began_ms, id",
        key,
    )
    newest = transaction.row(
        "SELECT max(changed_ms) FROM conversations WHERE user_id = ?", transaction.user
    )
    return ConversationState(
        head[0] if head else None,
        head[1] if head else None,
        turns,
        tuple(
            UnfinishedRun(run, speaker, owner, bool(free)) for run, speaker, owner, free in running
        ),
        open_questions(transaction, key) if running else (),
        (*entry, *(newest or ())),
    )
