"""A row of the tables in this folder: the request, what we send, and what a naive client would send."""

from typing import Any

from msgspec import Struct

from multi_llm_chat import Rendered, RepairPolicy, history_from, render

Body = dict[str, Any]

#: In ``sends``: the body has no such key.
ABSENT = object()


class RuleCase(Struct, frozen=True):
    """One rule that our requests follow.

    ``history`` is in our format; ``native`` has messages of the dialect that ``reads`` names. ``sends`` are
    keys of the body with their exact values, ``notes`` the rules of all notes in order.
    ``naive`` is the same request from a client that knows no rules; it violates ``breaks``
    (by default the rule itself). ``unseen`` says why a validator that sees only the body cannot detect that.
    """

    rule: str
    name: str
    provider: str
    history: list[Any]
    sends: Body
    naive: Any = None
    notes: tuple[str, ...] = ()
    model: str | None = None
    tools: list[Any] | None = None
    options: Body | None = None
    policy: RepairPolicy | None = None
    system_prompt: str | None = None
    reads: str | None = None
    breaks: str | None = None
    unseen: str = ""
    names: dict[str, str] | None = None
    ids: dict[str, str] | None = None

    @property
    def identity(self) -> str:
        return f"{self.rule}-{self.provider}-{self.name}"

    def render(self) -> Rendered:
        history = self.history
        if self.reads is not None:
            history = history_from(
                history, self.reads, provider=self.provider, model=self.model or "?"
            )
        return render(
            history,
            self.provider,
            model=self.model,
            system_prompt=self.system_prompt,
            tools=self.tools,
            options=self.options,
            policy=self.policy,
        )


# Turns and parts of our own history.


def says(text: Any, role: str = "user") -> Body:
    return {"role": role, "content": text}


def speaks(*parts: Any, role: str = "assistant") -> Body:
    return {"role": role, "content": list(parts)}


def words(text: str) -> Body:
    return {"type": "text", "content": text}


def wants(identifier: str = "call_1", name: str = "f", arguments: Any = None) -> Body:
    content: Body = {"name": name, "arguments": arguments or {}, "tool_call_id": identifier}
    return {"type": "tool_call", "content": content}


def gave(identifier: str = "call_1", content: Any = "ok", name: str = "f", **extra: Any) -> Body:
    part = {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}
    return part | extra


def tells(*results: Body) -> Body:
    return {"role": "tool", "content": list(results)}


def thinks(text: str, provider: str, model: str, endpoint: str = "", **opaque: Any) -> Body:
    origin = {"provider": provider, "model": model, "endpoint": endpoint}
    return {"type": "thinking", "content": text, "origin": origin, "opaque": opaque}


def offer(name: str = "f", schema: Any = None, **extra: Any) -> Body:
    """Return a tool as MCP lists it."""
    return {"name": name, "inputSchema": schema or SCHEMA, **extra}


SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "string"}}}
NO_RESULT = "[no result: the call was interrupted]"
PNG_DATA = "iVBORw0KGgo="
PICTURE: Body = {"type": "media", "mime": "image/png", "data": PNG_DATA, "name": "map.png"}
HI = says("hi")
LOOP = [HI, speaks(wants()), tells(gave())]
