"""pydantic-ai with its agent, which processes the history before it sends it."""

from typing import Any

from contenders.pydantic_ai_peer import _message, _model
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset


class Contender:
    providers = ("openai-chat", "openai", "anthropic", "gemini")

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._model = _model(provider, base, model)

    def translate(self, history: list[Any]) -> Any:
        return [_message(turn) for turn in history]

    async def ask(self, native: Any, tools: list[Any]) -> str:
        offered = [
            ToolDefinition(
                name=tool["name"],
                description=tool.get("description", ""),
                parameters_json_schema=tool["inputSchema"],
            )
            for tool in tools
        ]
        toolsets = [ExternalToolset(offered)] if offered else []
        agent = Agent(self._model, toolsets=toolsets, output_type=[str, DeferredToolRequests])
        reply = await agent.run(message_history=native)
        return str(reply.output)
