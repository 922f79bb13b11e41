"""Replies that cost the server nothing: bytes made beforehand, for measurements.

Rules:
1. The pieces are what goes over the wire, head and framing included.
2. They are sent whatever the request says: nothing is judged, nothing recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from multi_llm_chat.testing.simulator.http import LAST_CHUNK, write_chunk, write_head


class Prebuilt(Struct, frozen=True):
    """The bytes of a whole HTTP reply, in the pieces in which they are written."""

    pieces: tuple[bytes, ...]

    @classmethod
    def stream(cls, frames: Iterable[bytes], content_type: str = "text/event-stream") -> Prebuilt:
        """A chunked reply, one chunk for each frame."""
        head = write_head(200, {"content-type": content_type, "transfer-encoding": "chunked"})
        return cls((head, *map(write_chunk, frames), LAST_CHUNK))

    @classmethod
    def whole(cls, body: bytes, content_type: str = "application/json") -> Prebuilt:
        """A reply with a Content-Length."""
        headers = {"content-type": content_type, "content-length": str(len(body))}
        return cls((write_head(200, headers), body))
