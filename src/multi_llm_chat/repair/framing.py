"""Add the turns that a request needs at its beginning, at its end and between other turns.

Rules:
1. If the target accepts system text only at the beginning, later system turns become marked user text.
2. A shape that the target accepts is not changed: the target's data says which turns may begin and end a request. A user
   turn is added only if the target would refuse the request without it.
3. No turn is added after a turn that the provider paused, or after one that is marked to be continued.
4. If the target requires alternating roles, a model's turn that begins with its own thinking is not merged into the
   model's turn before it: a user turn is put between them. Gemini's may be merged: it signs single parts.
5. If the target requires an answer after tool results, a short text of the model is put between results and a user turn.
"""

from collections.abc import Iterable, Iterator, Sequence

from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import Native, Text, Thinking, ToolCall, Turn
from multi_llm_chat.repair.policy import ACKNOWLEDGED, Note, Target
from multi_llm_chat.repair.sorting import with_parts

OPENING = "(the conversation so far)"
CONTINUE = "Continue."


def frame(
    turns: Sequence[Turn],
    sources: Sequence[int | None],
    target: Target,
    notes: list[Note],
    before: Sequence[Turn] = (),
    *,
    thinks: bool = True,
) -> tuple[list[Turn], list[int | None]]:
    """The turns of one whole request, and the index of the history's turn from which each came (None if it was added).

    ``sources`` are these indexes of the turns given. ``before`` are the last turns that were already sent, and the result
    begins with them. ``thinks``: the turns may contain thinking.
    """
    if target.system == "leading" and _has_later_system(turns, leading=not before):
        turns = list(_system_first(turns, sources, notes, leading=not before))
    body, places = [*before, *turns], [*[None] * len(before), *sources]
    separates = thinks and target.alternates and not target.signs_parts
    if separates or target.answers_after_tools:
        body, places = _bridged(body, places, target, notes, separates=separates)
    head = next((at for at, turn in enumerate(body) if turn.role != "system"), len(body))
    if not before and not _may_open(body[head:], target):
        notes.append(Note("ANT-21", None, "put a user turn before the model's first turn"))
        body.insert(head, _says("user", OPENING))
        places.insert(head, None)
    if not _may_end(body, head, target):
        notes.append(Note("ANT-08", None, "put a user turn at the end"))
        body.append(_says("user", CONTINUE))
        places.append(None)
    return body, places


def _has_later_system(turns: Iterable[Turn], *, leading: bool) -> bool:
    roles = [turn.role for turn in turns]
    first = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    return "system" in (roles[first:] if leading else roles)


def _says(role: str, text: str) -> Turn:
    return Turn(role, (Text(text),))


def _may_open(body: Sequence[Turn], target: Target) -> bool:
    """Whether the target accepts these turns as the first ones after the system turns."""
    if not body or body[0].role == "user" or target.opens == "any":
        return True
    if target.opens == "user":
        return False
    for turn in body:  # neighbouring turns of one side become one content
        if turn.role in ("user", "tool"):
            break
        if any(type(part) is ToolCall for part in turn.parts):
            return False
    return True


def _may_end(body: Sequence[Turn], head: int, target: Target) -> bool:
    """Whether the target accepts a request that ends with the last turn; ``head`` is the index of the first non-system turn."""
    if head == len(body):
        # Only system turns: if the dialect sends them outside of the messages, the request would have no message.
        return bool(body) and target.ends == "any" and target.system == "anywhere"
    last = body[-1]
    if last.role in ("user", "tool", "system") or target.ends == "any":
        return True
    if target.ends == "spoken":
        return any(turn.role in ("user", "tool") for turn in body)
    return _is_unfinished(last, target)


def _is_unfinished(turn: Turn, target: Target) -> bool:
    """Whether the model continues this turn: its provider paused it, or it is marked as the beginning of an answer."""
    for part in turn.parts:
        if isinstance(part, Text) and part.extras is not None and target.issued(part.extras.origin):
            message = as_object(part.extras.fields.get("message")) or {}
            if message.get("prefix") is True:  # Mistral's mark (MIS-07)
                return True
    last = turn.parts[-1]
    return type(last) is Native and last.kind in target.pauses


def _system_first(
    turns: Iterable[Turn], sources: Iterable[int | None], notes: list[Note], *, leading: bool = True
) -> Iterator[Turn]:
    for index, turn in zip(sources, turns, strict=True):
        if turn.role != "system":
            leading = False
        elif not leading:
            notes.append(Note("ANT-20", index, "wrote a system turn in mid-conversation as text"))
            parts = [
                Text(f"[system] {part.content}") if isinstance(part, Text) else part
                for part in turn.parts
            ]
            yield with_parts(turn, parts, "user")
            continue
        yield turn


def _bridged(
    turns: Iterable[Turn],
    sources: Iterable[int | None],
    target: Target,
    notes: list[Note],
    *,
    separates: bool,
) -> tuple[list[Turn], list[int | None]]:
    """The turns with those that rules 4 and 5 put between them, and their indexes; ``separates``: rule 4 applies."""
    bridged: list[Turn] = []
    places: list[int | None] = []
    before = ""
    for source, turn in zip(sources, turns, strict=True):
        role = turn.role
        if target.answers_after_tools and before == "tool" and role == "user":
            notes.append(Note("MIS-06", source, "put a word of the model behind tool results"))
            bridged.append(_says(target.speaker, ACKNOWLEDGED))
            places.append(None)
        if (
            separates
            and before == role == target.speaker
            and isinstance(turn.parts[0], Thinking)
            and not _is_unfinished(bridged[-1], target)
        ):
            notes.append(Note("ANT-12", source, "put a user turn before a thinking turn"))
            bridged.append(_says("user", CONTINUE))
            places.append(None)
        bridged.append(turn)
        places.append(source)
        before = role
    return bridged, places
