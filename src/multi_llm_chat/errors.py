"""The exception hierarchy, sorted by whose fault an error is.

    MultiLLMChatError
    ├── UsageError (ValueError)      yours: the call, the history or the settings
    ├── ProviderError                theirs: the provider refused or failed
    │   ├── AuthError                the key is missing, wrong or not allowed
    │   │   └── MissingKey           (also a UsageError) no key is set; nothing was sent
    │   ├── RateLimited              too many requests; ``retry_after`` seconds if known
    │   ├── Overloaded               their servers are busy or broken; try again later
    │   ├── ConnectionFailed         the network failed; ``before_first_byte`` of the reply or after
    │   ├── ContextTooLong           the request does not fit the model's window
    │   ├── BadRequest               the request was rejected; ``repair`` names a stronger one
    │   ├── Refused                  the model or a safety filter declined to answer
    │   └── StreamBroken             the reply stopped early; ``partial`` is what arrived
    ├── OutputError                  an answer does not fit the type that was asked for
    ├── LimitReached                 a run ended at one of its limits, without an answer
    ├── ToolError                    a tool could not be run
    └── StoreError                   the conversation could not be saved or read
        └── RunLost                  another process owns the run, or it has ended; this process must stop

Each error has its details as fields, and its text says what to do next.
No error text contains a key, a header or a whole request.
"""

from typing import Any


class MultiLLMChatError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(MultiLLMChatError, ValueError):
    """The caller's input cannot be used; ``turn`` is the index of the turn at fault, if one is (not in the text)."""

    def __init__(self, message: str, *, turn: int | None = None) -> None:
        super().__init__(message)
        self.turn = turn


def check_type(value: object, wanted: type | tuple[type, ...], argument: str, example: str) -> None:
    """Check the type of an argument; None is accepted.

    Args:
        value: The argument's value.
        wanted: The accepted types.
        argument: The argument's name in error texts, such as ``Agent(limits=…)``.
        example: What to write instead.

    Raises:
        UsageError: The value has none of these types.
    """
    if value is not None and not isinstance(value, wanted):
        raise UsageError(f"{argument} takes {example}, not {type(value).__name__}")


class ProviderError(MultiLLMChatError):
    """A provider answered with an error, or with something that is not an answer."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        repair: str | None = None,
        partial: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.repair = repair
        self.partial = partial
        #: The ``AgenticLoopResult`` of the run that failed, with what it did before.
        self.result: Any = None


class AuthError(ProviderError):
    """The key is missing, wrong or lacks a permission. Check the key; retrying will not help."""


class MissingKey(AuthError, UsageError):
    """No key is set for the provider; nothing was sent."""


class RateLimited(ProviderError):
    """Too many requests or tokens; wait ``retry_after`` seconds where the provider said so."""


class Overloaded(ProviderError):
    """The provider's servers are busy or failed (5xx, ``overloaded_error``); retry later."""


class ConnectionFailed(ProviderError):
    """The provider was not reached, or the connection broke or was too slow.

    ``before_first_byte`` is true if nothing of the reply had arrived. ``code`` is the kind of
    failure in one word. Check the address, the network and the proxy settings.
    """

    def __init__(
        self,
        message: str,
        *,
        before_first_byte: bool,
        provider: str | None = None,
        code: str | None = None,
        partial: Any = None,
    ) -> None:
        super().__init__(message, provider=provider, code=code, partial=partial)
        self.before_first_byte = before_first_byte


class ContextTooLong(ProviderError):
    """The request does not fit the model's window; shorten the history or choose another model."""


class BadRequest(ProviderError):
    """The request was rejected as malformed; ``repair`` names the stronger repair, if one is known."""


class Refused(ProviderError):
    """The model or its provider's safety filter declined to answer."""


class OutputError(MultiLLMChatError):
    """An answer does not fit the type or schema that was asked for; ``text`` is the answer, ``turns`` are the turns of its run."""

    def __init__(self, message: str, *, text: str = "", turns: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.text = text
        self.turns = turns


class LimitReached(MultiLLMChatError):
    """A run ended at one of its limits, without an answer; ``reason`` names the limit, ``turns`` are the turns so far."""

    def __init__(self, message: str, *, reason: str, turns: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.turns = turns
        self.result: Any = None  # as in ProviderError


class StreamBroken(ProviderError):
    """The reply ended before it was complete; ``partial`` is the turn with the text so far."""


class ToolError(MultiLLMChatError):
    """A tool could not be run or gave no usable result."""


class StoreError(MultiLLMChatError):
    """The conversation could not be saved or read.

    ``reason`` is the kind of failure in one word: ``full``, ``read-only``, ``unreachable``, ``busy``,
    ``damaged``, ``newer``, ``missing``, ``closed``, ``lost``, or nothing where no word fits.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class RunLost(StoreError):
    """Another process owns the run, or the run has ended: the driver that gets this error stops and writes nothing."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"This process no longer drives the run {run_id[:60]!r}: it has ended, or another process has taken it.",
            reason="lost",
        )
        self.run_id = run_id
