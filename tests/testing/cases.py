"""Minimal requests: for each rule one that violates it, and its corrected counterpart."""

from typing import Any

import msgspec

Body = dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """A body that violates one rule, and its accepted counterpart."""

    rule: str
    name: str
    provider: str
    rejected: Any
    accepted: Any
    model: str | None = None
    text: str = ""
    status: int = 400

    @property
    def identity(self) -> str:
        return f"{self.rule}-{self.provider}-{self.name}"


IDENTIFIER = "abcdefgh1"
OTHER = "abcdefgh2"
PNG = "data:image/png;base64,iVBORw0KGgo="
SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "string"}}}
USER: Body = {"role": "user", "content": "hi"}


def call(
    identifier: str = IDENTIFIER, name: str = "f", arguments: Any = "{}", **extra: Any
) -> Body:
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **extra,
    }


def asks(*calls: Body, content: Any = "", **extra: Any) -> Body:
    return {"role": "assistant", "content": content, "tool_calls": list(calls or [call()]), **extra}


def result(identifier: str = IDENTIFIER, content: Any = "ok", **extra: Any) -> Body:
    return {"role": "tool", "tool_call_id": identifier, "content": content, **extra}


def tool(name: str = "f", parameters: Any = SCHEMA, **extra: Any) -> Body:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **extra}}


def chat(*messages: Any, model: str = "a-model", **extra: Any) -> Body:
    return {"model": model, "messages": list(messages), **extra}


def exchange(**extra: Any) -> Body:
    """Return a whole tool exchange, with its tool offered."""
    return chat(USER, asks(), result(), tools=[tool()], **extra)


def user(content: Any) -> Body:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Body:
    return {"role": "assistant", "content": content}


# Anthropic


def use(identifier: str = "toolu_1", name: str = "f", arguments: Any = None) -> Body:
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments or {}}


def used(identifier: str = "toolu_1", content: Any = "ok", **extra: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": identifier, "content": content, **extra}


def text(value: str = "hi") -> Body:
    return {"type": "text", "text": value}


def thinking(signature: str = "c2lnbmF0dXJl") -> Body:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def claude_tool(name: str = "f", schema: Any = SCHEMA, **extra: Any) -> Body:
    return {"name": name, "input_schema": schema, **extra}


def claude(*messages: Any, model: str = "claude-sonnet-5", **extra: Any) -> Body:
    return {"model": model, "max_tokens": 4096, "messages": list(messages), **extra}


def claude_loop(*blocks: Body, **extra: Any) -> Body:
    """Return a request in the middle of a tool loop."""
    return claude(
        USER, assistant(list(blocks or [use()])), user([used()]), tools=[claude_tool()], **extra
    )


# Gemini


def part(value: str = "hi") -> Body:
    return {"text": value}


def content(role: str, *parts: Any) -> Body:
    return {"role": role, "parts": list(parts or [part()])}


def fcall(name: str = "f", signature: str | None = "c2ln", **extra: Any) -> Body:
    made: Body = {"functionCall": {"name": name, "args": {}, **extra}}
    return made if signature is None else made | {"thoughtSignature": signature}


def fresponse(name: str = "f", response: Any = None, **extra: Any) -> Body:
    return {"functionResponse": {"name": name, "response": response or {"result": 1}, **extra}}


def declaration(name: str = "f", **extra: Any) -> Body:
    return {"name": name, "description": "d", **(extra or {"parametersJsonSchema": SCHEMA})}


def gemini(*contents: Any, **extra: Any) -> Body:
    return {"contents": list(contents), **extra}


def gemini_schema(schema: Any) -> Body:
    tools = [{"functionDeclarations": [declaration(parameters=schema)]}]
    return gemini(content("user"), tools=tools)


def gemini_loop(calls: list[Body], responses: list[Body]) -> Body:
    return gemini(content("user"), content("model", *calls), content("user", *responses))


# Responses


def fc(identifier: str = "call_1", **extra: Any) -> Body:
    return {"type": "function_call", "call_id": identifier, "name": "f", "arguments": "{}"} | extra


def fco(identifier: str = "call_1", output: Any = "ok", **extra: Any) -> Body:
    return {"type": "function_call_output", "call_id": identifier, "output": output} | extra


def reasoning(**extra: Any) -> Body:
    whole: Body = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    return whole | extra


def rtool(name: str = "f", parameters: Any = SCHEMA, **extra: Any) -> Body:
    return {"type": "function", "name": name, "parameters": parameters, **extra}


def responses(*items: Any, model: str = "gpt-5.6-terra", **extra: Any) -> Body:
    return {"model": model, "input": list(items), **extra}
