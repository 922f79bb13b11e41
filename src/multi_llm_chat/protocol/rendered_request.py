"""Any history, any provider: the exact request, and how to read its answer back.

This is the promise of the package in one function, usable with any HTTP client or SDK.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Unpack, overload
from urllib.parse import urlsplit

from msgspec import Struct

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject, Origin
from multi_llm_chat.protocol._model_families import row_for_model
from multi_llm_chat.protocol._rule_ids import own_rule
from multi_llm_chat.protocol.attachments import fit_media
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import ProviderRow, provider_row
from multi_llm_chat.protocol.request_draft import RequestDraft
from multi_llm_chat.protocol.request_settings import RequestSettings, read_request
from multi_llm_chat.repair.engine import repair
from multi_llm_chat.repair.framing import frame
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.request import ModelRequest, Options, ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools


class Rendered(Struct, frozen=True):
    """A legal request.

    ``body`` is the JSON body, ready for ``json.dumps``; ``path`` belongs behind the base URL.
    ``notes`` say every change that was needed, with the id of the provider's rule that asks for
    it. ``names`` leads from tool names as sent to
    the caller's, ``arguments`` does the same for argument keys by tool, ``ids`` for call ids. ``headers`` are those
    that this body needs besides the provider's usual ones, such as ``anthropic-beta``. ``binding`` belongs under
    ``binding`` in the ``meta`` of the answer's turn, where the model binds its thinking to what precedes it (ANT-28).
    """

    provider: str
    model: str
    path: str
    body: JsonObject
    notes: tuple[Note, ...]
    names: dict[str, str]
    arguments: dict[str, dict[str, str]]
    ids: dict[str, str]
    headers: dict[str, str] = {}
    binding: JsonObject = {}


@overload
def render(history: ModelRequest) -> Rendered: ...
@overload
def render(
    history: Iterable[Any], provider: str, **settings: Unpack[RequestSettings]
) -> Rendered: ...
def render(
    history: ModelRequest | Iterable[Any],
    provider: str | None = None,
    **settings: Unpack[RequestSettings],
) -> Rendered:
    """Write a request that the provider accepts.

    ``render(history, "anthropic", model=…, system_prompt=…, tools=…, policy=…, options=…)``, or
    ``render(request)`` with a ``ModelRequest``.

    Args:
        history: Turns in the serialised form (read liberally) or ``Turn`` values, not changed; or a
            ``ModelRequest``, which takes the place of all arguments.
        provider: A provider's name, such as ``anthropic``.
        settings: See ``RequestSettings``: ``model``, ``system_prompt``, ``tools``, ``policy``,
            ``options``, ``stream`` (off by default), ``speaker``, ``base_url``, ``headers``.
    """
    if isinstance(history, ModelRequest) and provider is None and not settings:
        return _render(history)
    settings.setdefault("stream", False)
    return _render(read_request(history, provider, **settings))


def _render(request: ModelRequest) -> Rendered:
    row = provider_row(request.provider)
    model = clean_text(request.model or row.default_model)
    options = request.options
    row, target = _receiver(
        row.name,
        model,
        options.thinking,
        request.speaker,
        request.base_url,
        structured=options.schema is not None,
    )
    notes: list[Note] = []
    offered = _distinct(request, notes)
    names_offered = [tool.name for tool in offered]
    repaired = repair(read_history(request.turns), target, request.policy, names_offered)
    notes.extend(repaired.notes)
    names = repaired.names
    notes.extend(
        Note("OAI-08", None, f"offered the tool {tool.name!r} as {names.changed[tool.name]!r}")
        for tool in offered
        if tool.name in names.changed
    )
    framed = frame(repaired.placed, target, notes)
    sources = [source for source, _ in framed]
    turns = [turn for _, turn in framed]
    if not repaired.is_plain:
        turns = fit_media(turns, sources, row.media, notes, target.origin)
    draft = RequestDraft(
        turns=turns,
        sources=sources,
        model=model,
        system_prompt=_system_prompt(request.system_prompt),
        tools=[
            ToolDefinition(names.sent(tool.name), clean_text(tool.description), tool.schema)
            for tool in offered
        ],
        tool_choice=_sent_choice(options, names_offered, names.changed),
        options=options,
        stream=request.stream,
        target=target,
        is_plain=repaired.is_plain,
        characters=repaired.characters,
        notes=notes,
    )
    dialect = DIALECTS[row.dialect]
    encoded = dialect.encode(draft, row.chat)
    if request.messages is not None:
        own = list(request.messages)
        if dialect.system_in_messages and draft.system_prompt:
            own.insert(0, encoded.body[dialect.messages][0])
        encoded.body[dialect.messages] = own
        notes.append(Note("", None, "sent the messages of the provider's own format_history"))
    return Rendered(
        provider=row.name,
        model=model,
        path=encoded.path,
        body=encoded.body,
        notes=_own_notes(notes, row.name),
        names=names.originals,
        arguments={names.originals[name]: keys for name, keys in draft.arguments.items()},
        ids=repaired.ids,
        headers=encoded.headers,
        binding=encoded.binding,
    )


@lru_cache(maxsize=256)  # the same few, for every request
def _receiver(
    provider: str,
    model: str,
    thinking: int | str | bool | None,
    speaker: str | None,
    base_url: str | None,
    *,
    structured: bool,
) -> tuple[ProviderRow, Target]:
    """The provider's row as it is for the model, and what that demands of a history."""
    row = row_for_model(provider_row(provider), model, thinking, structured=structured)
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
        opens=row.opens,
        ends=row.ends,
        pauses=row.pauses,
        keeps_blanks=row.dialect == "anthropic",
        blank_texts=row.blank_texts and endpoint == endpoint_of(row.base_url),
    )


@lru_cache(maxsize=256)
def endpoint_of(base_url: str) -> str:
    """The part of an address that opaque thinking data is bound to: the host."""
    return urlsplit(base_url).netloc


def _own_notes(notes: Sequence[Note], provider: str) -> tuple[Note, ...]:
    """The notes, each with the id of the provider's own rule."""
    return tuple([Note(own_rule(provider, note.rule), note.turn, note.message) for note in notes])


def _system_prompt(prompt: str | None) -> str:
    text = clean_text(prompt or "")
    return "" if text.isspace() else text


def _distinct(request: ModelRequest, notes: list[Note]) -> list[ToolDefinition]:
    """The tools on offer, one of each name."""
    if not request.tools and not request.skipped_tools:
        return []
    read = read_tools(request.tools)
    notes.extend(Note("DSK-06", None, why) for why in (*request.skipped_tools, *read.skipped))
    distinct: dict[str, ToolDefinition] = {}
    for tool in read.definitions:
        if tool.name in distinct:
            notes.append(Note("GEM-12", None, f"offered {tool.name!r} once, as first defined"))
        else:
            distinct[tool.name] = tool
    return list(distinct.values())


def _sent_choice(
    options: Options, offered: Sequence[str], changed: Mapping[str, str]
) -> str | None:
    choice = options.tool_choice
    if choice is None or choice not in offered:
        return choice
    return changed.get(choice, choice)
