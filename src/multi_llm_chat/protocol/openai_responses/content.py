"""Messages of Responses, and media as parts of their content."""

from multi_llm_chat.history.values import JsonObject, Media
from multi_llm_chat.protocol.attachments import PICTURES, media_label, settle_media

#: Files that are sent as they are (RSP-24).
_DOCUMENTS = (
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.",
    "application/msword",
    "application/vnd.ms-",
    "application/rtf",
)


def write_media(part: Media, fields: JsonObject) -> JsonObject:
    """The media as input, or words that stand for it."""
    if part.file_id is not None and fields:
        return {"type": "input_file", "file_id": part.file_id}
    media = settle_media(part)
    if media is not None and media.mime in PICTURES:
        url = media.url or f"data:{media.mime};base64,{media.data}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if media is not None and media.mime.startswith(_DOCUMENTS):
        if media.url:
            return {"type": "input_file", "file_url": media.url}
        data = f"data:{media.mime};base64,{media.data}"
        return {"type": "input_file", "filename": media.name or "document.pdf", "file_data": data}
    return {"type": "input_text", "text": media_label(part)}


def user_message(role: str, content: list[JsonObject], fields: JsonObject) -> JsonObject:
    """A message of the user's or the system's; a single text is a string."""
    alone = len(content) == 1 and content[0].keys() == {"type", "text"}
    return {
        "type": "message",
        "role": role,
        "content": content[0]["text"] if alone else content,
    } | fields


def model_message(content: list[JsonObject]) -> JsonObject:
    """A message of the model's (LCP-14)."""
    return {"type": "message", "role": "assistant", "content": content}


def without_id(fields: JsonObject, bound: bool) -> JsonObject:
    """The fields of a message; without its id where that is not bound to what is sent with it."""
    if bound or "id" not in fields:
        return fields
    return {key: value for key, value in fields.items() if key not in ("id", "status")}
