"""A conversation with two speakers and a tool, all of it on the embedded model.

    python -m multi_llm_chat.local.demo

It prints what the model answers, good or bad; only the questions are fixed.
"""

import ast
import operator
import sys
from collections.abc import Callable, Mapping

from msgspec import Struct

from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import TextDelta, ToolCallEnd
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.values import Part, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.local._installation import Progress, install
from multi_llm_chat.local._model import LocalModel
from multi_llm_chat.local.locations import locate
from multi_llm_chat.request import ToolDefinition


class _Speaker(Struct, frozen=True):
    """One of the two speakers: its system prompt and its tools."""

    system_prompt: str
    tools: tuple[ToolDefinition, ...] = ()


_CALCULATE = ToolDefinition(
    "calculate",
    "Calculate the value of an arithmetic expression.",
    {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
        "additionalProperties": False,
    },
)

_SPEAKERS = {
    "ada": _Speaker(
        "You are Ada, a cheerful teacher. Answer in one short sentence.", (_CALCULATE,)
    ),
    "ben": _Speaker("You are Ben, a friendly cook. Answer in one short sentence."),
}

#: The questions and their speakers, in order; a question goes to each of its speakers in turn.
_SCRIPT = (
    (("ada", "ben"), "Hello! Who are you?"),
    (("ada",), "What is 12 times 34?"),
    (("ben",), "What do I need to bake bread?"),
)


def _divide(left: float, right: float) -> float:
    return left / right


_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
}


def main() -> int:
    """Run the conversation; return 0 if every part of it succeeded."""
    try:
        if locate().row.source is not None:
            install(locate().row.name, progress=_Bar().show)
        _converse(LocalModel())
    except MultiLLMChatError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _converse(model: LocalModel) -> None:
    _write(f"{model.notice}\n")
    history: list[Turn] = []
    for speakers, question in _SCRIPT:
        _write(f"\nyou  > {question}\n")
        history.append(Turn("user", (Text(question),)))
        for speaker in speakers:
            _answer(model, history, speaker)


def _answer(model: LocalModel, history: list[Turn], speaker: str) -> None:
    """Let the speaker answer, and run the tool it asks for."""
    turn = _speak(model, history, speaker)
    history.append(turn)
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    for call in calls:
        result = calculate(str(call.arguments.get("expression", "")))
        _write(f"     [{call.name} {compact_json(call.arguments)} -> {result}]\n")
        history.append(Turn("tool", (ToolResult(call.name, result, call.tool_call_id),)))
    if calls:
        history.append(_speak(model, history, speaker))


def _speak(model: LocalModel, history: list[Turn], speaker: str) -> Turn:
    parts: list[Part] = []
    words = ""
    for event in model.stream(
        history,
        system_prompt=_SPEAKERS[speaker].system_prompt,
        tools=_SPEAKERS[speaker].tools,
        options={"temperature": 0, "max_tokens": 32},
        speaker=speaker,
    ):
        if isinstance(event, TextDelta):
            _write(event.text if words else f"{speaker:5}> {event.text}")
            words += event.text
        elif isinstance(event, ToolCallEnd):
            parts.append(event.call)
    if words:
        _write("\n")
        parts.insert(0, Text(words))
    return Turn(speaker, tuple(parts), model=model.row.name)


def calculate(expression: str) -> str:
    """The value of an arithmetic expression, or what is wrong with it."""
    try:
        return f"{_value(ast.parse(expression, mode='eval').body):g}"
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError) as error:
        return f"cannot be calculated: {error}"


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATORS:
            return _OPERATORS[type(kind)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case _:
            raise ValueError("only numbers and + - * / are known")


class _Bar:
    """Prints each step of the installation once."""

    def __init__(self) -> None:
        self._step = ""

    def show(self, progress: Progress) -> None:
        if progress.step not in (self._step, "checking"):
            self._step = progress.step
            _write(f"{progress.step} the model ({progress.total // 1_000_000} MB)\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
