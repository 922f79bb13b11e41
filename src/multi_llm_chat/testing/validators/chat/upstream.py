"""OpenRouter: the rules of the provider behind the model apply (ORT-02, ORT-03).

The model's prefix names the provider. Where routing may change between turns, ids must suit all
of them: unique over the whole request and free of other characters than letters, digits, ``_``
and ``-``.
"""

import re
from collections.abc import Iterator

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation, Wording

_IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")
_MISTRAL_IDENTIFIER = re.compile(r"[a-zA-Z0-9]{9}")

_FORM = Wording(
    "ORT-02",
    "messages.{index}.content.{position}.tool_use.id: String should match pattern "
    "'^[a-zA-Z0-9_-]+$'",
)
_MISTRAL_FORM = Wording(
    "ORT-02",
    "Tool call id was {identifier} but must be a-z, A-Z, 0-9, with a length of 9.",
)
_REUSED = Wording("ORT-02", "messages.{index}.content.{position}: `tool_use` ids must be unique")
_DETAILS = Wording(
    "ORT-03", "messages.{index}.reasoning_details: every block must be an object with a type"
)


def check_upstream(call: ChatCall) -> Iterator[Violation]:
    """Ids that any upstream takes, and reasoning details that are whole."""
    is_mistral = call.model.lower().startswith("mistralai/")
    seen: set[str] = set()
    for index, message in call.messages():
        for position, made in enumerate(calls_of(message)):
            identifier = as_string(made.get("id")) or ""
            if is_mistral and not _MISTRAL_IDENTIFIER.fullmatch(identifier):
                yield _MISTRAL_FORM.fill(identifier=identifier)
            elif not _IDENTIFIER.fullmatch(identifier):
                yield _FORM.fill(index=index, position=position)
            if identifier in seen:
                yield _REUSED.fill(index=index, position=position)
            seen.add(identifier)
        details = message.get("reasoning_details")
        if details is not None and not _are_whole(details):
            yield _DETAILS.fill(index=index)


def _are_whole(details: object) -> bool:
    blocks = as_array(details)
    if not blocks:
        return False
    return all(isinstance((as_object(block) or {}).get("type"), str) for block in blocks)
