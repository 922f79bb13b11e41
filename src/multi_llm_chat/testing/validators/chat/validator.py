"""The judge of Chat Completions requests."""

from collections.abc import Iterator

from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.chat.rows import CHAT_ROWS
from multi_llm_chat.testing.validators.typed_views import as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation


def validate_chat(provider: str, body: object, model: str | None) -> Iterator[Violation]:
    """Run the row's checks in the order in which it would report."""
    row = CHAT_ROWS[provider]
    request = as_object(body)
    if request is None:
        yield from ChatCall(row, {}, "").say("body_type")
        return
    named = model if model is not None else as_string(request.get("model"))
    call = ChatCall(row, request, named or "")
    for check in row.checks:
        yield from check(call)
