"""Functions of the caller that a run calls before and after its requests and tool calls.

Rules:
1. A hook may be a plain function or ``async``. A plain one must not block.
2. An exception of a hook ends the run.
3. If ``before_tool`` changes a call, the changed call is checked, approved and run.
"""

import inspect
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct

from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ModelRequest


class RunHooks(Struct, frozen=True):
    """Functions that a run calls.

    ``before_model`` receives each ``ModelRequest`` and may return another one; ``after_model`` receives each ``Reply``. ``before_tool``
    receives each call and may return another one, or a ``ToolResult`` instead of running it; ``after_tool`` receives the call and its
    result and may return another result.
    """

    before_model: Callable[[ModelRequest], Any] | None = None
    after_model: Callable[[Reply], Any] | None = None
    before_tool: Callable[[ToolCall], Any] | None = None
    after_tool: Callable[[ToolCall, ToolResult], Any] | None = None

    async def prepare_request(self, request: ModelRequest) -> ModelRequest:
        """The request to send."""
        changed = await _call(self.before_model, request)
        return changed if isinstance(changed, ModelRequest) else request

    async def observe_reply(self, reply: Reply) -> None:
        """Report a reply."""
        await _call(self.after_model, reply)

    async def prepare_call(self, call: ToolCall) -> ToolCall | ToolResult:
        """The call to run, or a result instead of running it."""
        changed = await _call(self.before_tool, call)
        return changed if isinstance(changed, ToolCall | ToolResult) else call

    async def observe_result(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """The result that the model gets."""
        changed = await _call(self.after_tool, call, result)
        return changed if isinstance(changed, ToolResult) else result


async def _call(hook: Callable[..., Any] | None, *values: object) -> object:
    if hook is None:
        return None
    returned = hook(*values)
    return await returned if inspect.isawaitable(returned) else cast("object", returned)
