"""Reads a caller's arguments as a ``ModelRequest``.

Rules:
1. A history, tools and options are read in any accepted form; the arguments are not changed.
2. Unusable arguments raise ``UsageError`` here, before anything is sent.
3. Tool schemas stay as given: ``render`` cleans them once.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypedDict

import msgspec
from msgspec.structs import replace

from multi_llm_chat.errors import UsageError, check_type
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Turn
from multi_llm_chat.protocol.message_formats import read_any
from multi_llm_chat.repair.policy import RepairPolicy
from multi_llm_chat.request import ModelRequest, Options, Transcript
from multi_llm_chat.schema.python_types import schema_of
from multi_llm_chat.schema.tool_definitions import find_tools


class SentRequest(Protocol):
    """A request that was already rendered: ``Rendered``."""

    @property
    def transcript(self) -> Transcript | None:
        """The transcript of what it sent."""
        ...


class RequestSettings(TypedDict, total=False):
    """The keyword arguments of ``render``, ``Exchange`` and ``history_to``."""

    model: str | None
    """The model; by default that of the provider."""
    system_prompt: str | None
    """Sent before everything else."""
    tools: Iterable[Any] | None
    """Definitions in MCP, OpenAI, Anthropic or Gemini form, or ``ToolDefinition`` values."""
    policy: RepairPolicy | None
    """What happens to calls without a result, results without a call and turns of other speakers."""
    options: Options | Mapping[str, Any] | None
    """Settings with the names of ``Options``."""
    stream: bool
    """Whether the answer is streamed."""
    speaker: str | None
    """The role of this model's turns in the history; by default that of the provider."""
    base_url: str | None
    """The endpoint, if it is not the provider's own."""
    headers: Mapping[str, str] | None
    """Extra HTTP headers."""
    previous: "Transcript | SentRequest | None"
    """The conversation's last request to the same target, or its transcript: this request begins with the same messages."""
    conversation: str | None
    """The conversation's name, or an empty string; if set, later requests will begin with the messages of this one."""


def read_request(
    history: ModelRequest | Iterable[Any],
    provider: str | None,
    *,
    model: str | None = None,
    system_prompt: str | None = None,
    tools: object = None,
    policy: RepairPolicy | None = None,
    options: Options | Mapping[str, Any] | None = None,
    stream: bool = True,
    speaker: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    previous: Transcript | SentRequest | None = None,
    conversation: str | None = None,
) -> ModelRequest:
    """Read the arguments of one request; ``RequestSettings`` describes them."""
    if isinstance(history, ModelRequest):
        raise UsageError(
            "A ModelRequest says everything itself: pass it alone, "
            "or change it with msgspec.structs.replace"
        )
    if provider is None:
        raise UsageError("Name the provider that the request is for, such as 'anthropic'")
    found = find_tools(tools or None)
    sent = previous if previous is None or isinstance(previous, Transcript) else previous.transcript
    return ModelRequest(
        turns=_read_turns(history, sent),
        provider=provider,
        model=model,
        system_prompt=system_prompt,
        tools=found.definitions,
        skipped_tools=found.skipped,
        policy=policy,
        options=read_options(options),
        stream=stream,
        speaker=speaker,
        base_url=base_url,
        headers=dict(headers) if headers else {},
        previous=sent,
        conversation=conversation,
    )


def _read_turns(history: Iterable[Any], sent: Transcript | None) -> tuple[Turn, ...]:
    """The turns of a history; turns that were already sent are not read again."""
    if sent is None or not isinstance(history, tuple):
        return read_any(history)
    turns: tuple[Any, ...] = history
    known = len(sent.turns)
    if not known or turns[:known] != sent.turns:
        return read_any(turns)
    return (*sent.turns, *read_history(turns[known:]))


def read_options(options: Options | Mapping[str, Any] | None) -> Options:
    """Options as a value or a mapping; raises ``UsageError`` for an unknown option or a wrong value."""
    if options is None:
        return Options()
    if isinstance(options, Options):
        choice = read_tool_choice(options.tool_choice)
        return options if choice == options.tool_choice else replace(options, tool_choice=choice)
    check_type(options, Mapping, "options=…", "a dict such as {'temperature': 0.2}, or Options(…)")
    known = Options.__struct_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"Unknown options: {', '.join(unknown)}; known are: {', '.join(known)}")
    values: dict[str, Any] = dict(options)
    for name in ("stop", "server_tools"):
        if isinstance(values.get(name), str):
            values[name] = (values[name],)
    if values.get("schema") is not None:
        values["schema"] = schema_of(values["schema"])
    if "tool_choice" in values:
        values["tool_choice"] = read_tool_choice(values["tool_choice"])
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise UsageError(_wrong_option(values, str(error))) from None


#: The accepted values of options, for error texts.
_KINDS: Final = {
    "max_tokens": "a whole number", "seed": "a whole number", "temperature": "a number", "top_p": "a number",
    "thinking": "true, false, a word such as high, or a number of tokens", "stop": "a text or a list of texts",
    "parallel_tool_calls": "true or false", "cache": "auto, true or false", "extra": "an object", "metadata": "an object",
    "server_tools": "names such as web_search, or a list of them", "service_tier": "a text",
}  # fmt: skip


def _wrong_option(values: Mapping[str, Any], problem: str) -> str:
    """The error text for wrong options."""
    found = re.search(r"\$\.(\w+)", problem)
    name = found[1] if found else ""
    if name not in _KINDS:
        return f"These options cannot be used: {problem}"
    value = values.get(name)
    shown = f", not {value!r}" if isinstance(value, (str, int, float)) else ""
    return f"The option {name} must be {_KINDS[name]}{shown}."


#: The tool choices of all dialects, and ours.
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_tool_choice(value: object) -> str | None:
    """Read a tool choice: a word, a tool's name, or the object form of OpenAI or Anthropic.

    Raises:
        UsageError: The value is none of these.
    """
    if value is None or isinstance(value, str):
        return value
    choice = as_object(value) or {}
    named = (as_object(choice.get("function")) or choice).get("name")
    if isinstance(named, str) and named:
        return named
    word = _CHOICES.get(as_text(choice.get("type")))
    if word is None:
        raise UsageError(
            "tool_choice is auto, none, required, a tool's name, or an object such as "
            '{"type": "function", "function": {"name": "get_weather"}}'
        )
    return word
