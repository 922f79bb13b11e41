"""Files that come with a message.

Rules:
1. The bytes decide what a file is, not its name or what the browser says.
2. Pictures, PDF, and text are taken; everything else is refused with what would be right.
"""

import base64
from typing import Final

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Media

#: Bytes of one file.
LARGEST: Final = 20_000_000

_BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def checked_upload(data: bytes, name: str, told: str) -> Media:
    """The file as a part of a message.

    Raises:
        UsageError: It is too large, or of a kind that no model reads.
    """
    shown = " ".join(name.split())[:120] or "file"
    if len(data) > LARGEST:
        raise UsageError(f"{shown} is larger than {LARGEST // 1_000_000} MB")
    mime = _kind(data)
    if mime is None:
        raise UsageError(
            f"{shown} cannot be sent: pictures (PNG, JPEG, GIF, WebP), PDF and text can"
        )
    if mime == "text/plain" and told.startswith("text/"):
        mime = told.partition(";")[0].strip()
        mime = mime if mime in ("text/csv", "text/markdown") else "text/plain"
    return Media(mime, base64.b64encode(data).decode(), name=shown)


def _kind(data: bytes) -> str | None:
    for beginning, mime in _BEGINNINGS:
        if data.startswith(beginning):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"\x00" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return "text/plain"
