"""Give a repaired history the outer shape a request needs.

Rules:
1. Where the target wants system text only at the beginning, later system turns become the
   user's text, marked.
2. The first turn that is not the system's is the user's, and the last is the user's or a tool's.
3. Where the target alternates, a model's turn that opens with its own thinking is not glued
   behind another turn of the model: a user turn stands between.
4. Where the target wants an answer after tool results, a word of the model stands between
   results and the user.
"""

from collections.abc import Iterator, Sequence

from multi_llm_chat.history.values import Text, Thinking, Turn
from multi_llm_chat.repair.policy import ACKNOWLEDGED, Note, Target
from multi_llm_chat.repair.sorting import Placed, with_parts

OPENING = "(the conversation so far)"
CONTINUE = "Continue."


def frame(placed: Sequence[Placed], target: Target, notes: list[Note]) -> list[Placed]:
    """The turns of one whole request."""
    turns = list(_system_first(placed, notes)) if target.system == "leading" else list(placed)
    body = _bridged(turns, target, notes)
    head = next((at for at, (_, turn) in enumerate(body) if turn.role != "system"), len(body))
    if head < len(body) and body[head][1].role != "user":
        notes.append(Note("ANT-21", None, "put a user turn before the model's first turn"))
        body.insert(head, (None, _says("user", OPENING)))
    if not body or body[-1][1].role not in ("user", "tool"):
        notes.append(Note("ANT-08", None, "put a user turn at the end"))
        body.append((None, _says("user", CONTINUE)))
    return body


def _says(role: str, text: str) -> Turn:
    return Turn(role, (Text(text),))


def _system_first(placed: Sequence[Placed], notes: list[Note]) -> Iterator[Placed]:
    leading = True
    for index, turn in placed:
        if turn.role != "system":
            leading = False
        elif not leading:
            notes.append(Note("ANT-20", index, "wrote a system turn in mid-conversation as text"))
            parts = [
                Text(f"[system] {part.content}") if isinstance(part, Text) else part
                for part in turn.parts
            ]
            yield index, with_parts(turn, parts, "user")
            continue
        yield index, turn


def _bridged(placed: Sequence[Placed], target: Target, notes: list[Note]) -> list[Placed]:
    if not (target.alternates or target.answers_after_tools):
        return list(placed)
    bridged: list[Placed] = []
    before = ""
    for source, turn in placed:
        role = turn.role
        if target.answers_after_tools and before == "tool" and role == "user":
            notes.append(Note("MIS-06", source, "put a word of the model behind tool results"))
            bridged.append((None, _says(target.speaker, ACKNOWLEDGED)))
        if (
            target.alternates
            and before == role == target.speaker
            and isinstance(turn.parts[0], Thinking)
        ):
            notes.append(Note("ANT-12", source, "put a user turn before a thinking turn"))
            bridged.append((None, _says("user", CONTINUE)))
        bridged.append((source, turn))
        before = role
    return bridged
