"""The keyword arguments of an ``Agent``, and the context of its instructions."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Generic, TypeAlias, TypedDict, TypeVar

from msgspec import Struct

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider_access import ProviderSettings
from multi_llm_chat.errors import UsageError, check_type
from multi_llm_chat.history.values import Turn
from multi_llm_chat.request import Options
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.store import Store
from multi_llm_chat.tools.approval import ApprovalCallback
from multi_llm_chat.tools.mcp.server_messages import ElicitationCallback

Deps = TypeVar("Deps")


class RunContext(Struct, Generic[Deps], frozen=True):
    """The argument of dynamic instructions: the ``deps`` of the run, and the history it answers."""

    deps: Deps
    history: tuple[Turn, ...]


#: The system prompt, or a function that returns it for each run.
Instructions: TypeAlias = str | Callable[[RunContext[Any]], str | Awaitable[str]] | None


#: Called with the number of finished prompts and the number of all.
Progress: TypeAlias = Callable[[int, int], object]


class AgentSettings(TypedDict, total=False):
    """The keyword arguments of ``Agent``, besides ``output``."""

    tools: Any
    """Functions, a ``ToolRegistry``, MCP servers (``{"command": …}``, ``{"url": …}``, ``McpServers``), other agents, or a mixture."""
    instructions: Instructions
    """The system prompt, or a function of a ``RunContext`` that makes it."""
    deps: object
    """An object for tools (``ToolContext.deps``) and for dynamic instructions."""
    store: Store | str | PathLike[str] | None
    """Where runs are recorded, so that ``resume`` can finish them: a ``Store`` or its path or address."""
    limits: LoopLimits | None
    """The limits of a run."""
    approve: ApprovalCallback | None
    """Called before tools with the policy ``ask`` run."""
    elicit: ElicitationCallback | None
    """Called for the forms of MCP servers."""
    hooks: RunHooks | None
    """Functions that are called before and after model requests and tool calls."""
    options: Options | Mapping[str, Any] | None
    """Settings of every request, in the vocabulary of ``Options``."""
    headers: Mapping[str, str] | None
    """Extra HTTP headers of every request."""
    api_key: str | None
    """The key; the provider's environment variable if not given."""
    base_url: str | None
    """The address; the provider's own if not given."""
    output_retries: int
    """How often an answer that does not fit ``output`` is asked for again; 2 if not given."""
    offered_tools: bool | Sequence[str]
    """Which of its tools models are offered: all, none, or those that match patterns such as ``read_*``."""
    name: str
    """Its name as a tool of another agent; ``agent`` if not given."""
    description: str
    """Its description as a tool of another agent."""


class VerdictSettings(AgentSettings, total=False):
    """The keyword arguments of an ``Agent`` whose answer is the verdict of a council."""

    council: str
    """The speaker that writes a verdict about the answers of several; ``output`` is then a ``chat.council.Verdict``."""


#: The names of our arguments in other libraries.
_OTHER_NAMES: Final = {
    "system_prompt": "instructions=…", "system": "instructions=…", "prompt": "instructions=…",
    "output_type": "output=…", "result_type": "output=…", "response_model": "output=…", "response_format": "output=…",
    "schema": "output=…", "deps_type": "deps=…", "model_settings": "options={…}", "retries": "output_retries=…",
    "tool": "tools=[…]", "functions": "tools=[…]", "mcp_servers": "tools=[…]", "toolsets": "tools=[…]",
    "max_iterations": "limits=LoopLimits(iterations=…)", "max_turns": "limits=LoopLimits(iterations=…)",
    "timeout": "limits=LoopLimits(seconds=…)", "budget": "limits=LoopLimits(cost=…)",
}  # fmt: skip

_FUNCTION: Final[Any] = Callable
_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "instructions": ((str, _FUNCTION), "a text, or a function that makes it"),
    "store": ((Store, str, PathLike), "a file such as 'runs.db', or a Store"),
    "limits": ((LoopLimits,), "LoopLimits(iterations=…, seconds=…, tokens=…, cost=…)"),
    "approve": ((_FUNCTION,), "a function of an ApprovalRequest that returns Allow() or Deny()"),
    "elicit": ((_FUNCTION,), "a function that answers a form"),
    "hooks": ((RunHooks,), "RunHooks(…)"),
    "options": ((Options, Mapping), "a dict such as {'temperature': 0.2}, or Options(…)"),
    "output_retries": ((int,), "a number"),
}


def check_settings(settings: Mapping[str, object]) -> None:
    """Raise an error for unknown arguments of an ``Agent`` and for those of a wrong type.

    Raises:
        UsageError: An argument is unknown or of a wrong type; the text says what to write instead.
    """
    known = list(VerdictSettings.__annotations__)
    for name, value in settings.items():
        if name in known:
            types, example = _TYPES.get(name, ((object,), ""))
            check_type(value, types, f"Agent({name}=…)", example)
            continue
        instead = _OTHER_NAMES.get(name)
        if name in Options.__struct_fields__ and instead is None:
            instead = f"options={{{name!r}: …}}"
        close = difflib.get_close_matches(name, known, 1)
        if instead is None and close:
            instead = f"{close[0]}=…"
        advice = "" if instead is None else f" (write {instead})"
        raise UsageError(f"Agent takes no {name!r}{advice}; it takes: output, {', '.join(known)}")


def provider_settings(settings: AgentSettings) -> ProviderSettings:
    """The arguments that go to the agent's providers."""
    return {
        "headers": settings.get("headers"),
        "api_key": settings.get("api_key"),
        "base_url": settings.get("base_url"),
        "options": settings.get("options"),
    }
