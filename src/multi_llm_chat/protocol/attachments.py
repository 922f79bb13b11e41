"""Attachments (images, sounds and files): detects their types, applies a receiver's limits, describes the rest as text.

Rules:
1. The bytes decide the type of media, not the label: a JPEG with the label PNG is sent as JPEG (ANT-39, OAI-26).
2. Base64 is read in both alphabets, with or without padding, and written in the standard one (GEM-25).
3. A text file for which the receiver has no part is written as text: its name, and its content in a code fence that is longer
   than any inside. Above ``LONGEST_TEXT`` characters it is cut, and the text says so.
4. Any other file that cannot be sent is replaced by a text that describes it, and the request has a note.
5. Limits of the receiver (number, bytes, sides, pages) are applied before sending, newest media first: otherwise one image
   that is too large would make every later request fail (ANT-37, ANT-38). An image above a limit is scaled
   down if Pillow is installed (the extra ``images``), and otherwise described as text.
"""

import base64
import binascii
import io
import re
import struct
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_part, split_result
from multi_llm_chat.history.values import Media, Origin, Part, Text, ToolResult, Turn
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.repair.policy import Note

if TYPE_CHECKING:
    from multi_llm_chat.protocol.providers import MediaLimits

#: The types of images that OpenAI and Anthropic accept.
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})

#: The most characters of a text file that are written as text.
LONGEST_TEXT: Final = 200_000

#: Unregistered spellings of types, and the registered ones.
_SPELLINGS: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "application/x-pdf": "application/pdf",
}

#: The characters of base64 that contain every file signature.
_HEAD: Final = 64

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)

#: Types of text files outside of ``text/…``.
_TEXT_TYPES: Final = re.compile(
    r"text/.+|.+\+(?:json|xml|yaml)|application/(?:json|jsonl|x-ndjson|ndjson|xml|yaml|x-yaml|toml|csv|sql|graphql"
    r"|javascript|x-javascript|typescript|x-sh|x-python|x-tex|rtf-text|x-httpd-php|ecmascript|manifest\+json)"
)
#: File extensions of text files, for media whose type is unknown.
_TEXT_NAMES: Final = re.compile(
    r".+\.(?:txt|md|markdown|rst|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|env|log|xml|html?|css|scss|jsx?|tsx?|mjs|py"
    r"|pyi|ipynb|rb|go|rs|java|kt|kts|scala|c|h|cc|cpp|hpp|cs|swift|php|pl|lua|r|jl|sh|bash|zsh|fish|ps1|bat|sql|graphql"
    r"|proto|tex|bib|diff|patch|srt|vtt|dockerfile|makefile|gradle|properties|vue|svelte|dart|ex|exs|erl|hs|clj|elm)",
    re.IGNORECASE,
)
_UNKNOWN_TYPES: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)


def settle_media(media: Media) -> Media | None:
    """The media with usable base64 data or a web URL, and with the type of its bytes; None if it has neither."""
    data, mime = media.data, media.mime.partition(";")[0].strip().lower()
    mime = _SPELLINGS.get(mime, mime)
    if data is None and media.url is not None:
        found = _DATA_URL.fullmatch(media.url)
        if found is None:
            usable = media.url.startswith(("https://", "http://")) and media.url.isprintable()
            return Media(mime, None, media.url, media.name) if usable else None
        mime, data = found[1] or mime, found[2]
    content = decode_base64(data or "")
    if not content:
        return None
    mime = _type_of_bytes(content, mime)
    if mime in _UNKNOWN_TYPES and media.name and _TEXT_NAMES.fullmatch(media.name):
        mime = "text/plain"
    return Media(mime, _standard(data or "", content), None, media.name)


def is_spelling(mime: str, registered: str) -> bool:
    """Whether this is another spelling of the registered type of a sound."""
    return mime.startswith("audio/") and _SPELLINGS.get(mime) == registered


def mislabelled(media: Media) -> str | None:
    """The type that the bytes show if it differs from the label; None if it is the same or unknown."""
    if media.data is None:
        return None
    stated = media.mime.partition(";")[0].strip().lower()
    stated = _SPELLINGS.get(stated, stated)
    content = decode_base64(media.data[:_HEAD])
    found = _type_of_bytes(content, stated)
    return found if content and found != stated else None


def _type_of_bytes(content: bytes, stated: str) -> str:
    """The type that the bytes show; the stated one if they show none and it has no signature."""
    found = sniff(content)
    if found is None and stated in PICTURES:  # an image that no receiver can read
        return "text/plain" if _is_text(content) else "application/octet-stream"
    return found or stated


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError as error:  # the content may end within a character
        return error.reason == "unexpected end of data"


def decode_base64(data: str) -> bytes:
    """The bytes of base64 in either alphabet, with or without padding and white space; none if it is not base64."""
    text = "".join(data.split()).rstrip("=")
    if "-" in text or "_" in text:
        text = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _standard(data: str, content: bytes) -> str:
    """The data in standard base64; data in this form is returned unchanged, so that a long image is not encoded again."""
    if len(data) == -(-len(content) // 3) * 4 and "-" not in data and "_" not in data:
        return data
    return base64.b64encode(content).decode("ascii")


def sniff(content: bytes) -> str | None:
    """The type that the first bytes show; None if they show none."""
    for signature, mime in _SIGNATURES:
        if content.startswith(signature):
            return mime
    if content[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(content[8:12])
    if content[4:8] == b"ftyp":
        brand = content[8:12]
        if brand in (b"avif", b"avis"):
            return "image/avif"
        if brand in (b"heic", b"heix", b"mif1"):
            return "image/heic"
        return "audio/mp4" if brand == b"M4A " else "video/mp4"
    return None


def dimensions(content: bytes) -> tuple[int, int] | None:
    """Width and height of an image, from its file header; None if they cannot be found."""
    try:
        return _dimensions(content)
    except (struct.error, IndexError):
        return None


def _dimensions(content: bytes) -> tuple[int, int] | None:
    match sniff(content):
        case "image/png":
            width, height = struct.unpack(">II", content[16:24])
        case "image/gif":
            width, height = struct.unpack("<HH", content[6:10])
        case "image/jpeg":
            return _jpeg_dimensions(content)
        case "image/webp":
            return _webp_dimensions(content)
        case _:
            return None
    return width, height


def _jpeg_dimensions(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(content):
        if content[at] != 0xFF:
            return None
        marker = content[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", content[at + 2 : at + 4])[0]
    return None


def _webp_dimensions(content: bytes) -> tuple[int, int] | None:
    kind = content[12:16]
    if kind == b"VP8X":
        width = 1 + int.from_bytes(content[24:27], "little")
        return width, 1 + int.from_bytes(content[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + ((bits >> 14) & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def count_pages(content: bytes) -> int:
    """The number of pages of a PDF whose page objects are not compressed; 0 if they cannot be counted."""
    return len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", content))


# Texts that replace media.


def short_label(media: Media) -> str:
    """The name and type of media."""
    shown = media.name or (media.url if media.url and not media.url.startswith("data:") else "")
    return f"[attachment: {shown + ', ' if shown else ''}{media.mime}]"


def media_label(media: Media) -> str:
    """The text that replaces media which cannot be sent: the content of a text file, else the name and type."""
    text = read_text_file(media)
    if text is None:
        return short_label(media)
    left_out = len(text) - LONGEST_TEXT
    if left_out > 0:
        text = text[:LONGEST_TEXT]
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    cut = f"\n[cut: {left_out} more characters]" if left_out > 0 else ""
    return f"{short_label(media)}\n{fence}\n{text.rstrip()}\n{fence}{cut}"


def read_text_file(media: Media) -> str | None:
    """The content of a text file; None if the media is not text, or its data is missing or damaged."""
    settled = settle_media(media)
    if settled is None or settled.data is None or not is_text_type(settled.mime):
        return None
    content = decode_base64(settled.data)
    for encoding in (
        ("utf-8-sig", "utf-16") if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",)
    ):
        try:
            return content.decode(encoding).replace("\0", "")
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1").replace("\0", "")


def is_text_type(mime: str) -> bool:
    """Whether files of this type are text."""
    return _TEXT_TYPES.fullmatch(mime) is not None


# The receiver's limits.


def fit_media(
    turns: Sequence[Turn],
    sources: Sequence[int | None],
    limits: "MediaLimits | None",
    notes: list[Note],
    origin: Origin,
    before: int = 0,
) -> list[Turn]:
    """Replace media above the receiver's limits by text; the newest media are kept first.

    ``before`` is the number of images that were already sent and stay in the request.
    """
    if limits is None or not any(
        map(_may_hold_media, chain.from_iterable(turn.parts for turn in turns))
    ):
        return list(turns)
    fitting = _Fitting(limits, notes, origin.provider)
    fitting.count(before + count_pictures(turns))
    kept = [
        fitting.turn(turn, source)
        for turn, source in zip(reversed(turns), reversed(sources), strict=True)
    ]
    return kept[::-1]


#: The longest side of scaled images, in pixels: it fits every provider's limit (ANT-38, OAI-27).
_SCALED_SIDE: Final = 2000

#: The rules that set limits on media, by provider.
_RULES: Final = {
    "anthropic": "ANT-38",
    "openai": "OAI-27",
    "openai-chat": "OAI-27",
    "gemini": "GEM-29",
    "xai": "XAI-06",
}


class _Fitting:
    """Applies the limits to one media part after the other, from the newest to the oldest."""

    def __init__(self, limits: "MediaLimits", notes: list[Note], provider: str) -> None:
        self._limits = limits
        self._notes = notes
        self._rule = _RULES.get(provider, "OAI-27")
        self._pictures = 0
        self._are_many = False

    def count(self, pictures: int) -> None:
        """Count the images, to find out whether the stricter limit for many images applies."""
        if self._limits.few is not None:
            self._are_many = pictures > self._limits.few

    def turn(self, turn: Turn, source: int | None) -> Turn:
        if not any(type(part) is Media or type(part) is ToolResult for part in turn.parts):
            return turn
        parts = [self._part(part, source) for part in reversed(turn.parts)][::-1]
        if all(new is old for new, old in zip(parts, turn.parts, strict=True)):
            return turn
        return Turn(turn.role, tuple(parts), turn.id, turn.created_at, turn.model, turn.meta)

    def _part(self, part: Part, source: int | None) -> Part:
        if isinstance(part, Media):
            return self._media(part, source)
        items = as_list(part.content) if isinstance(part, ToolResult) else None
        if not isinstance(part, ToolResult) or not items:
            return part
        fitted = [self._item(item, source) for item in reversed(items)][::-1]
        same = all(new is old for new, old in zip(fitted, items, strict=True))
        return part if same else replace(part, content=fitted)

    def _item(self, item: Any, source: int | None) -> Any:
        """Apply the limits to one element of a tool result; elements that are not media stay."""
        media = read_part(item, None, 0) if (as_object(item) or {}).get("type") == "media" else None
        if not isinstance(media, Media):
            return item
        fitted = self._media(media, source)
        return item if fitted is media else write_part(fitted)

    def _media(self, media: Media, source: int | None) -> Part:
        settled = settle_media(media)
        problem = self._problem(settled) if settled is not None else None
        if settled is None or problem is None:
            return media
        scaled = self._scaled(settled)
        if scaled is not None:
            done = "scaled" if self._is_read(settled) else "converted"
            self._notes.append(Note(self._rule, source, f"{done} {short_label(media)}: {problem}"))
            return scaled
        self._notes.append(
            Note(self._rule, source, f"written as text: {short_label(media)}: {problem}")
        )
        return Text(f"{short_label(media)[:-1]}: not sent, {problem}]")

    def _scaled(self, media: Media) -> Media | None:
        is_one_too_many = self._limits.images is not None and self._pictures > self._limits.images
        if is_one_too_many or media.data is None or not media.mime.startswith("image/"):
            return None
        content = decode_base64(media.data)
        scaled = scale_picture(content, self._side(content), self._limits.image_bytes)
        if scaled is None:
            return None
        mime = sniff(scaled) or media.mime
        return replace(media, mime=mime, data=base64.b64encode(scaled).decode("ascii"))

    def _side(self, content: bytes) -> int:
        """The longest side, in pixels, that the image may have when it is encoded again."""
        size = dimensions(content)
        is_large = size is None or self._size_problem(size) is not None
        most = self._limits.image_bytes
        if is_large or (most is not None and -(-len(content) // 3) * 4 > most):
            return _SCALED_SIDE
        return max(size or (_SCALED_SIDE,))

    def _is_read(self, media: Media) -> bool:
        return self._limits.image_types is None or media.mime in self._limits.image_types

    def _problem(self, media: Media) -> str | None:
        if media.data is None:
            return None
        if media.mime.startswith("image/"):
            return self._picture_problem(media, media.data)
        most = self._limits.pdf_pages
        if media.mime == "application/pdf" and most is not None:
            pages = count_pages(decode_base64(media.data))
            return f"it has more than {most} pages" if pages > most else None
        return None

    def _picture_problem(self, media: Media, data: str) -> str | None:
        limits = self._limits
        self._pictures += 1
        if limits.images is not None and self._pictures > limits.images:
            return f"a request may hold {limits.images} pictures"
        if limits.image_types is not None and not self._is_read(media):
            types = " and ".join(sorted(limits.image_types))
            return f"the receiver reads {types}"
        if limits.image_bytes is not None and len(data) > limits.image_bytes:
            return f"it is larger than {limits.image_bytes // 1024 // 1024} MB"
        return self._size_problem(dimensions(decode_base64(data)))

    def _size_problem(self, size: tuple[int, int] | None) -> str | None:
        if size is None:
            return None
        width, height = size
        side = self._limits.many_side if self._are_many else self._limits.image_side
        if side is not None and max(size) > side:
            return f"it is {width} x {height} pixels, and {side} a side are allowed"
        patches = -(-width // 32) * -(-height // 32)
        if self._limits.image_patches is not None and patches > self._limits.image_patches:
            return f"it is {width} x {height} pixels, more than the receiver takes"
        return None


def scale_picture(content: bytes, side: int, most_characters: int | None) -> bytes | None:
    """Scale the image to this longest side and to the allowed bytes; None without Pillow, or if scaling fails."""
    try:
        from PIL import Image  # noqa: PLC0415  an optional extra
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(content)) as opened:
            picture = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    for longest in (side, side * 3 // 4, side // 2, side // 4):
        picture.thumbnail((longest, longest))
        written = io.BytesIO()
        if picture.mode == "RGBA":
            picture.save(written, "PNG", optimize=True)
        else:
            picture.save(written, "JPEG", quality=85)
        if most_characters is None or -(-written.tell() // 3) * 4 <= most_characters:
            return written.getvalue()
    return None


def _may_hold_media(part: Part) -> bool:
    return type(part) is Media or (type(part) is ToolResult and type(part.content) is not str)


def count_pictures(turns: Sequence[Turn]) -> int:
    """The number of images in the turns, including those in results."""
    return sum(_count_pictures(part) for turn in turns for part in turn.parts)


def _count_pictures(part: Part) -> int:
    if isinstance(part, Media):
        return part.mime.startswith("image/")
    if isinstance(part, ToolResult) and not isinstance(part.content, str):
        return sum(media.mime.startswith("image/") for media in split_result(part.content)[1])
    return 0
