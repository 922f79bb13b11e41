"""Rounds: decide from the turns of a conversation what an action does to it.

Rules:
1. A round goes back to an earlier turn if necessary, copies the turns that stay, adds its message if it has one, and asks speakers.
2. A speaker that is asked again gets the same snapshot as before: the history up to the message.
3. The other speakers' answers to the same message stay; the council's verdict about them does not.
4. What is removed stays on the branch that was shown before; the turns after it are copied to the new one.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.chat._message_writes import Back, Said
from multi_llm_chat.chat.branch import COUNCIL, addressed_by, new_id
from multi_llm_chat.chat.council import CHAIR, read_verdict
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import RESERVED_ROLES, JsonObject, Turn
from multi_llm_chat.store import Placed


class Round(Struct, frozen=True):
    """One round.

    ``base`` is the turn up to which the addressed speakers see the history; None means all of it. ``schema`` is what
    their answers must match, ``queued`` the id under which the message waited. With ``has_verdict`` the council's speaker writes
    a structured verdict.
    """

    ask: tuple[str, ...] = ()
    message: Turn | None = None
    back: Back | None = None
    stays: tuple[Said, ...] = ()
    base: str | None = None
    council: str | None = None
    has_verdict: bool = False
    schema: JsonObject | None = None
    queued: str | None = None


def answered_again(placed: Sequence[Placed], turn: str, council: str | None) -> Round:
    """Ask the speaker of a turn again.

    Raises:
        UsageError: The turn is not an answer, or is not on this branch.
    """
    at = _find(placed, turn)
    speaker = _speaker(placed[at].turn)
    if speaker is None:
        raise UsageError("Only an answer can be given again; a message of yours can be edited")
    asked = next((i for i in range(at, -1, -1) if placed[i].turn.role == "user"), None)
    if asked is None:
        raise UsageError("There is no message that this turn answers")
    return _again(placed, asked, (speaker,), council)


def retried(placed: Sequence[Placed], council: str | None) -> Round:
    """Ask the speakers that did not answer the last message, or all of them if each one did.

    If only the verdict of a council is missing, only its chair is asked.

    Raises:
        UsageError: No message addresses a speaker.
    """
    asked = _last_addressed(placed)
    if asked is None:
        raise UsageError("There is nothing to try again: no message was addressed to anybody")
    names = addressed_by(placed[asked].turn)
    done = {
        each.turn.role
        for each in placed[asked + 1 :]
        if not each.turn.meta.get("partial") and not each.turn.meta.get(COUNCIL)
    }
    missing = tuple(name for name in names if name not in done)
    verdict = missing_verdict(placed)
    if verdict is not None and not missing:
        return verdict
    return _again(placed, asked, missing or names, council)


def missing_verdict(placed: Sequence[Placed]) -> Round | None:
    """Ask the chair of the council that the last message addresses, if there is no verdict yet; else return None."""
    asked = _last_addressed(placed)
    chair: object = None if asked is None else placed[asked].turn.meta.get(CHAIR)
    if asked is None or not isinstance(chair, str):
        return None
    if any(read_verdict(each.turn) is not None for each in placed[asked + 1 :]):
        return None
    return Round(council=chair, has_verdict=True)


def _last_addressed(placed: Sequence[Placed]) -> int | None:
    return next((i for i in range(len(placed) - 1, -1, -1) if addressed_by(placed[i].turn)), None)


def edited(placed: Sequence[Placed], turn: str, message: Turn, ask: tuple[str, ...]) -> Round:
    """Send another text instead of an earlier message.

    Raises:
        UsageError: The turn is not a message of the user, or is not on this branch.
    """
    at = _find(placed, turn)
    if placed[at].turn.role != "user":
        raise UsageError("Only a message of yours can be edited; an answer can be given again")
    return Round(ask, message, Back(placed[at].parent))


def continued(placed: Sequence[Placed], speaker: str | None) -> Round:
    """Let the last speaker, or a named one, continue.

    Raises:
        UsageError: No speaker has answered yet.
    """
    last = next(
        (name for each in reversed(placed) if (name := _speaker(each.turn)) is not None), None
    )
    name = speaker or last
    if name is None:
        raise UsageError("No speaker has answered yet: there is no answer to continue")
    return Round((name,))


def _again(
    placed: Sequence[Placed], asked: int, names: tuple[str, ...], council: str | None
) -> Round:
    end = next(
        (i for i in range(asked + 1, len(placed)) if placed[i].turn.role == "user"), len(placed)
    )
    stays = tuple(
        Said(replace(each.turn, id=new_id()), each.run_id)
        for each in placed[asked + 1 : end]
        if _speaker(each.turn) not in names and not each.turn.meta.get(COUNCIL)
    )
    message = placed[asked].turn
    chair: object = message.meta.get(CHAIR)
    has_verdict = isinstance(chair, str)
    return Round(
        names,
        None,
        Back(message.id),
        stays,
        message.id,
        chair if isinstance(chair, str) else council,
        has_verdict=has_verdict,
    )


def removed(placed: Sequence[Placed], turn: str) -> Round:
    """Take a message with its answers, or one answer, off the branch.

    Raises:
        UsageError: The turn is not on this branch.
    """
    at = _find(placed, turn)
    begin = next((i for i in range(at, -1, -1) if placed[i].turn.role == "user"), 0)
    end = next(
        (i for i in range(begin + 1, len(placed)) if placed[i].turn.role == "user"), len(placed)
    )
    if placed[at].turn.role == "user":
        gone = set(range(begin, end))
    else:
        run, speaker = placed[at].run_id, _speaker(placed[at].turn)
        gone = {
            i
            for i in range(begin, end)
            if (placed[i].run_id == run if run else _speaker(placed[i].turn) == speaker)
        } - {begin if placed[begin].turn.role == "user" else -1}
    first = min(gone)
    stays = tuple(
        Said(replace(each.turn, id=new_id()), each.run_id)
        for i, each in enumerate(placed)
        if i > first and i not in gone
    )
    return Round(back=Back(placed[first].parent), stays=stays)


def _speaker(turn: Turn) -> str | None:
    """The speaker whose answer a turn belongs to; a tool's turn belongs to the speaker that called the tools."""
    if turn.role == "tool":
        speaker: object = turn.meta.get("speaker")
        return speaker if isinstance(speaker, str) else None
    return None if turn.role in RESERVED_ROLES else turn.role


def _find(placed: Sequence[Placed], turn: str) -> int:
    for at, each in enumerate(placed):
        if each.turn.id == turn:
            return at
    raise UsageError(f"There is no turn {turn!r} on this branch; switch to its branch first")
