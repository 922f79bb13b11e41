"""One request and its reply, without I/O.

Rules:
1. Call ``request()`` first; then ``begin(status, headers)`` when the reply's head has arrived, ``receive``
   for every piece of its body, and ``end()`` exactly once.
2. ``receive`` never raises. As soon as an error of the reply is known, ``failure`` has it
   (no more data needs to be read then), and ``end`` raises it.
3. The same bytes give the same events however they are split.
4. ``turn`` is the finished turn; after a failure, the part of it that arrived, without unfinished calls.
5. No text, repr or error of this object contains the key or the value of a header.

The headers of a request:
6. A caller's header replaces ours of the same name, whatever its case; of two, the last one counts.
7. If there is an API key, the library sets its header: a caller cannot replace it.
8. Headers that frame a message (``Content-Length``, ``Host``, …) belong to the transport and are refused,
   as are characters that a header cannot contain. An error names the header and never shows its value.

Limits:
9. A reply is read up to ``limits``: bytes in all, of one event and of an error, JSON values (counted before they are decoded),
   nesting, parts. Above them, ``end`` raises ``StreamBroken`` with the code ``too_large`` and the turn so far, unless
   the reply is already complete; of an error, only the beginning is read.

Secrets:
10. A server may repeat what was sent: ``hide`` removes keys and header values from its errors.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack, overload

import msgspec
from msgspec import Struct

from multi_llm_chat.data_limits import REPLY_LIMITS, Limits, OverLimit, check_json, in_megabytes
from multi_llm_chat.errors import ProviderError, StreamBroken, UsageError
from multi_llm_chat.events import Event, Usage
from multi_llm_chat.history.values import Origin, Part, Thinking, ToolCall, Turn
from multi_llm_chat.protocol._sse import SseDecoder
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.dialect_registry import DIALECTS, Decoder
from multi_llm_chat.protocol.providers import ProviderRow, provider_row
from multi_llm_chat.protocol.rendered_request import Rendered, endpoint_of, render
from multi_llm_chat.protocol.request_settings import RequestSettings, read_request
from multi_llm_chat.request import ModelRequest


class HttpRequest(Struct, frozen=True):
    """An HTTP request, ready to send; its repr shows no header values."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.headers))
        return f"HttpRequest({self.method} {self.url}, headers: {names}, {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = {"headers": sorted(self.headers), "body": f"{len(self.body)} bytes"}
        return [("method", self.method), ("url", self.url), *shown.items()]


class Exchange:
    """One request to a model and its reply.

    Args:
        history: A ``ModelRequest``, alone; or turns in any readable form, with a provider's name
            and the settings of ``render`` (the answer is streamed by default).
        api_key: The key, for the header in which the provider expects it.
        limits: How much of the reply is read.
    """

    @overload
    def __init__(
        self,
        history: ModelRequest,
        *,
        api_key: str | None = None,
        limits: Limits = REPLY_LIMITS,
    ) -> None: ...
    @overload
    def __init__(
        self,
        history: Iterable[Any],
        provider: str,
        *,
        api_key: str | None = None,
        limits: Limits = REPLY_LIMITS,
        **settings: Unpack[RequestSettings],
    ) -> None: ...
    def __init__(
        self,
        history: ModelRequest | Iterable[Any],
        provider: str | None = None,
        *,
        api_key: str | None = None,
        limits: Limits = REPLY_LIMITS,
        **settings: Unpack[RequestSettings],
    ) -> None:
        if isinstance(history, ModelRequest) and provider is None and not settings:
            asked = history
        else:
            asked = read_request(history, provider, **settings)
        self._row = provider_row(asked.provider)
        tokens = [getattr(tool, "authorization", "") for tool in asked.options.server_tools]
        self._secrets = [api_key or "", *asked.headers.values(), *tokens]
        self._base_url = (asked.base_url or self._row.base_url).rstrip("/")
        self._speaker = asked.speaker or self._row.speaker
        #: Whether the request asks for a streamed reply.
        self.streams: bool = asked.stream
        self.rendered: Rendered = render(asked)
        headers = _with_values(asked.headers, self.rendered.headers)
        self._http_headers = request_headers(
            self._row, api_key, headers, content_type="application/json"
        )
        self._dialect = DIALECTS[self._row.dialect]
        self._context = DecodeContext(
            origin=Origin(self._row.name, endpoint_of(self._base_url), self.rendered.model),
            names=self.rendered.names,
            arguments=self.rendered.arguments,
            id_prefix=self._id_prefix(asked),
            parts=limits.parts,
        )
        self._limits = limits
        self._allowed = limits.total_bytes
        self._received = 0
        self._unchecked = limits.surely_allowed
        self._parser = SseDecoder(limits)
        self._decoder: Decoder = self._dialect.decoder(self._context)
        self._whole: list[bytes] = []
        self._parts: tuple[Part, ...] = ()
        self._status = 200
        self._headers: Mapping[str, str] = {}
        self._reads_stream = asked.stream
        self._ended = False
        #: Whether the rest of the body can be ignored.
        self.finished = False
        self.failure: ProviderError | None = None

    def __repr__(self) -> str:
        return f"Exchange({self._row.name}, {self.rendered.model})"

    def _id_prefix(self, asked: ModelRequest) -> str:
        """The prefix of ids for calls that come without one."""
        sent = asked.previous if self.rendered.continues else None
        if sent is None:
            return free_prefix(asked.turns)
        # The transcript has the ids of the calls that were sent; the turns after them may include other models' turns.
        return free_prefix(asked.turns[len(sent.turns) :], sent.calls, len(asked.turns))

    def request(self) -> HttpRequest:
        """The request to send."""
        url = f"{self._base_url}{self.rendered.path}"
        return HttpRequest("POST", url, dict(self._http_headers), self.rendered.content)

    def begin(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Take the reply's status and headers; without this call, a stream with status 200 is assumed."""
        self._status = status
        self._headers = {key.lower(): value for key, value in (headers or {}).items()}
        kind = self._headers.get("content-type", "")
        json_reply = "json" in kind and "stream" not in kind
        self._reads_stream = self.streams and status < 400 and not json_reply
        if status >= 400:
            self._allowed = self._limits.error_bytes

    def receive(self, data: bytes) -> list[Event]:
        """Read a piece of the reply's body."""
        if self.finished:
            return []
        self._received += len(data)
        if self._received > self._allowed:
            return self._receive_last(data)
        if not self._reads_stream:
            self._whole.append(data)
            return []
        try:
            return self._feed(self._parser.feed(data))
        except OverLimit as excess:
            return self._break_off(excess)

    def end(self) -> list[Event]:
        """Finish the reply; return the last events."""
        if self._ended:
            raise UsageError("end() was called twice on one exchange")
        self._ended = True
        if not self._reads_stream:
            return self._end_whole()
        if self.finished and self.failure is not None:
            raise self._failed(self.failure)
        events: list[Event] = []
        if not self.finished:
            try:
                events = self._feed(self._parser.end())
            except OverLimit as excess:
                events = self._break_off(excess)
                if self.failure is not None:
                    raise self.failure from None
        try:
            events += self._end_decoder()
        except ProviderError as error:
            raise self._failed(error) from None
        return events

    def _receive_last(self, data: bytes) -> list[Event]:
        """Read the allowed part of the piece that exceeds the limit, and nothing more."""
        allowed = data[: len(data) + self._allowed - self._received]
        if not self._reads_stream:
            self._whole.append(allowed)
            self.finished = True
            return []
        try:
            events = self._feed(self._parser.feed(allowed))
        except OverLimit as excess:
            return self._break_off(excess)
        if self.finished:
            return events
        return events + self._break_off(OverLimit(f"more than {in_megabytes(self._allowed)}"))

    def _break_off(self, excess: OverLimit) -> list[Event]:
        """Stop reading a stream that exceeds a limit; the reply may already be complete."""
        self.finished = True
        try:
            return self._end_decoder()
        except ProviderError as error:
            if isinstance(error, StreamBroken):
                error.code = "too_large"
                error.message = f"The reply holds {excess}; it is read no further. What arrived until then is kept."
                error.args = (error.message,)
            self._failed(error)
            return []

    def _end_decoder(self) -> list[Event]:
        try:
            return self._decoder.end()
        except OverLimit as excess:  # closing the open parts exceeded the limit of parts
            partial = Turn("assistant", self._decoder.parts)
            raise StreamBroken(
                f"The reply holds {excess}.", code="too_large", partial=partial
            ) from None

    def _failed(self, error: ProviderError) -> ProviderError:
        """Complete the error: add the provider's name, remove secrets, and give its partial turn the speaker's role."""
        hide(error, self._secrets)
        if isinstance(error.partial, Turn):
            error.partial = msgspec.structs.replace(
                error.partial, role=self._speaker, model=self.rendered.model
            )
        error.provider = self._row.name
        self.failure = error
        return error

    @property
    def usage(self) -> Usage:
        """The tokens that the provider has counted so far; all 0 if it has not reported any."""
        return self._decoder.usage or Usage()

    @property
    def turn(self) -> Turn:
        """The model's turn so far: its finished parts, with the speaker's role."""
        if self.failure is not None and isinstance(self.failure.partial, Turn):
            parts = self.failure.partial.parts
        else:
            parts = self._decoder.parts if self._reads_stream else self._parts
        meta = dict(self._context.meta)
        if self.rendered.binding and any(type(part) is Thinking for part in parts):
            meta["binding"] = self.rendered.binding
        return Turn(self._speaker, parts, model=self.rendered.model, meta=meta)

    def _feed(self, frames: Iterable[tuple[str | None, bytes]]) -> list[Event]:
        events: list[Event] = []
        feed, unchecked = self._decoder.feed, self._unchecked
        try:
            for event, data in frames:
                if len(data) > unchecked:
                    self._check(data)
                events += feed(event, data)
        except OverLimit as excess:
            return events + self._break_off(excess)
        if self._decoder.failure is not None:
            self.failure = self._decoder.failure
            self.finished = True
        return events

    def _check(self, data: bytes) -> None:
        limits = self._limits
        if len(data) > limits.item_bytes:
            raise OverLimit(f"an event of more than {in_megabytes(limits.item_bytes)}")
        check_json(data, values=limits.values, depth=limits.depth)

    def _end_whole(self) -> list[Event]:
        body = b"".join(self._whole)
        if self._status >= 400:
            error = self._dialect.read_failure(
                self._status, self._headers, body, provider=self._row.name
            )
            # The error may contain the model's output, which may still be readable as a reply (GRQ-04).
            if error.partial is None:
                raise self._failed(error)
            try:
                self._parts, events = self._dialect.decode_reply(body, self._context)
            except (ProviderError, OverLimit):
                raise self._failed(error) from None
            return events
        try:
            if self._received > self._allowed:
                raise OverLimit(f"more than {in_megabytes(self._allowed)}")
            check_json(body, values=self._limits.total_values, depth=self._limits.depth)
            self._parts, events = self._dialect.decode_reply(body, self._context)
        except OverLimit as excess:
            error = StreamBroken(f"The reply holds {excess}; it is not read.", code="too_large")
            raise self._failed(error) from None
        except ProviderError as error:
            raise self._failed(error) from None
        return events


def free_prefix(turns: Sequence[Turn], before: Iterable[str] = (), count: int | None = None) -> str:
    """A prefix for ids of new calls that no id in the history has; ``before`` are the ids of turns that are not in ``turns``."""
    taken = [part.tool_call_id for turn in turns for part in turn.parts if type(part) is ToolCall]
    prefix = f"call_{len(turns) if count is None else count}"
    ids = "\n".join(["", *taken, *before])  # one search in a joined text costs less than thousands
    while f"\n{prefix}_" in ids:
        prefix += "x"
    return prefix


# The headers of a request.

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token, RFC 9110, 5.6.2
_VALUE: Final = re.compile(r"[\t -~]*")
_TRANSPORT: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
#: Shorter values are not hidden: they are no secrets, and could be part of any word.
_SHORTEST_SECRET: Final = 6
#: Headers that the transport adds, in its spelling.
_SPELLINGS: Final = {"user-agent": "User-Agent", "accept-encoding": "Accept-Encoding"}


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Check a caller's headers.

    Raises:
        UsageError: A header cannot be sent.
    """
    read: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(str(name)):
            raise UsageError("The name of a header must be a word of ASCII letters, digits and -")
        if name.lower() in _TRANSPORT:
            raise UsageError(f"The header {name} is set by the HTTP client and cannot be given")
        if not _VALUE.fullmatch(str(value)):
            raise UsageError(f"The value of the header {name} must be one line of ASCII text")
        read[name] = str(value)
    return read


def request_headers(
    row: ProviderRow,
    api_key: str | None,
    extra: Mapping[str, str],
    *,
    content_type: str | None = None,
) -> dict[str, str]:
    """All headers of a request to a provider.

    Args:
        row: The provider.
        api_key: The key, if it needs one.
        extra: The caller's headers.
        content_type: The type of the body, if there is one.

    Raises:
        UsageError: A header of the caller's cannot be sent.
    """
    headers = {"Content-Type": content_type} if content_type else {}
    headers |= row.headers
    if extra:
        spelled = _SPELLINGS | {name.lower(): name for name in headers}
        for name, value in read_headers(extra).items():
            headers[spelled.setdefault(name.lower(), name)] = value
    if api_key:
        for name in [name for name in headers if name.lower() == row.key_header.lower()]:
            del headers[name]
        prefix = "Bearer " if row.key_header == "Authorization" else ""
        headers[row.key_header] = f"{prefix}{api_key}"
    return headers


def _with_values(given: Mapping[str, str], needed: Mapping[str, str]) -> Mapping[str, str]:
    """The caller's headers merged with those that the body needs: lists in one header, each value once (ANT-53)."""
    if not needed:
        return given
    headers = dict(given)
    names = {name.lower(): name for name in headers}
    for name, values in needed.items():
        known = names.get(name, name)
        listed = [*headers.get(known, "").split(","), *values.split(",")]
        distinct = dict.fromkeys(value.strip() for value in listed if value.strip())
        headers[known] = ",".join(distinct)
    return headers


def hide(error: ProviderError, secrets: Iterable[str]) -> None:
    """Remove the key, the values of the caller's headers and the tokens of MCP servers from the text of an error."""
    text = error.message
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[hidden]")
    if text != error.message:
        error.message = text
        error.args = (text, *error.args[1:])
