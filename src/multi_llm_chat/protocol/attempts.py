"""The attempts of one request: retries and stronger repairs, until it is answered or not retried.

Rules:
1. ``next`` returns the exchange to run; if it fails, ``failed`` returns the seconds to wait before
   the next one, or raises the failure.
2. ``notes`` has the notes of the request itself, then those of the retries and repairs.
3. A stronger repair may rename tools: events, turns and failures are returned with the caller's names.
4. Nothing here sends, waits or reads a clock: both HTTP drivers use the same decisions.
5. Repairs that earlier refusals of the conversation required are applied before the first exchange; the answer's turn
   records the repairs of this request (``protocol._repair_ladder``).
"""

from collections.abc import Mapping
from typing import Final, assert_never
from urllib.parse import urlsplit

from msgspec.structs import replace

from multi_llm_chat.data_limits import REPLY_LIMITS, Limits
from multi_llm_chat.errors import (
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    ProviderError,
    StreamBroken,
)
from multi_llm_chat.events import Event, ToolCallEnd, ToolCallStart
from multi_llm_chat.history.values import Origin, ToolCall, Turn
from multi_llm_chat.protocol._rejections import find_rejection, guess_repair
from multi_llm_chat.protocol._repair_ladder import (
    POSITIONAL,
    is_known_repair,
    named_option,
    next_repair,
    recall_repairs,
    repair_mark,
)
from multi_llm_chat.protocol._rule_ids import own_rule
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.protocol.rendered_request import endpoint_of
from multi_llm_chat.protocol.retry import (
    Decision,
    GiveUp,
    RepairAndRetry,
    RetryPolicy,
    Wait,
    decide,
)
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.request import ModelRequest

#: The note on an answer to a request that contains only the newest turns.
_CUT: Final = "The provider refused the conversation; this answer knows only the newest turns."


class Attempts:
    """The attempts of one request, each of them an ``Exchange``."""

    def __init__(
        self,
        request: ModelRequest,
        *,
        api_key: str | None = None,
        retry: RetryPolicy | None = None,
        limits: Limits = REPLY_LIMITS,
    ) -> None:
        row = provider_row(request.provider)
        self._origin = Origin(
            row.name,
            endpoint_of(request.base_url or row.base_url),
            request.model or row.default_model,
        )
        recalled = recall_repairs(request, self._origin)
        self.request = recalled.request
        self._limits = limits
        self.exchange = Exchange(self.request, api_key=api_key, limits=limits)
        self.streamed = False  # whether events of the current exchange were emitted
        self._retry = retry or RetryPolicy()
        self._key = api_key
        self._names = recalled.names  # from tool names as sent to the caller's
        self._attempt = 1
        self._recalled = recalled.rules
        self._tried: dict[str, str] = {}  # repairs of this request, with the rule of each
        self._unused = True
        self._notes: list[Note] = []
        for key, rule in recalled.rules.items():
            self._note(rule, f"sent with {key}, as an earlier request was accepted")

    def __repr__(self) -> str:
        return f"Attempts({self.exchange!r}, attempt {self._attempt})"

    @property
    def notes(self) -> tuple[Note, ...]:
        """The changes of the request, and its retries."""
        return (*self.exchange.rendered.notes, *self._notes)

    @property
    def turn(self) -> Turn:
        """The model's turn so far, with the caller's tool names and a record of the repairs."""
        turn = self._original_turn(self.exchange.turn)
        learned = {key: rule for key, rule in self._recalled.items() if key not in POSITIONAL}
        learned |= {key: rule for key, rule in self._tried.items() if is_known_repair(key)}
        if not learned:
            return turn
        meta = turn.meta | repair_mark(self._origin, learned)
        if "newest_turns" in learned:
            meta["compressed"] = _CUT
        return replace(turn, meta=meta)

    def next(self) -> Exchange:
        """The exchange to run now."""
        if not self._unused:
            self.exchange = Exchange(self.request, api_key=self._key, limits=self._limits)
        self._unused = self.streamed = False
        return self.exchange

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of a reply.

        Raises:
            ProviderError: The server redirects; the key is not sent to another address.
        """
        if 300 <= status < 400:
            place = urlsplit(headers.get("location", "")).netloc or "another address"
            raise ProviderError(
                f"The server redirects to {place} ({status}). Set base_url to the address that answers itself.",
                provider=self.exchange.rendered.provider,
                status=status,
            )
        self.exchange.begin(status, headers)

    def end(self, loss: ConnectionFailed | None) -> list[Event]:
        """End the exchange; its reply may be complete even if the connection was lost.

        Raises:
            ProviderError: The reply is an error or incomplete; ``StreamBroken`` has the part that arrived.
        """
        try:
            return self.exchange.end()
        except StreamBroken as broken:
            if loss is not None:
                broken.code = loss.code
                broken.args = (f"{loss.message} {broken.message}",)
            raise

    def read(self, events: list[Event]) -> list[Event]:
        """The events with the caller's tool names."""
        self.streamed = True
        return [self._original_event(event) for event in events] if self._names else events

    def failed(self, failure: ProviderError, *, jitter: float) -> float:
        """Decide what follows a failure: the seconds to wait before the next request.

        Raises:
            ProviderError: This failure, if the request is not retried.
        """
        if isinstance(failure.partial, Turn):
            failure.partial = self._original_turn(failure.partial)
        failure.provider = failure.provider or self.exchange.rendered.provider
        found = self._next_repair(failure)
        decision: Decision = decide(
            self._attempt,
            failure,
            policy=self._retry,
            streamed=self.streamed,
            jitter=jitter,
            repair=found[0] if found else None,
            repaired=bool(self._tried),
        )
        match decision:
            case Wait(seconds):
                self._attempt += 1
                self._note("STR-09", f"asked again after {_kind(failure)}")
                return seconds
            case RepairAndRetry(key):
                assert found is not None
                rejection = find_rejection(failure.message)
                rule = (
                    own_rule(self.exchange.rendered.provider, rejection.rule) if rejection else ""
                )
                self._tried[key] = rule
                self._note(rule, f"asked again with {key}")
                _, self.request, renamed = found
                if renamed:
                    earlier = self._names
                    self._names = {sent: earlier.get(name, name) for sent, name in renamed.items()}
                return 0.0
            case GiveUp(reason):
                failure.add_note(f"Not asked again: {reason}.")
                raise failure
            case _:
                assert_never(decision)

    def _next_repair(
        self, failure: ProviderError
    ) -> tuple[str, ModelRequest, Mapping[str, str]] | None:
        """The stronger repair that answers the failure, if it is a refusal of the request."""
        if isinstance(failure, ContextTooLong):
            # Status 413 (too many bytes) is mostly due to images; too many tokens are handled by the run's compression.
            matching = "describe_media" if failure.status == 413 else None
            found = next_repair(self.request, matching, self._tried)
            return found if found is not None and found[0] == matching else None
        if not isinstance(failure, BadRequest):
            return None
        matching = failure.repair or guess_repair(failure.message)
        if matching == "drop_options":
            matching = named_option(self.request, failure.message) or matching
        return next_repair(self.request, matching, self._tried)

    def _note(self, rule: str, message: str) -> None:
        self._notes.append(Note(rule, None, message))

    def _original_event(self, event: Event) -> Event:
        if isinstance(event, ToolCallStart):
            return replace(event, name=self._names.get(event.name, event.name))
        if isinstance(event, ToolCallEnd):
            return replace(event, call=self._original_call(event.call))
        return event

    def _original_turn(self, turn: Turn) -> Turn:
        if not self._names:
            return turn
        parts = (
            self._original_call(part) if isinstance(part, ToolCall) else part for part in turn.parts
        )
        return replace(turn, parts=tuple(parts))

    def _original_call(self, call: ToolCall) -> ToolCall:
        return replace(call, name=self._names.get(call.name, call.name))


def _kind(failure: ProviderError) -> str:
    status = f" ({failure.status})" if failure.status else ""
    return f"{type(failure).__name__}{status}"
