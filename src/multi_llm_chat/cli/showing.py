"""A conversation's events on a board."""

from multi_llm_chat import errors
from multi_llm_chat.cli.terminal import Board, Summary
from multi_llm_chat.errors import ConnectionFailed, MultiLLMChatError, ProviderError
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerResumed,
    AnswerStarted,
    ChatEvent,
    NotSaved,
)
from multi_llm_chat.store import ErrorRecord


def show(board: Board, event: ChatEvent, *, once: bool = False) -> None:
    """Show what happens; what needs no showing is passed over. Asked ``once``, nobody can give a command afterwards."""
    match event:
        case AnswerStarted():
            board.begin(event.speaker, event.model)
        case AnswerEvent():
            board.event(event.speaker, event.event)
        case AnswerResumed():
            board.resume(event.speaker)
        case AnswerFinished():
            cost = None if event.cost is None else event.cost.total
            board.end(event.speaker, Summary(event.usage, cost, event.stop_reason))
        case AnswerFailed():
            board.fail(event.speaker, as_error(event.error), once=once)
        case NotSaved():
            board.notice(event.error)
        case _:
            pass


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
