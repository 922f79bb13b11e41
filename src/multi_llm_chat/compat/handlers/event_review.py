"""The review of a round of tools by whoever answers an event: a step mode for those who know only events.

Rules:
1. ``review_tool_results_request`` tells the results; the model is told nothing before it is answered.
2. The answer, ``tool_results_reviewed``, may name results to ``modify``, tools to ``reexecute``, or ``cancel`` the run.
3. After tools have run again the results are shown again.
4. Where the answer is an error, or names what is not there, the results stay as they are.
"""

import logging
from collections.abc import Callable
from typing import Final

from multi_llm_chat.compat.handlers.event_system import REVIEW, EventSystem
from multi_llm_chat.compat.handlers.tool_review import ToolRound
from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject

_LOGGER: Final = logging.getLogger(__name__)


class ReviewCancelled(ToolError):
    """Whoever looked at the results stopped the run."""


def review_by_events(
    events: EventSystem, timeout: float | None = None
) -> Callable[[ToolRound], None]:
    """A ``StreamContext.review`` that asks by events; it waits as long as it takes, or ``timeout`` seconds."""

    def review(done: ToolRound) -> None:
        again = True
        while again:
            answer = events.request(REVIEW, {"results": _shown(done)}, timeout=timeout)
            if answer.get("cancel"):
                raise ReviewCancelled("The run was stopped when its results were looked at")
            again = _apply(done, answer)

    return review


def _shown(done: ToolRound) -> list[JsonObject]:
    return [
        {
            "tool_name": result.name,
            "tool_id": result.tool_call_id,
            "tool_result": result.content,
            "is_error": result.is_error,
        }
        for result in done.results
    ]


def _apply(done: ToolRound, answer: JsonObject) -> bool:
    """Do what the answer says; whether tools have run again."""
    ran = False
    try:
        for tool_call_id, content in (as_object(answer.get("modify")) or {}).items():
            done.modify_tool_result(tool_call_id, content)
        for tool_call_id in as_list(answer.get("reexecute")) or []:
            done.reexecute_tool(tool_call_id)
            ran = True
    except UsageError as error:
        _LOGGER.warning("a review was not followed: %s", error)
    return ran
