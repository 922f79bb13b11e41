"""Forms of inline media: base64 payloads and data URIs."""

import binascii
import re

import msgspec

_DATA_URI = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.IGNORECASE)


class DataUri(msgspec.Struct, frozen=True):
    """The parts of a ``data:`` URI; ``payload_is_valid`` says its base64 can be decoded."""

    media_type: str
    is_base64: bool
    payload_is_valid: bool


def is_base64(text: str) -> bool:
    """Whether the text is non-empty, padded, standard base64."""
    if not text:
        return False
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def is_url_safe_base64(text: str) -> bool:
    """Whether the text is base64 of either alphabet, padded or not, as protobuf's JSON reads it."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    return is_base64(standard + "=" * (-len(standard) % 4))


def parse_data_uri(url: str) -> DataUri | None:
    """Take a ``data:`` URI apart; None where the text is not one."""
    found = _DATA_URI.match(url)
    if found is None:
        return None
    base64_marked = found.group(2).lower().endswith(";base64")
    return DataUri(
        media_type=found.group(1).lower(),
        is_base64=base64_marked,
        payload_is_valid=base64_marked and is_base64(url[found.end() :]),
    )


#: How the pictures begin that OpenAI takes: PNG, JPEG, GIF, and WebP in its RIFF box.
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF")


def is_picture(url: str) -> bool:
    """Whether the bytes of a base64 data URI begin like a picture of a known format (OAI-26)."""
    try:
        head = binascii.a2b_base64(url.partition(",")[2][:24].encode("ascii"))
    except (ValueError, UnicodeEncodeError):
        return False
    return head.startswith(_PICTURES)


def is_web_url(url: str) -> bool:
    """Whether the text is an http or https address."""
    return bool(re.match(r"https?://[^\s/]+", url, re.IGNORECASE))
