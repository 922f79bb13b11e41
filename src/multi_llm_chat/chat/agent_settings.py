"""What an ``Agent`` takes: its keyword arguments, and the context of its instructions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar

from msgspec import Struct

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.history.values import Turn
from multi_llm_chat.request import Options
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.store import Store
from multi_llm_chat.tools.approval import ApprovalCallback
from multi_llm_chat.tools.mcp.server_messages import ElicitationCallback

Deps = TypeVar("Deps")


class RunContext(Struct, Generic[Deps], frozen=True):
    """What dynamic instructions are made from: the ``deps`` of the run, and the history it answers."""

    deps: Deps
    history: tuple[Turn, ...]


#: The system prompt, or a function that makes it for each run.
Instructions: TypeAlias = str | Callable[[RunContext[Any]], str | Awaitable[str]] | None


#: Called with how many prompts are done, and of how many.
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
    """Where runs are recorded, so that ``resume`` can finish them: a ``Store`` or its place."""
    limits: LoopLimits | None
    """How far a run may go."""
    approve: ApprovalCallback | None
    """Asked before tools with the policy ``ask``."""
    elicit: ElicitationCallback | None
    """Answers forms of MCP servers."""
    hooks: RunHooks | None
    """Functions around model and tool calls."""
    options: Options | Mapping[str, Any] | None
    """Settings of every request, in the vocabulary of ``Options``."""
    headers: Mapping[str, str] | None
    """Extra HTTP headers of every request."""
    api_key: str | None
    """The key; the provider's environment variable otherwise."""
    base_url: str | None
    """The address; the provider's own otherwise."""
    output_retries: int
    """How often an answer that does not fit ``output`` is asked for again; 2 if not given."""
    offered_tools: bool | Sequence[str]
    """Which of its tools models are offered: all, none, or those that match patterns such as ``read_*``."""
    name: str
    """Its name as a tool of another agent; ``agent`` if not given."""
    description: str
    """What it does, for such another agent."""


class VerdictSettings(AgentSettings, total=False):
    """The keyword arguments of an ``Agent`` whose answer is the verdict of a council."""

    council: str
    """The speaker that writes a verdict about the answers of several; ``output`` is then a ``chat.council.Verdict``."""
