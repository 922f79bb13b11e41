"""Renders any history as the exact request of any provider, with the data to read its answer.

``render`` is the core of the package in one function; it can be used with any HTTP client or SDK.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Unpack, overload
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.history.json_values import as_list, as_object, clean_text
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject, Origin, Turn
from multi_llm_chat.protocol._model_families import row_for_model
from multi_llm_chat.protocol._rule_ids import own_rule
from multi_llm_chat.protocol.attachments import count_pictures, fit_media
from multi_llm_chat.protocol.dialect_registry import DIALECTS, Dialect
from multi_llm_chat.protocol.providers import ProviderRow, provider_row
from multi_llm_chat.protocol.request_draft import CutError, Encoded, RequestDraft
from multi_llm_chat.protocol.request_settings import RequestSettings, read_request
from multi_llm_chat.protocol.transcript import (
    OfferedTools,
    arrange_answers,
    calls_of,
    changed_prompt,
    choose_caching,
    json_hash,
    last_passage,
    new_turns,
    offer_again,
)
from multi_llm_chat.repair.engine import Repaired, apply_steps, repair
from multi_llm_chat.repair.framing import frame
from multi_llm_chat.repair.identifiers import NO_CALLS, NameMap, SentCalls
from multi_llm_chat.repair.policy import Note, RepairPolicy, Target
from multi_llm_chat.request import ModelRequest, ToolDefinition, Transcript
from multi_llm_chat.schema.tool_definitions import find_tools


class Rendered(Struct, frozen=True, dict=True):
    """A request in the format of its provider, ready to send.

    ``body`` is the JSON body, ready for ``json.dumps``, and ``content`` its exact bytes; ``path`` is appended to the base URL.
    ``notes`` describe every change that was needed, each with the id of the provider's rule that requires it.
    ``names`` maps tool names as sent to the caller's, ``arguments`` does the same for argument keys by tool,
    ``ids`` for call ids. ``headers`` are those that this body needs in addition to the provider's usual ones, such as
    ``anthropic-beta``. ``binding`` has to be stored under ``binding`` in the ``meta`` of the answer's turn, if the model binds
    its thinking to what precedes it (ANT-28). ``transcript`` is the value for ``previous`` of the conversation's next request;
    None if the caller made the messages.
    """

    provider: str
    model: str
    path: str
    _body: JsonObject
    notes: tuple[Note, ...]
    names: dict[str, str]
    arguments: dict[str, dict[str, str]]
    ids: dict[str, str]
    headers: dict[str, str] = {}
    binding: JsonObject = {}
    #: The messages that are sent exactly as in an earlier request; ``_body`` has only those after them.
    _sent: tuple[bytes, ...] = ()
    _key: str = ""
    _last_message: JsonObject | None = None
    _written: "_Written | None" = None

    @property
    def continues(self) -> bool:
        """Whether the request begins with the messages of an earlier request."""
        return bool(self._sent)

    @cached_property
    def body(self) -> JsonObject:
        """The JSON body."""
        return msgspec.json.decode(self.content) if self._sent else self._body

    @property
    def content(self) -> bytes:
        """The bytes of the body; encoded at each access, so that an object which keeps the request does not keep the bytes."""
        if not self._sent:
            return _encode(self._body)
        key, fields = self._key, list(self._body.items())
        at = next(place for place, (name, _) in enumerate(fields) if name == key)
        before, behind = _encode(dict(fields[:at])), _encode(dict(fields[at + 1 :]))
        opening = before[:-1] + (b"," if at else b"") + _encode(key) + b":["
        closing = b"]" + (b"," if at + 1 < len(fields) else b"") + behind[1:]
        pieces = [*self._sent, *map(_encode, self._body[key])]
        pieces[0] = opening + pieces[0]
        pieces[-1] += closing
        return b",".join(pieces)

    @property
    def transcript(self) -> Transcript | None:
        """The transcript for the next request."""
        return self._written_transcript

    @cached_property
    def _written_transcript(self) -> Transcript | None:
        if self._written is None:
            return None
        messages = [*map(_encode, self._body[self._key])]
        if self._last_message is not None and messages:
            messages[-1] = _encode(self._last_message)
        return self._written.transcript((*self._sent, *messages), len(self._sent), self.ids)


_encode = msgspec.json.Encoder().encode
_DEFAULT_POLICY: Final = RepairPolicy()


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
    receiver = _receiver(
        row.name,
        model,
        options.thinking,
        request.speaker,
        request.base_url,
        structured=options.schema is not None,
    )
    writing = _Writing(request, receiver, model)
    if request.previous is None or request.messages is not None:
        return writing.write(None, [])
    try:
        return writing.write(request.previous, [])
    except CutError as cut:
        reason = f"did not continue the earlier request: {cut.reason}"
        return writing.write(None, [Note(cut.rule, None, reason)])


class _Writing:
    """Writes one request, either completely or as the continuation of an earlier request."""

    def __init__(self, request: ModelRequest, receiver: "_Receiver", model: str) -> None:
        self._request = request
        self._receiver = receiver
        self._model = model
        policy = request.policy or _DEFAULT_POLICY
        self._policy = replace(policy, steps=()) if policy.steps else policy

    def write(self, sent: Transcript | None, notes: list[Note]) -> Rendered:
        """Write the request, as the continuation of ``sent`` if that is not None.

        Raises:
            CutError: The request cannot begin with the messages that were sent.
        """
        request, row = self._request, self._receiver.row
        if sent is not None and sent.target != _target_key(self._receiver, self._policy):
            raise CutError("", "it went to another model, or under another policy")
        prompt = _system_prompt(request.system_prompt)
        turns, order = self._new_turns(sent, notes)
        fresh = read_history(turns if order is None else [turns[at] for at in order])
        offer = self._offer(sent, fresh, notes)
        offered = offer.tools
        said = fresh if sent is None else (*fresh, *changed_prompt(sent, prompt), *offer.news)
        names_offered = [tool.name for tool in offered]
        before = NO_CALLS if sent is None else SentCalls(sent.names, sent.ids, sent.calls)
        repaired = repair(said, self._receiver.target, self._policy, names_offered, before)
        names = repaired.names
        draft = self._draft(repaired, order, sent, notes)
        draft.system_prompt = prompt if sent is None else sent.system_prompt
        choice = "none" if offer.is_none else request.options.tool_choice
        draft.tool_choice = _sent_choice(choice, names_offered, names.changed)
        draft.tools = _sent_tools(offered, names, notes)
        draft.deferred = [*map(names.sent, offer.deferred)]
        pictures = 0 if sent is None else sent.pictures
        if not repaired.is_plain:
            pictures = self._fit_media(draft, pictures)
        kept = () if sent is None else self._continue(draft, sent)
        draft.tail = last_passage(draft.turns, self._receiver.target.speaker)
        draft.caching = choose_caching(request, self._receiver.target, is_first=sent is None)
        dialect = DIALECTS[row.dialect]
        encoded = dialect.encode(draft, row.chat)
        key = dialect.messages
        if sent is not None:
            _check_prefix(sent, len(kept), encoded, key)
        if request.messages is not None:
            _put_messages(request.messages, dialect, draft, encoded)
        ids = {**before.ids, **repaired.ids} if before.ids else repaired.ids
        written = None
        if request.messages is None and key not in request.options.extra:
            written = _Written(
                self._receiver, self._policy, turns, fresh, offer, prompt, names.all_sent, sent,
                pictures, draft, encoded,
            )  # fmt: skip
            if sent is not None and written.tools_sent != sent.tools_sent:
                notes.append(Note("", None, "the tools changed: what was cached is read again"))
        return Rendered(
            provider=row.name,
            model=self._model,
            path=encoded.path,
            _body=encoded.body,
            notes=_own_notes(notes, row.name),
            names=names.originals,
            arguments={names.originals[name]: keys for name, keys in draft.arguments.items()},
            ids=ids,
            headers=encoded.headers,
            binding=encoded.binding,
            _sent=kept,
            _key=key,
            _last_message=encoded.last_message,
            _written=written,
        )

    def _new_turns(
        self, sent: Transcript | None, notes: list[Note]
    ) -> tuple[Sequence[Turn], list[int] | None]:
        """The history after the caller's own repair steps, and the indexes of the turns to write, in order; None for all turns."""
        turns: Sequence[Turn] = self._request.turns
        policy = self._request.policy
        if policy is not None and policy.steps:
            turns = apply_steps(read_history(turns), policy, notes)
        target = self._receiver.target
        if sent is None:
            return turns, arrange_answers(range(len(turns)), turns, target)
        return turns, new_turns(sent, turns, target)

    def _draft(
        self,
        repaired: Repaired,
        order: Sequence[int] | None,
        sent: Transcript | None,
        notes: list[Note],
    ) -> RequestDraft:
        """The draft of the request, with the new turns framed."""
        request, target = self._request, self._receiver.target
        notes += _placed_notes(repaired.notes, order)
        tail = () if sent is None else sent.tail
        sources = repaired.sources
        if order is not None:
            sources = [_place(index, order) for index in sources]
        thinks = bool(tail) or not repaired.is_plain
        turns, sources = frame(repaired.turns, sources, target, notes, tail, thinks=thinks)
        is_same = sent is None and turns == list(repaired.turns)
        return RequestDraft(
            turns=turns[len(tail) :],
            sources=sources[len(tail) :],
            model=self._model,
            options=request.options,
            stream=request.stream,
            target=target,
            is_plain=repaired.is_plain,
            characters=repaired.characters,
            texts=repaired.texts if is_same else None,
            notes=notes,
        )

    def _offer(
        self, sent: Transcript | None, fresh: Sequence[Turn], notes: list[Note]
    ) -> OfferedTools:
        """The tools to declare."""
        offered = _distinct(self._request, notes)
        if sent is None:
            return OfferedTools(offered)
        row, target = self._receiver.row, self._receiver.target
        is_own = target.origin.endpoint == target.default_endpoint
        by_reference = row.dialect == "anthropic" and target.system == "anywhere" and is_own
        return offer_again(sent, offered, fresh, target, by_reference=by_reference)

    def _fit_media(self, draft: RequestDraft, before: int) -> int:
        """Fit the media into the receiver's limits; return the number of images in the request.

        Raises:
            CutError: The images that were already sent and the new ones are together too many.
        """
        limits, target = self._receiver.row.media, self._receiver.target
        pictures = before + count_pictures(draft.turns)
        if before and limits is not None and pictures > before:
            few = limits.few if limits.few is not None and before <= limits.few else None
            if any(most is not None and pictures > most for most in (limits.images, few)):
                raise CutError("ANT-38", "the pictures are more than were allowed at their size")
        draft.turns = fit_media(
            draft.turns, draft.sources, limits, draft.notes, target.origin, before
        )
        return before + count_pictures(draft.turns)

    def _continue(self, draft: RequestDraft, sent: Transcript) -> tuple[bytes, ...]:
        """Append the draft to what was sent; return the messages that stay.

        An answer of the model begins a new message, so all messages before it stay. Other turns can be merged into the last
        message: then the turns from the model's last passage on are written again.
        """
        speaker = self._receiver.target.speaker
        answers = bool(draft.turns) and draft.turns[0].role == speaker
        if answers and not sent.rewrites and sent.tail[-1].role != speaker:
            kept = sent.messages
        else:
            kept = sent.messages[: sent.stable]
            draft.sent_before = len(sent.tail)
            draft.turns = [*sent.tail, *draft.turns]
            draft.sources = [*[None] * len(sent.tail), *draft.sources]
            draft.is_plain, draft.characters = False, None
        draft.continues = bool(kept)
        draft.system_texts = sent.system_texts if kept else ()
        draft.state = sent.state
        return kept


class _Written(Struct, frozen=True, dict=True):
    """The data for a transcript, which is only made when it is needed: most requests are never continued."""

    receiver: "_Receiver"
    policy: RepairPolicy
    turns: Sequence[Turn]
    fresh: Sequence[Turn]
    offer: OfferedTools
    prompt: str
    names: dict[str, str]
    sent: Transcript | None
    pictures: int
    draft: RequestDraft
    encoded: Encoded

    @cached_property
    def tools_sent(self) -> str:
        """A hash of the tools as they are sent, without those that a message has added, which are not cached with the others."""
        tools: list[JsonObject] | None = self.encoded.body.get("tools")
        if self.offer.deferred and tools:
            tools = [tool for tool in tools if not tool.get("defer_loading")]
        return json_hash(tools)

    def transcript(self, messages: tuple[bytes, ...], kept: int, ids: dict[str, str]) -> Transcript:
        """The transcript of a request with these messages; an earlier request has sent the first ``kept`` of them."""
        encoded, draft = self.encoded, self.draft
        stable = kept + (encoded.stable or 0)
        is_split = encoded.stable is not None and stable > 0
        sent = self.sent
        calls = {} if sent is None else sent.calls
        return Transcript(
            target=_target_key(self.receiver, self.policy),
            turns=tuple(self.turns),
            messages=messages,
            tail=tuple(draft.turns[draft.tail if is_split else 0 :]),
            stable=stable,
            rewrites=encoded.stable is None,
            kept=kept,
            system_prompt=draft.system_prompt,
            instructions=self.prompt,
            system_texts=encoded.system_texts,
            tools=tuple(self.offer.tools),
            tools_sent=self.tools_sent,
            names=self.names,
            ids=ids,
            calls={**calls, **calls_of(self.fresh)},
            pictures=self.pictures,
            state=encoded.state,
            deferred=self.offer.deferred,
            removed=self.offer.removed,
            has_tool_changes=bool(self.offer.news) or (sent is not None and sent.has_tool_changes),
        )


def _target_key(receiver: "_Receiver", policy: RepairPolicy) -> str:
    """A key for everything that determines how a history is written."""
    return f"{receiver.key} {policy.unanswered} {policy.orphans} {policy.foreign}"


def _sent_tools(
    offered: Iterable[ToolDefinition], names: NameMap, notes: list[Note]
) -> list[ToolDefinition]:
    """The tools under names that the receiver accepts."""
    notes.extend(
        Note("OAI-08", None, f"offered the tool {tool.name!r} as {names.changed[tool.name]!r}")
        for tool in offered
        if tool.name in names.changed
    )
    return [
        ToolDefinition(names.sent(tool.name), clean_text(tool.description), tool.schema)
        for tool in offered
    ]


def _put_messages(
    messages: Sequence[JsonObject], dialect: Dialect, draft: RequestDraft, encoded: Encoded
) -> None:
    """Replace the body's messages by those that the caller made; the system prompt stays before them."""
    own = list(messages)
    if dialect.system_in_messages and draft.system_prompt:
        own.insert(0, encoded.body[dialect.messages][0])
    encoded.body[dialect.messages] = own
    draft.note("", "sent the messages of the provider's own format_history")


def _check_prefix(sent: Transcript, kept: int, encoded: Encoded, key: str) -> None:
    """Check that the messages that were written again, except the last, are the same as they were sent.

    Raises:
        CutError: A message would change.
    """
    again = sent.messages[kept:-1]
    written: list[JsonObject] = encoded.body[key][: len(again)]
    if tuple(map(_encode, written)) == again:
        return
    # The client's cache marks may move from message to message.
    if not sent.rewrites or _unmarked(written) != _unmarked([*map(msgspec.json.decode, again)]):
        raise CutError("", "a message that was sent would change")


def _unmarked(value: Any) -> Any:
    """The value without cache marks."""
    entries, items = as_object(value), as_list(value)
    if entries is not None:
        return {key: _unmarked(each) for key, each in entries.items() if key != "cache_control"}
    return value if items is None else [*map(_unmarked, items)]


def _placed_notes(notes: Iterable[Note], order: Sequence[int] | None) -> list[Note]:
    return [Note(note.rule, _place(note.turn, order), note.message) for note in notes]


def _place(index: int | None, order: Sequence[int] | None) -> int | None:
    if index is None or order is None:
        return index
    return order[index] if index < len(order) else None


class _Receiver(NamedTuple):
    """A provider's row with the changes for a model, its requirements on a history, and a key for both."""

    row: ProviderRow
    target: Target
    key: str


@lru_cache(maxsize=256)  # requests go to the same few receivers
def _receiver(
    provider: str,
    model: str,
    thinking: int | str | bool | None,
    speaker: str | None,
    base_url: str | None,
    *,
    structured: bool,
) -> _Receiver:
    row = row_for_model(provider_row(provider), model, thinking, structured=structured)
    target = target_of(row, model, speaker=speaker, base_url=base_url)
    return _Receiver(row, target, _receiver_key(row, target))


#: The fields of ``ChatQuirks`` that determine how messages are written.
_MESSAGE_QUIRKS: Final = (
    "alternates", "answers_after_tools", "content", "media", "bare_calls", "words_beside_calls", "thinking_field",
    "thinking_always", "thinking_details", "message_keys", "cache_mark", "refusals", "custom_tools", "chunks", "result_names",
)  # fmt: skip


def _receiver_key(row: ProviderRow, target: Target) -> str:
    """A key for everything that determines how messages are written, except ``ends``, which concerns only the last message."""
    demands = {name: getattr(target, name) for name in target.__struct_fields__ if name != "ends"}
    quirks = {name: getattr(row.chat, name) for name in _MESSAGE_QUIRKS}
    text = msgspec.json.encode([demands, quirks], enc_hook=_pattern_text, order="deterministic")
    origin = target.origin
    return f"{origin.provider} {origin.model} {blake2b(text, digest_size=8).hexdigest()}"


def _pattern_text(value: Any) -> str:
    return value.pattern


def target_of(
    row: ProviderRow, model: str, *, speaker: str | None = None, base_url: str | None = None
) -> Target:
    """The requirements of the provider's model on a history."""
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
        any_order=row.dialect
        != "gemini",  # GEM-03; elsewhere recorded: openrouter, braintrust-sdk-javascript
        signs_parts=row.dialect == "gemini",
    )


@lru_cache(maxsize=256)
def endpoint_of(base_url: str) -> str:
    """The host of a base URL, to which opaque thinking data is bound."""
    return urlsplit(base_url).netloc


def _own_notes(notes: Sequence[Note], provider: str) -> tuple[Note, ...]:
    """The notes with the ids of the provider's own rules."""
    if not notes:
        return ()
    return tuple([Note(own_rule(provider, note.rule), note.turn, note.message) for note in notes])


def _system_prompt(prompt: str | None) -> str:
    text = clean_text(prompt or "")
    return "" if text.isspace() else text


def _distinct(request: ModelRequest, notes: list[Note]) -> list[ToolDefinition]:
    """The tools on offer, one of each name."""
    if not request.tools and not request.skipped_tools:
        return []
    read = find_tools(request.tools)  # the projection cleans their schemas
    notes.extend(Note("DSK-06", None, why) for why in (*request.skipped_tools, *read.skipped))
    distinct: dict[str, ToolDefinition] = {}
    for tool in read.definitions:
        if tool.name in distinct:
            notes.append(Note("GEM-12", None, f"offered {tool.name!r} once, as first defined"))
        else:
            distinct[tool.name] = tool
    return list(distinct.values())


def _sent_choice(
    choice: str | None, offered: Sequence[str], changed: Mapping[str, str]
) -> str | None:
    if choice is None or choice not in offered:
        return choice
    return changed.get(choice, choice)
