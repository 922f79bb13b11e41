"""A conversation's events on a board."""

from multi_llm_chat import errors
from multi_llm_chat.cli.terminal import Board, Summary
from multi_llm_chat.errors import ConnectionFailed, MultiLLMChatError, ProviderError
from multi_llm_chat.events import (
    ErrorRecord,
    Event,
    MessageFinished,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
)


def show(board: Board, event: Event, *, once: bool = False) -> None:
    """Show what happens. Asked ``once``, nobody can give a command afterwards."""
    match event:
        case MessageSaved() | MessageFinished():
            pass
        case RunStarted():
            board.begin(event.speaker, event.model)
        case RunResumed():
            board.resume(event.speaker)
        case RunFinished():
            board.end(event.speaker, Summary(event.usage, event.cost, event.stop_reason))
        case RunFailed():
            board.fail(event.speaker, as_error(event.error), once=once)
        case _:
            board.event(event.speaker, event)


def as_error(record: ErrorRecord) -> MultiLLMChatError:
    """The error that was recorded."""
    kind = getattr(errors, record.kind, None)
    if kind is ConnectionFailed:
        return ConnectionFailed(
            record.message, before_first_byte=True, provider=record.provider, code=record.code
        )
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(
            record.message, provider=record.provider, status=record.status, code=record.code
        )
    if isinstance(kind, type) and issubclass(kind, MultiLLMChatError):
        return kind(record.message)
    return MultiLLMChatError(record.message)
