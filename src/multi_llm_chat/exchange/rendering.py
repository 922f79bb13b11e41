"""Any history, any provider: the exact request, and how to read its answer back.

This is the promise of the package in one function, usable with anybody's HTTP client or SDK.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.reading import read_history
from multi_llm_chat.history.values import JsonObject, Origin
from multi_llm_chat.providers import ProviderRow, provider_row, row_for_model
from multi_llm_chat.providers.formats import DIALECTS
from multi_llm_chat.repair import Note, RepairPolicy, Target, frame, repair
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.wire.encoding import Draft
from multi_llm_chat.wire.tool_definitions import read_tools


class Rendered(Struct, frozen=True):
    """A legal request.

    ``body`` is the JSON body, ready for ``json.dumps``; ``path`` belongs behind the base URL.
    ``notes`` tell every change that was needed. ``names`` leads from tool names as sent to
    the caller's, ``arguments`` does the same for argument keys by tool, ``ids`` for call ids.
    """

    provider: str
    model: str
    path: str
    body: JsonObject
    notes: tuple[Note, ...]
    names: dict[str, str]
    arguments: dict[str, dict[str, str]]
    ids: dict[str, str]


def render(
    history: Iterable[Any],
    provider: str,
    *,
    model: str | None = None,
    system_prompt: str | None = None,
    tools: Iterable[Any] | None = None,
    policy: RepairPolicy | None = None,
    options: Options | Mapping[str, Any] | None = None,
    stream: bool = False,
    speaker: str | None = None,
    base_url: str | None = None,
) -> Rendered:
    """Write the history as a request that the provider accepts.

    Args:
        history: Turns in the serialised form (read liberally) or ``Turn`` values; not changed.
        provider: A provider's name, such as ``anthropic``.
        model: The model; the provider's default otherwise.
        system_prompt: Put before everything else.
        tools: Definitions in MCP, OpenAI, Anthropic or Gemini form, or ``ToolDefinition`` values.
        policy: What happens to calls without result, results without call and other speakers.
        options: Settings in the common vocabulary of ``Options``.
        stream: Whether the answer is to be streamed.
        speaker: The role under which this model speaks in the history; the provider's otherwise.
        base_url: The endpoint, where it is not the provider's own.
    """
    row = provider_row(provider)
    model = clean_text(model or row.default_model)
    settings = read_options(options)
    row, target = _receiver(row.name, model, settings.thinking, speaker, base_url)
    notes: list[Note] = []
    offered = _distinct(tools, notes)
    repaired = repair(read_history(history), target, policy, [tool.name for tool in offered])
    notes.extend(repaired.notes)
    names = repaired.names
    notes.extend(
        Note("OAI-08", None, f"offered the tool {tool.name!r} as {names.changed[tool.name]!r}")
        for tool in offered
        if tool.name in names.changed
    )
    framed = frame(repaired.placed, target, notes)
    draft = Draft(
        turns=[turn for _, turn in framed],
        sources=[source for source, _ in framed],
        model=model,
        system_prompt=_system_prompt(system_prompt),
        tools=[
            ToolDefinition(names.sent(tool.name), clean_text(tool.description), tool.schema)
            for tool in offered
        ],
        tool_choice=_sent_choice(settings, {tool.name for tool in offered}, names.changed),
        options=settings,
        stream=stream,
        notes=notes,
    )
    encoded = DIALECTS[row.dialect].encode(draft, row.chat)
    return Rendered(
        provider=row.name,
        model=model,
        path=encoded.path,
        body=encoded.body,
        notes=tuple(notes),
        names=names.originals,
        arguments={names.originals[name]: keys for name, keys in draft.arguments.items()},
        ids=repaired.ids,
    )


@lru_cache(maxsize=256)  # the same few, for every request
def _receiver(
    provider: str,
    model: str,
    thinking: int | str | bool | None,
    speaker: str | None,
    base_url: str | None,
) -> tuple[ProviderRow, Target]:
    """The provider's row as it is for the model, and what that demands of a history."""
    row = row_for_model(provider_row(provider), model, thinking)
    return row, target_of(row, model, speaker=speaker, base_url=base_url)


def target_of(
    row: ProviderRow, model: str, *, speaker: str | None = None, base_url: str | None = None
) -> Target:
    """What the provider's model demands of a history."""
    endpoint = endpoint_of(base_url or row.base_url)
    return Target(
        speaker=speaker or row.speaker,
        speakers=frozenset() if speaker else row.aliases,
        origin=Origin(row.name, endpoint, model),
        default_endpoint=endpoint_of(row.base_url),
        id_pattern=row.id_pattern,
        name_pattern=row.name_pattern,
        system=row.system,
        alternates=row.alternates,
        answers_after_tools=row.chat.answers_after_tools,
        most_calls=row.most_calls,
    )


@lru_cache(maxsize=256)
def endpoint_of(base_url: str) -> str:
    """The part of an address that opaque thinking data is bound to: the host."""
    return urlsplit(base_url).netloc


def read_options(options: Options | Mapping[str, Any] | None) -> Options:
    """Options in either form; ``UsageError`` names what is not one."""
    if options is None:
        return Options()
    if isinstance(options, Options):
        return options
    known = Options.__struct_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"Unknown options: {', '.join(unknown)}; known are: {', '.join(known)}")
    values: dict[str, Any] = dict(options)
    if isinstance(values.get("stop"), str):
        values["stop"] = (values["stop"],)
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"These options cannot be used: {error}") from None


def _system_prompt(prompt: str | None) -> str:
    text = clean_text(prompt or "")
    return "" if text.isspace() else text


def _distinct(tools: Iterable[Any] | None, notes: list[Note]) -> list[ToolDefinition]:
    """The tools on offer, one of each name."""
    if not tools:
        return []
    read = read_tools(tools)
    notes.extend(Note("OAI-08", None, skipped) for skipped in read.skipped)
    distinct: dict[str, ToolDefinition] = {}
    for tool in read.definitions:
        if tool.name in distinct:
            notes.append(Note("GEM-12", None, f"offered {tool.name!r} once, as first defined"))
        else:
            distinct[tool.name] = tool
    return list(distinct.values())


def _sent_choice(options: Options, offered: set[str], changed: Mapping[str, str]) -> str | None:
    choice = options.tool_choice
    if choice is None or choice not in offered:
        return choice
    return changed.get(choice, choice)
