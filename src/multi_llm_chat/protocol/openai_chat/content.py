"""The content of Chat Completions messages: media in each server's form, and merging of neighbouring messages."""

from collections.abc import Sequence
from itertools import compress, takewhile
from operator import eq
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Media
from multi_llm_chat.protocol.attachments import PICTURES, settle_media
from multi_llm_chat.protocol.providers import ChatQuirks

#: Files that Mistral reads (MIS-14).
_DOCUMENTS = ("application/pdf", "application/vnd.openxmlformats-officedocument.")

_AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def mark_part(part: JsonObject, mark: JsonObject) -> JsonObject:
    """Merge additional fields into a content part."""
    own = {key: value for key, value in mark.items() if key != "detail"}
    if "detail" in mark and "image_url" in part:
        own["image_url"] = part["image_url"] | {"detail": mark["detail"]}
    return part | own


def marked_text(text: str, content: object, key: str) -> str | list[JsonObject]:
    """The text of a result; as parts with their cache marks, if they have any and the server has a key for them."""
    if not key or type(content) is str:
        return text
    items = [as_object(item) or {} for item in as_list(content) or ()]
    marks = [_mark_of(item, key) for item in items]
    if not any(marks):
        return text
    if any(
        item.get("type") != "text" for item in items
    ):  # the text has labels in place of other items
        return [{"type": "text", "text": text} | next(filter(None, marks))]
    texts = [as_text(item.get("content")) for item in items]
    return [
        {"type": "text", "text": each} | mark
        for each, mark in zip(texts, marks, strict=True)
        if each.strip()
    ]


def _mark_of(item: JsonObject, key: str) -> JsonObject:
    fields = as_object((as_object(item.get("extras")) or {}).get("fields")) or {}
    return {key: fields[key]} if key in fields else {}


def write_media(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    """The media in the server's form, or None if it does not accept this kind."""
    if quirks.content == "string":
        return None
    if media.file_id is not None and media.extras is not None and "pdf" in quirks.media:
        return {"type": "file", "file": {"file_id": media.file_id}}
    settled = settle_media(media)
    if settled is None:
        return None
    if settled.mime in PICTURES:
        return _image(settled, quirks)
    if settled.mime.startswith(("audio/", "video/")):
        return _recording(settled, quirks)
    return _document(settled, quirks)


def _recording(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    address = media.url or f"data:{media.mime};base64,{media.data}"
    if media.mime.startswith("video/"):  # ORT-06
        return (
            {"type": "video_url", "video_url": {"url": address}}
            if "video" in quirks.media
            else None
        )
    if "audio_text" in quirks.media:  # MIS-15
        return {"type": "input_audio", "input_audio": media.data or media.url}
    if media.data is None or media.mime not in _AUDIO or "audio" not in quirks.media:
        return None
    audio = {"data": media.data, "format": _AUDIO[media.mime]}
    return {"type": "input_audio", "input_audio": audio}


def _document(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    address = media.url or f"data:{media.mime};base64,{media.data}"
    if "document_url" in quirks.media and media.mime.startswith(_DOCUMENTS):  # MIS-14
        named = {"document_name": media.name} if media.name else {}
        return {"type": "document_url", "document_url": address} | named
    if media.mime != "application/pdf":
        return None
    if "pdf_url" not in quirks.media and (media.data is None or "pdf" not in quirks.media):
        return None  # OAI-33: only OpenRouter accepts a URL (ORT-05)
    # OpenAI requires a name (OAI-33); OpenRouter was recorded to accept a file without one.
    name = media.name or ("" if "pdf_url" in quirks.media else "document.pdf")
    named = {"filename": name} if name else {}
    return {"type": "file", "file": named | {"file_data": address}}


def _image(media: Media, quirks: ChatQuirks) -> JsonObject | None:
    if media.data is not None and "image" in quirks.media:
        if media.mime == "image/gif" and "gif" not in quirks.media:
            return None
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{media.mime};base64,{media.data}"},
        }
    if media.url is not None and "image_url" in quirks.media:
        return {"type": "image_url", "image_url": {"url": media.url}}
    return None


def merge_messages(messages: list[JsonObject], quirks: ChatQuirks) -> list[JsonObject]:
    """Merge neighbouring messages of one role, except tool messages.

    Nothing is merged into a message with calls; it is merged into text before it only if the server allows both in one message.
    """
    roles = [message["role"] for message in messages]
    repeated = compress(roles, map(eq, roles, roles[1:]))
    if {"tool"}.issuperset(repeated):
        return messages  # nothing to merge, as in most histories
    merged: list[JsonObject] = []
    run: list[JsonObject] = []
    for message in messages:
        if run and not _joins(run[-1], message, quirks):
            merged.append(_glued(run))
            run = []
        run.append(message)
    if run:
        merged.append(_glued(run))
    return merged


def _joins(last: JsonObject, message: JsonObject, quirks: ChatQuirks) -> bool:
    return (
        last["role"] == message["role"] != "tool"
        and "tool_calls" not in last
        and (quirks.words_beside_calls or "tool_calls" not in message)
    )


def _glued(run: Sequence[JsonObject]) -> JsonObject:
    """Merge neighbouring messages in one step: merging pair by pair would take quadratic time."""
    if len(run) == 1:
        return run[0]
    glued: JsonObject = {}
    for message in run:
        glued |= message
    contents = [message["content"] for message in run if message.get("content")]
    words = list(takewhile(_is_text, contents))
    if words:
        contents[: len(words)] = ["\n\n".join(words)]
    if len(contents) == 1:
        glued["content"] = contents[0]
    elif contents:
        glued["content"] = [part for content in contents for part in as_parts(content)]
    return glued


def _is_text(content: object) -> bool:
    return isinstance(content, str)


def as_parts(content: Any) -> list[JsonObject]:
    """Content as a list of parts."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
