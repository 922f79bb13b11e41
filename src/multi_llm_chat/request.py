"""What is asked of a model besides the history: tools and settings, in one vocabulary."""

from typing import Any, TypeAlias

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject


class ToolDefinition(Struct, frozen=True):
    """A tool as it is offered to a model; ``schema`` is the full JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: JsonObject = field(default_factory=dict)


#: ``auto``, ``none``, ``required``, or the name of the one tool to call.
ToolChoice: TypeAlias = str


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one request; what a dialect cannot say is left out and noted.

    ``thinking`` is a token budget, an effort word (``low``, ``medium``, ``high``), ``True`` for
    the model's own default, or ``False`` for off; ``None`` leaves the choice to the provider.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    thinking: int | str | bool | None = None
    tool_choice: ToolChoice | None = None
    schema: JsonObject | None = None
    stop: tuple[str, ...] = ()
    cache: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
