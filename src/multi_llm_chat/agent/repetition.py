"""Notice a model that asks the same question again and again."""

import json
from collections import Counter

from multi_llm_chat.history.json_values import clean_json
from multi_llm_chat.history.result_parts import split_result
from multi_llm_chat.history.values import ToolCall, ToolResult

_TOLD = (
    "[This is the same call with the same result as before. "
    "Use what you have, try something else, or answer.]"
)


class Repetition:
    """Counts equal calls with equal results over one run."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def told(self, call: ToolCall, result: ToolResult) -> tuple[ToolResult, int]:
        """The result, with a word to the model if it is not news, and how often it came."""
        text, _ = split_result(clean_json(result.content))
        key = (call.name, json.dumps(clean_json(call.arguments), sort_keys=True), text)
        self._seen[key] += 1
        times = self._seen[key]
        if times == 1 or not isinstance(result.content, str):
            return result, times
        told = ToolResult(
            result.name,
            f"{result.content}\n{_TOLD}",
            result.tool_call_id,
            result.is_error,
            result.synthetic,
        )
        return told, times
