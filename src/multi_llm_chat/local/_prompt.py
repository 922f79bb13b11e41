"""A repaired history as the messages of a small model's chat format.

Rules:
1. System text comes first, in one message; then user and assistant messages alternate, beginning with the user.
2. A tool call and its result become one line of user text: a small model that saw the
   notation of a call in its own messages would write that notation instead of answering.
3. The newest user turn and the turns after it are never left out; older exchanges are dropped as a whole, oldest
   first.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import read_history, split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.local.catalogue import PROVIDER
from multi_llm_chat.protocol.request_draft import media_label, split_system
from multi_llm_chat.repair import frame, repair
from multi_llm_chat.repair.policy import RepairPolicy, Target

Role = Literal["system", "user", "assistant"]


class PromptMessage(Struct, frozen=True):
    """One message of the chat format."""

    role: Role
    content: str

    def body(self) -> JsonObject:
        """The message as JSON for a request."""
        return {"role": self.role, "content": self.content}


class ToolExchange(Struct, frozen=True):
    """A tool call that the newest question has already caused, and its result."""

    call: ToolCall
    result: str
    is_error: bool


class LocalPrompt(Struct, frozen=True):
    """The prompt for one answer.

    Each of the ``exchanges`` begins with a user message. ``question`` is only the newest text of the user,
    and ``tool_exchanges`` are the tool calls and results after it.
    """

    system: str
    exchanges: tuple[tuple[PromptMessage, ...], ...]
    question: str
    tool_exchanges: tuple[ToolExchange, ...]

    def messages(self) -> list[JsonObject]:
        """The messages of the request."""
        system = [PromptMessage("system", self.system).body()] if self.system else []
        return system + [message.body() for exchange in self.exchanges for message in exchange]

    def shorter(self, share: float) -> "LocalPrompt | None":
        """The prompt without about this share of its text, oldest exchanges first.

        At least the oldest exchange is dropped; None if only the newest is left.
        """
        lengths = [sum(len(message.content) for message in part) for part in self.exchanges]
        excess = share * (len(self.system) + sum(lengths))
        dropped = 0
        while dropped + 1 < len(lengths) and (dropped == 0 or sum(lengths[:dropped]) < excess):
            dropped += 1
        if dropped == 0:
            return None
        kept = self.exchanges[dropped:]
        return LocalPrompt(self.system, kept, self.question, self.tool_exchanges)


def read_prompt(
    history: Iterable[Any],
    *,
    model: str,
    system_prompt: str | None = None,
    speaker: str = PROVIDER,
    tool_names: Iterable[str] = (),
    policy: RepairPolicy | None = None,
) -> LocalPrompt:
    """Repair a history and write it as messages.

    Args:
        history: Turns in the serialised form (read liberally) or ``Turn`` values.
        model: The model's name.
        system_prompt: Put before everything else.
        speaker: The role of this model's turns in the history.
        tool_names: The tools on offer.
        policy: How the history is repaired.
    """
    target = Target(
        speaker=speaker,
        origin=Origin(PROVIDER, "", model),
        system="leading",
        alternates=True,
        opens="user",
        ends="user",
    )
    repaired = repair(read_history(history), target, policy, tool_names)
    turns, _ = frame(repaired.turns, repaired.sources, target, [])
    texts, body = split_system(turns)
    prompt = [system_prompt.strip()] if system_prompt and system_prompt.strip() else []
    newest = max((at for at, turn in enumerate(body) if turn.role == "user"), default=0)
    return LocalPrompt(
        system="\n\n".join([*prompt, *texts]),
        exchanges=_exchanges(_alternating(body)),
        question=_words(body[newest]),
        tool_exchanges=tuple(_tool_exchanges(body[newest:])),
    )


def _words(turn: Turn) -> str:
    return "\n".join(_texts(turn, {}))


def _texts(turn: Turn, calls: dict[str, ToolCall]) -> Iterable[str]:
    for part in turn.parts:
        match part:
            case Text():
                yield part.content
            case Media():
                yield media_label(part)
            case ToolCall():
                calls[part.tool_call_id] = part
            case ToolResult():
                call = calls.get(part.tool_call_id)
                arguments = f" {compact_json(call.arguments)}" if call else ""
                failed = " failed" if part.is_error else ""
                yield f"({part.name}{arguments}{failed}: {split_result(part.content)[0]})"
            case Native():
                yield part.text
            case Thinking():
                pass


def _alternating(turns: Sequence[Turn]) -> list[PromptMessage]:
    """The turns as messages; neighbouring turns of one side become one message."""
    messages: list[PromptMessage] = []
    calls: dict[str, ToolCall] = {}
    for turn in turns:
        text = "\n".join(_texts(turn, calls))
        role: Role = "user" if turn.role in ("user", "tool") else "assistant"
        if not text:
            continue
        if messages and messages[-1].role == role:
            text = f"{messages.pop().content}\n\n{text}"
        messages.append(PromptMessage(role, text))
    return messages


def _exchanges(messages: Iterable[PromptMessage]) -> tuple[tuple[PromptMessage, ...], ...]:
    exchanges: list[list[PromptMessage]] = []
    for message in messages:
        if message.role == "user":
            exchanges.append([])
        exchanges[-1].append(message)
    return tuple(tuple(exchange) for exchange in exchanges)


def _tool_exchanges(turns: Iterable[Turn]) -> Iterable[ToolExchange]:
    """The tool calls and results after the newest question."""
    calls: dict[str, ToolCall] = {}
    for turn in turns:
        for part in turn.parts:
            if isinstance(part, ToolCall):
                calls[part.tool_call_id] = part
            elif isinstance(part, ToolResult):
                text, media = split_result(part.content)
                words = [text, *(media_label(item) for item in media)]
                call = calls.get(part.tool_call_id) or ToolCall(part.name, {}, part.tool_call_id)
                yield ToolExchange(call, "\n".join(word for word in words if word), part.is_error)
