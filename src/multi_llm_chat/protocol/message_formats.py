"""Recognise the message lists of the dialects and of other libraries, and read them as a history.

Rules:
1. The messages decide the format: ``detect_format`` looks for keys and part types that only one format has. Messages
   in a form that several formats share (a role and a string) do not decide; a list of only such messages is read as ours.
2. ``library_messages`` reads LangChain, Vercel AI and pydantic-ai; openai-agents uses Responses items; ``archive.importer``
   reads ChatGPT's and Claude's exports.
3. An element that cannot be read becomes a native part; the other elements are read all the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, as_object, as_text, type_of
from multi_llm_chat.history.reader import (
    PART_READERS,
    ReadHistory,
    read_each,
    read_history,
    read_own_form,
)
from multi_llm_chat.history.values import JsonObject, Text, Turn
from multi_llm_chat.protocol._message_reader import without_unreadable
from multi_llm_chat.protocol.anthropic.read import read_messages as read_anthropic
from multi_llm_chat.protocol.anthropic.read import read_usual_messages as read_usual_anthropic
from multi_llm_chat.protocol.gemini.read import read_messages as read_gemini
from multi_llm_chat.protocol.gemini.read import read_usual_messages as read_usual_gemini
from multi_llm_chat.protocol.library_messages import (
    LANGCHAIN_TYPES,
    block_format,
    read_flat_messages,
    read_langchain,
    read_pydantic_ai,
    read_vercel,
)
from multi_llm_chat.protocol.openai_chat.read import read_messages as read_chat
from multi_llm_chat.protocol.openai_chat.read import read_usual_messages as read_usual_chat
from multi_llm_chat.protocol.openai_responses.read import read_messages as read_responses

#: The format of our own histories.
OURS: Final = "ours"

_RESPONSES_ITEMS: Final = frozenset(
    {"message", "reasoning", "item_reference", "compaction", "additional_tools"}
)
_GEMINI_KEYS: Final = frozenset(
    {"text", "functionCall", "function_call", "functionResponse", "function_response", "inlineData", "inline_data",
     "fileData", "file_data", "executableCode", "codeExecutionResult", "thoughtSignature", "thought"}
)  # fmt: skip
_CHAT_KEYS: Final = frozenset(
    {"tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning_details"}
)
_OUR_PARTS: Final = frozenset({"tool_call", "tool_result", "media", "native"})


def read_any(history: Iterable[Any]) -> ReadHistory:
    """Turns from a history in our form, from the messages of a dialect or library, or from a user's text.

    A list may also contain user texts as plain strings.
    """
    if type(history) is ReadHistory:
        return history
    if isinstance(history, str):
        return read_history([Turn("user", (Text(history),))])
    if not isinstance(history, (list, tuple)):
        return read_history(history)
    for read_fast in _FAST_READERS:
        usual = read_fast(history)
        if usual is not None:
            return usual
    if str in set(map(type, history)):
        return read_history(_read_with_texts(cast("list[Any]", history)))
    found = detect_format(cast("list[Any]", history))
    read = READERS.get(found)
    return (
        read_each(cast("list[Any]", history))
        if read is None
        else read_history(without_unreadable(read(list(history))))
    )


def _read_with_texts(history: Iterable[Any]) -> Iterator[Turn]:
    for is_text, some in groupby(history, lambda each: type(each) is str):
        if is_text:
            yield from (Turn("user", (Text(text),)) for text in some)
        else:
            yield from read_any(list(some))


def detect_format(messages: Iterable[Any]) -> str:
    """The name of the messages' format: ``ours``, a dialect's name, or a library's.

    One turn that only our form can have decides: a history of ours may contain messages of another form.
    """
    found: str | None = None
    for value in messages:
        if type(value) is Turn:
            return OURS
        message = value if type_of(value) is dict else as_object(value)
        if message is None:
            continue
        content = message.get("content")
        if type(content) is str and len(message) == 2 and "role" in message:
            continue
        of_content = None
        if content is not None and type(content) is not str:
            of_content = _by_content(content)
            if of_content == OURS:
                return OURS
        found = found or _by_keys(message) or of_content
    return found or OURS


def _by_keys(message: JsonObject) -> str | None:
    return next((name for name, fits in _KEY_TESTS if fits(message)), None)


def _is_pydantic(message: JsonObject) -> bool:
    return as_text(message.get("kind")) in ("request", "response") and isinstance(
        message.get("parts"), list
    )


def _is_langchain(message: JsonObject) -> bool:
    if "lc" in message:
        return isinstance(message.get("kwargs"), dict)
    is_typed = as_text(message.get("type")) in LANGCHAIN_TYPES and "role" not in message
    return is_typed and ("data" in message or "content" in message)


def _is_vercel(message: JsonObject) -> bool:
    if "toolInvocations" in message or "experimental_attachments" in message:
        return True
    return any("type" in part for part in _parts(message))


def _is_gemini(message: JsonObject) -> bool:
    if "parts" not in message:
        return False
    parts = _parts(message)
    return not parts or any(not _GEMINI_KEYS.isdisjoint(part) for part in parts)


def _is_responses(message: JsonObject) -> bool:
    kind = message.get("type")
    if not isinstance(kind, str):
        return False
    is_item = kind in _RESPONSES_ITEMS or kind.endswith(("_call", "_output"))
    return kind == "message" if "role" in message else is_item


def _is_chat(message: JsonObject) -> bool:
    return not _CHAT_KEYS.isdisjoint(message) and not _is_ours(message)


def _parts(message: JsonObject) -> list[JsonObject]:
    listed = message.get("parts")
    items = as_list(listed) or [listed]
    return [part for item in items if (part := as_object(item)) is not None]


_KEY_TESTS: Final[tuple[tuple[str, Callable[[JsonObject], bool]], ...]] = (
    ("pydantic-ai", _is_pydantic),
    ("langchain", _is_langchain),
    ("vercel", _is_vercel),
    ("gemini", _is_gemini),
    ("openai_responses", _is_responses),
    ("openai_chat", _is_chat),
)


def _is_ours(message: JsonObject) -> bool:
    """Whether the content has parts of ours next to OpenAI's keys."""
    return any(
        isinstance(part, Struct) or as_text((as_object(part) or {}).get("type")) in _OUR_PARTS
        for part in as_list(message.get("content")) or []
    )


def _by_content(content: Any) -> str | None:
    for value in as_list(content) or []:
        if isinstance(value, Struct):
            return OURS  # a part as a ``Part`` value
        part = as_object(value) or {}
        if len(part) == 2 and part.get("type") == "text" and "text" in part:
            continue  # most parts; several formats have them
        found = block_format(part)
        if found is not None:
            return found
        kind = as_text(part.get("type"))
        if "content" in part or (kind in PART_READERS and kind != "text"):
            return OURS
    return None


#: The readers of other libraries' messages, and of flat ones.
LIBRARIES: Final[Mapping[str, Callable[[list[Any]], Iterable[Turn]]]] = {
    "flat": read_flat_messages,
    "langchain": read_langchain,
    "vercel": read_vercel,
    "pydantic-ai": read_pydantic_ai,
}

#: The fast paths for the usual messages of one format, which no other format has.
_FAST_READERS: Final[tuple[Callable[[Sequence[Any]], ReadHistory | None], ...]] = (
    read_own_form,
    read_usual_chat,
    read_usual_anthropic,
    read_usual_gemini,
)

READERS: Final[Mapping[str, Callable[[list[Any]], Iterable[Turn]]]] = {
    **LIBRARIES,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
    "openai_chat": read_chat,
    "openai_responses": read_responses,
}
