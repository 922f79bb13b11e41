"""pydantic-ai: its direct model requests, and its agent for tools."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from typing import Any

import translation
from pydantic_ai import Agent, BinaryContent, ImageUrl, Tool
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import UsageLimits

HISTORY = [ModelRequest(parts=[UserPromptPart("Tell me a long story.")])]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip


def _model(provider: str, base: str, model: str) -> Any:
    if provider == "anthropic":
        from anthropic import AsyncAnthropic  # noqa: PLC0415  each provider's own library
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
        from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

        client = AsyncAnthropic(api_key="none", base_url=base, max_retries=0)
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))
    if provider == "gemini":
        from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
        from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

        return GoogleModel(model, provider=GoogleProvider(api_key="none", base_url=base))
    from openai import AsyncOpenAI  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    kind = OpenAIChatModel if provider == "openai-chat" else OpenAIResponsesModel
    client = AsyncOpenAI(api_key="none", base_url=base, max_retries=0)
    return kind(model, provider=OpenAIProvider(openai_client=client))


def _offered(tools: list[Any]) -> ModelRequestParameters:
    made = [
        ToolDefinition(
            name=tool["name"],
            description=tool.get("description", ""),
            parameters_json_schema=tool["inputSchema"],
        )
        for tool in tools
    ]
    return ModelRequestParameters(function_tools=made, allow_text_output=True)


class Contender:
    providers = ("openai-chat", "openai", "anthropic", "gemini")

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._model = _model(provider, base, model)

    async def text(self) -> AsyncGenerator[str]:
        async with model_request_stream(self._model, HISTORY) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    if event.part.content:
                        yield event.part.content
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    yield event.delta.content_delta

    async def calls(self) -> list[tuple[str, Any]]:
        async with model_request_stream(
            self._model, HISTORY, model_request_parameters=_offered([WRITE])
        ) as stream:
            async for _ in stream:
                pass
            parts = stream.get().parts
        return [
            (part.tool_name, part.args_as_dict())
            for part in parts
            if isinstance(part, ToolCallPart)
        ]

    def translate(self, history: list[Any]) -> Any:
        return [_message(turn) for turn in history]

    async def ask(self, native: Any, tools: list[Any]) -> str:
        # Above some limit it would stream a request that is not meant to be streamed.
        reply = await model_request(
            self._model,
            native,
            model_settings={"max_tokens": 4096},
            model_request_parameters=_offered(tools),
        )
        return "".join(part.content for part in reply.parts if isinstance(part, TextPart))

    async def agent(self, tool: str, seconds: float) -> str:
        async def run(number: int) -> int:
            """Do as told."""
            await asyncio.sleep(seconds)
            return number

        agent = Agent(self._model, tools=[Tool(run, name=tool)])
        reply = await agent.run(
            "Tell me a long story.", usage_limits=UsageLimits(request_limit=None)
        )
        return reply.output

    async def chat(self, questions: list[str]) -> str:
        agent = Agent(self._model, model_settings={"max_tokens": 4096})
        history: Any = None
        said = ""
        for question in questions:
            reply = await agent.run(question, message_history=history)
            history, said = reply.all_messages(), reply.output
        return said


def _message(turn: Any) -> Any:
    role, parts = translation.role_of(turn), translation.parts_of(turn)
    if role == "assistant":
        return ModelResponse(parts=[part for one in parts if (part := _spoken(one)) is not None])
    if role == "system":
        return ModelRequest(parts=[SystemPromptPart(translation.texts(parts))])
    made: list[Any] = [
        ToolReturnPart(
            tool_name=part["name"], content=part["content"], tool_call_id=part["tool_call_id"]
        )
        for part in parts
        if part["type"] == "tool_result"
    ]
    said = [_user_part(part) for part in parts if part["type"] in ("text", "media")]
    if said or not made:
        made.append(
            UserPromptPart(said[0] if len(said) == 1 and isinstance(said[0], str) else said)
        )
    return ModelRequest(parts=made)


def _user_part(part: Any) -> Any:
    if part["type"] == "text":
        return part["content"]
    if "url" in part:
        return ImageUrl(url=part["url"])
    return BinaryContent(base64.b64decode(part["data"]), media_type=part["mime"])


def _spoken(part: Any) -> Any:
    match part["type"]:
        case "text":
            return TextPart(part["content"])
        case "tool_call":
            call = part["content"]
            arguments = call.get("raw_arguments", call["arguments"])
            return ToolCallPart(call["name"], arguments, tool_call_id=call["tool_call_id"])
        case "thinking":
            opaque, origin = part.get("opaque", {}), part.get("origin", {})
            names = {"openai": "openai", "anthropic": "anthropic", "gemini": "google"}
            return ThinkingPart(
                part["content"],
                signature=opaque.get("signature"),
                provider_name=names.get(origin.get("provider")),
            )
        case _:
            return None
