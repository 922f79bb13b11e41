"""The response that an application received from a provider, as bytes.

Rules:
1. Accepted are: responses of HTTP libraries (``iter_bytes``, ``iter_content``, ``iter_lines``, or iterable), iterables of bytes or
   text, cut anywhere or at the ends of lines, iterables of parsed chunks (mappings or the objects of a vendor's library), and whole
   replies in all these forms.
2. A body that is not a stream of events is returned as one piece, with its content type.
3. ``{"success": …, "response": …}`` around a response, as in the seeds, is removed.
4. Pieces are passed on as they arrive; only the first one is inspected before.
"""

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.compat.handlers._stream_context import Cancellation, StreamResult
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.history.json_values import as_object, clean_json, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.lenient_json import read_json

_JSON: Final = {"content-type": "application/json"}
_EVENTS: Final = {"content-type": "text/event-stream"}
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:")
#: How many pieces the thread reads ahead.
_AHEAD: Final = 16
_PLAIN: Final = (str, int, float, bool, type(None))


class Opened(Struct, frozen=True):
    """A response: its head, and the pieces of its body."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes]


def open_response(response: object) -> Opened:
    """The response as status, headers and bytes.

    Raises:
        ProviderError: The application reports a failed request.
    """
    response = _unwrapped(response)
    if _is_whole(response):
        return Opened(200, _JSON, iter([_json(response)]))
    items, in_lines = _items(response)
    status = _status(response)
    if status >= 400:
        return Opened(status, _headers(response), map(_bytes, items))
    return _sorted_out(items, in_lines)


def until_cancelled(pieces: Iterator[bytes], cancellation: Cancellation) -> Iterator[bytes]:
    """The pieces until the run is cancelled; a thread reads them, because a blocked read cannot be interrupted."""
    received: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
    room = threading.Semaphore(_AHEAD)

    def read() -> None:
        try:
            for piece in pieces:
                received.put(piece)
                room.acquire()
                if cancellation.is_set:
                    return
            received.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            received.put(error)

    cancellation.on_cancel(lambda: received.put(None))
    threading.Thread(target=read, name="multi_llm_chat reply", daemon=True).start()
    while (piece := received.get()) is not None and not cancellation.is_set:
        if isinstance(piece, BaseException):
            raise piece
        room.release()
        yield piece
    room.release()


def close_response(response: object, cancellation: Cancellation | None = None) -> None:
    """Close the connection of the response, if it has one."""
    close = getattr(response, "close", None)
    if not callable(close):
        return

    def work() -> None:
        with suppress(Exception):  # the response has ended: an error while closing does not matter
            close()

    if cancellation is not None and cancellation.is_set:
        # A blocked read holds the lock of its stream, so closing it here would block as well.
        threading.Thread(target=work, name="multi_llm_chat close", daemon=True).start()
    else:
        work()


def _sorted_out(items: Iterator[Any], in_lines: bool) -> Opened:
    """Detect the kind of the body by its beginning."""
    first = next(items, None)
    if first is None:
        return Opened(200, _EVENTS, iter(()))
    if not isinstance(first, bytes | str):
        return Opened(200, _EVENTS, map(_bytes, itertools.chain([first], items)))
    pieces = _pieces(_bytes(first), items, in_lines)
    if not _bytes(first).lstrip().startswith((b"{", b"[")):
        return Opened(200, _EVENTS, pieces)
    body = b"".join(pieces)
    members = read_json(body)
    if isinstance(members, list):  # Gemini streams an array if events were not requested
        return Opened(200, _EVENTS, map(_bytes, cast("list[object]", members)))
    return Opened(200, _JSON, iter([body]))


def _pieces(first: bytes, items: Iterator[Any], in_lines: bool) -> Iterator[bytes]:
    """The pieces, with line ends restored if they were removed; no piece is held back."""
    yield first
    in_lines = in_lines and b"\n" not in first
    decided = in_lines
    for piece in map(_bytes, items):
        if not decided:
            in_lines, decided = _are_lines(first, piece), True
        yield b"\n" + piece if in_lines else piece


def _unwrapped(response: object) -> object:
    if isinstance(response, StreamResult):
        response = {
            "success": response.success, "response": response.response, "error": response.error,
        }  # fmt: skip
    if not isinstance(response, Mapping):
        return response
    wrapped = cast("Mapping[str, object]", response)
    if "success" not in wrapped:
        return wrapped
    inner = wrapped.get("response")
    if wrapped["success"] and inner is not None:
        return inner
    reason = wrapped.get("error") or "no reason was given"
    raise ProviderError(f"The application could not make the request: {reason}")


def _is_whole(response: object) -> bool:
    if isinstance(response, Mapping):
        return True
    streams = any(hasattr(response, name) for name in ("__iter__", "iter_bytes", "iter_lines"))
    return not streams or callable(getattr(response, "model_dump", None))


def _items(response: object) -> tuple[Iterator[Any], bool]:
    """The pieces of a body, and whether each is known to be a line."""
    if isinstance(response, bytes | str):
        return iter([response]), False
    for name, arguments in (("iter_bytes", {}), ("iter_content", {"chunk_size": None})):
        method = getattr(response, name, None)
        if callable(method):
            return iter(cast("Iterable[Any]", method(**arguments))), False
    lines = getattr(response, "iter_lines", None)
    if callable(lines):
        return iter(cast("Iterable[Any]", lines())), True
    return iter(cast("Iterable[Any]", response)), False


def _status(response: object) -> int:
    for name in ("status_code", "status"):
        status = getattr(response, name, None)
        if isinstance(status, int):
            return status
    return 200


def _headers(response: object) -> dict[str, str]:
    headers: Mapping[object, object] = getattr(response, "headers", None) or {}
    return {str(key): str(value) for key, value in headers.items()}


def _are_lines(first: bytes, second: bytes) -> bool:
    """Whether these look like lines whose ends were removed.

    A stream that is cut elsewhere continues within its first line or with the end of it, never with another field.
    """
    if b"\n" in first + second or not first.startswith(_FIELDS):
        return False
    name, _, value = first.partition(b":")
    if name == b"data" and value.strip() != b"[DONE]" and read_json(value) is None:
        return False
    return not second or second.startswith(_FIELDS)


def _bytes(item: object) -> bytes:
    """A piece as bytes; a parsed chunk as the server-sent event of it."""
    if isinstance(item, str):
        return item.encode(errors="replace")
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(cast("bytes", item))
    plain = _plain(item)
    kind = (as_object(plain) or {}).get("type")
    name = f"event: {kind}\n".encode() if isinstance(kind, str) and kind.isprintable() else b""
    return name + b"data: " + _json(plain) + b"\n\n"


def _json(response: object) -> bytes:
    return compact_json(clean_json(_plain(response))).encode(errors="replace")


def _plain(value: Any) -> Any:
    """The value as JSON: mappings unchanged, objects by their fields."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, Any]", value).items()
        return {str(key): _plain(item) for key, item in entries}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    fields: JsonObject = getattr(value, "__dict__", {})
    return {name: _plain(item) for name, item in fields.items() if not name.startswith("_")}
