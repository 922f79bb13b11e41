"""Tell one model what another model said and did.

Rules:
1. Foreign words are told as the user's text under the speaker's name, their media beside them.
2. A foreign tool exchange is one line: who called what with which arguments, and what came back.
3. Foreign thinking is never told.
"""

from collections.abc import Iterator

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.result_parts import split_result
from multi_llm_chat.history.values import Media, Part, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.repair.pairing import Answer, Passage
from multi_llm_chat.repair.sorting import with_parts


def tell(passage: Passage) -> Turn | None:
    """The passage as a user turn; None when there is nothing to tell."""
    parts = list(_told(passage))
    return with_parts(passage.turn, parts, "user") if parts else None


def _told(passage: Passage) -> Iterator[Part]:
    speaker = passage.turn.role
    answers = iter(passage.answers)
    for part in passage.turn.parts:
        match part:
            case Text():
                yield Text(f"[{speaker}] {part.content}")
            case Media():
                yield part
            case ToolCall():
                yield from _told_call(speaker, part, next(answers))
            case _:
                pass


def _told_call(speaker: str, call: ToolCall, answer: Answer | None) -> Iterator[Part]:
    asked = f"[{speaker} used {call.name or 'a tool'} {compact_json(call.arguments)}"
    if answer is None:
        yield Text(f"{asked}: no result]")
        return
    text, media = split_result(answer.result.content)
    failed = " (failed)" if answer.result.is_error else ""
    yield Text(f"{asked}{failed}: {text}]")
    yield from media


def tell_orphan(result: ToolResult) -> tuple[Part, ...]:
    """A result whose call is not in the history, as the user's text."""
    text, media = split_result(result.content)
    return (Text(f"[result of {result.name or 'a tool'}, called earlier: {text}]"), *media)
