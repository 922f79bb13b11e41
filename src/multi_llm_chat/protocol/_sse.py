"""Server-sent events: bytes in, ``(event name, data)`` out.

Rules (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream):
1. Lines end with CRLF, LF or CR; it does not matter how the bytes are split into pieces.
2. A blank line ends an event. An event without data is skipped; so is one with empty data, a keep-alive
   (the specification would dispatch it).
3. Several ``data`` lines are joined by a newline; one space after the colon is not data.
4. Comments (a line that starts with a colon) and the fields ``id`` and ``retry`` are skipped,
   as are unknown ones; one byte order mark at the very start is skipped too.
5. ``end`` returns an event that the end of the stream cuts off (the specification
   would drop it): some servers omit the blank line after ``[DONE]`` or after the last JSON.
   The decoder decides whether its data is complete.
6. Each byte is read a fixed number of times: the cost is linear, whatever the size of the pieces.
7. An unfinished event is kept up to ``Limits.item_bytes``; above that, the next ``feed`` raises ``OverLimit``.
"""

from functools import lru_cache
from typing import TypeAlias

from multi_llm_chat.data_limits import Limits, OverLimit, in_megabytes

#: The name of an event (``None`` for none) and its data.
ServerSentEvent: TypeAlias = tuple[str | None, bytes]

_MARK = b"\xef\xbb\xbf"
# Bytes as numbers: a search for a one-byte string takes three times as long.
_CR = 13
_LF = 10


class SseDecoder:
    """Parses one stream of server-sent events."""

    def __init__(self, limits: Limits) -> None:
        self._event = _OpenEvent()
        self._limit = limits.item_bytes
        self._held = 0  # the number of bytes of the unfinished event
        self._line: list[bytes] = []  # the pieces of an unfinished line
        self._after_return = False  # the last byte was a CR: a LF now belongs to it
        self._start: bytes | None = b""  # the first bytes, as long as they may be a byte order mark

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes; return the events they complete.

        Raises:
            OverLimit: An event is too large.
        """
        if self._held > self._limit:
            raise OverLimit(f"an event of more than {in_megabytes(self._limit)}")
        if self._start is not None:
            chunk = self._skip_mark(chunk)
        if self._after_return or _CR in chunk:
            chunk = self._unify_ends(chunk)
        if _LF not in chunk:
            if chunk:
                self._line.append(chunk)
                self._held += len(chunk)
            return []
        added = len(chunk)
        if self._line:
            self._line.append(chunk)
            chunk = b"".join(self._line)
            self._line = []
        finished: list[ServerSentEvent] = []
        if self._event.begun:
            chunk = self._finish_event(chunk, finished)
            if not self._event.begun:
                self._held = 0
        if chunk.endswith(b"\n\n"):
            self._held = 0
            frames = _read_frames(chunk[:-2])
            return finished + frames if finished else frames
        whole, blank, rest = chunk.rpartition(b"\n\n")
        self._keep(rest)
        self._held = len(rest) if blank else self._held + added
        return finished + _read_frames(whole) if blank else finished

    def end(self) -> list[ServerSentEvent]:
        """Return the event that the end of the stream cut off, if there is one."""
        events: list[ServerSentEvent] = []
        rest = (self._start or b"") + b"".join(self._line)
        self._start = None
        self._line = []
        if rest:
            self._event.read_line(rest)
        self._event.dispatch(events)
        return events

    def _skip_mark(self, chunk: bytes) -> bytes:
        start = (self._start or b"") + chunk
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_MARK)

    def _unify_ends(self, chunk: bytes) -> bytes:
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if chunk.endswith(b"\r"):
            self._after_return = True
        chunk = chunk.replace(b"\r\n", b"\n")
        return chunk.replace(b"\r", b"\n") if _CR in chunk else chunk

    def _finish_event(self, chunk: bytes, events: list[ServerSentEvent]) -> bytes:
        """Read the lines up to the end of the event that an earlier chunk began."""
        if chunk.startswith(b"\n"):
            self._event.dispatch(events)
            return chunk[1:]
        head, blank, rest = chunk.partition(b"\n\n")
        if not blank:
            return chunk
        for line in head.split(b"\n"):
            self._event.read_line(line)
        self._event.dispatch(events)
        return rest

    def _keep(self, rest: bytes) -> None:
        """Read the complete lines of an unfinished event, and keep its last, incomplete line."""
        *lines, tail = rest.split(b"\n")
        for line in lines:
            if line:
                self._event.read_line(line)
        if tail:
            self._line.append(tail)


class _OpenEvent:
    """The lines of one event, until a blank one ends it."""

    def __init__(self) -> None:
        self.begun = False
        # Not a list of lines: an event of many short lines would take ten times its size in memory.
        self._data = bytearray()
        self._name = b""

    def read_line(self, line: bytes) -> None:
        self.begun = True
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data += value
            self._data.append(_LF)
        elif field == b"event":
            self._name = value

    def dispatch(self, events: list[ServerSentEvent]) -> None:
        data = bytes(self._data[:-1])
        if data:
            events.append((_decode(self._name), data))
        if self.begun:
            self.__init__()


@lru_cache(maxsize=64)  # a stream repeats a few event names
def _decode(name: bytes) -> str | None:
    return name.decode(errors="replace") or None


def _read_frames(text: bytes) -> list[ServerSentEvent]:
    """Read complete events; the blank line after the last one is already removed.

    Nearly every stream has one of two forms: each event is a single data line, or a name and a
    single data line. Both are detected by counting newlines, and split without a loop in Python.
    """
    newlines = text.count(b"\n")
    if text.startswith(b"data: "):
        if newlines == 0:
            return [(None, text[6:])] if len(text) > 6 else []
        values = text[6:].split(b"\n\ndata: ")
        if newlines == 2 * len(values) - 2:
            return [(None, data) for data in values if data]
    elif text.startswith(b"event: "):
        if newlines == 1:
            name, _, data = text[7:].partition(b"\ndata: ")
            return [(_decode(name), data)] if data else _read_lines(text)
        pairs = [frame.partition(b"\ndata: ") for frame in text[7:].split(b"\n\nevent: ")]
        if newlines == 3 * len(pairs) - 2 and all(line for _, line, _ in pairs):
            return [(_decode(name), data) for name, _, data in pairs if data]
    return _read_lines(text)


def _read_lines(text: bytes) -> list[ServerSentEvent]:
    """Read whole events of any form."""
    events: list[ServerSentEvent] = []
    event = _OpenEvent()
    for line in text.split(b"\n"):
        if line:
            event.read_line(line)
        else:
            event.dispatch(events)
    event.dispatch(events)
    return events
