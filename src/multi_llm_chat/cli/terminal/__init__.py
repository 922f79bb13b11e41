"""The output and the questions of a conversation in a terminal; independent of how answers are produced.

- ``open_board(...)``: a ``Board`` that shows answers as they arrive. ``AnswerSummary`` ends an answer.
- ``TerminalQuestions(board)``: ``approve`` and ``elicit``, the callbacks of tools and servers.
- ``ChatPrompt(folder, vocabulary, toolbar)``: where messages are typed. ``Vocabulary`` is what it completes.
- ``stopped_by_interrupt(stop)``: Ctrl-C while an answer arrives.

Each is imported on first use: rich with the first answer, prompt_toolkit with the first prompt.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from multi_llm_chat.cli.terminal.boards import Board, open_board
    from multi_llm_chat.cli.terminal.interrupts import stopped_by_interrupt
    from multi_llm_chat.cli.terminal.prompt import ChatPrompt, Vocabulary
    from multi_llm_chat.cli.terminal.questions import TerminalQuestions
    from multi_llm_chat.cli.terminal.words import AnswerSummary

__all__ = [
    "AnswerSummary",
    "Board",
    "ChatPrompt",
    "TerminalQuestions",
    "Vocabulary",
    "open_board",
    "stopped_by_interrupt",
]

_HOMES: Final = {
    "Board": "boards",
    "ChatPrompt": "prompt",
    "TerminalQuestions": "questions",
    "AnswerSummary": "words",
    "Vocabulary": "prompt",
    "open_board": "boards",
    "stopped_by_interrupt": "interrupts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
