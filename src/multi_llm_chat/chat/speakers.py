"""The speakers of a program.

Rules:
1. A speaker is a name, a provider that answers under that name, and its settings.
2. Which speakers there are is decided in ``chat.speaker_names``.
3. A provider is created when its speaker is first asked, so that a mistake in the configuration affects one speaker.
4. ``further`` speakers answer only if they are named: ``@all`` and iteration do not include them. The name of a provider that is no speaker
   yet becomes such a speaker when ``known`` looks it up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import Struct

from multi_llm_chat.agent.providers import (
    FallbackProvider,
    LLMProvider,
    ProviderSettings,
    as_provider,
    create_provider,
    find_factory,
)
from multi_llm_chat.chat.speaker_names import further_settings, speaker_settings
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import PersonaSettings, Settings, SpeakerSettings
from multi_llm_chat.errors import UsageError, check_type
from multi_llm_chat.protocol.providers import is_known, provider_row
from multi_llm_chat.repair import RepairPolicy


class Speaker(Struct, frozen=True):
    """A speaker: its name, its provider and its settings."""

    name: str
    provider: LLMProvider
    settings: SpeakerSettings


class Speakers(Mapping[str, Speaker]):
    """All speakers, by name.

    Args:
        makers: Make the speakers that take part in every conversation.
        further: Make the speakers that answer only when they are named.
        find: Finds a speaker with another name; returns None if there is none.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Speaker]],
        further: Mapping[str, Callable[[], Speaker]] | None = None,
        find: Callable[[str], tuple[str, Callable[[], Speaker]] | None] = lambda _name: None,
    ) -> None:
        self._names = tuple(makers)
        self.further = tuple(name for name in further or {} if name not in makers)
        self._makers = {**(further or {}), **makers}
        self._find = find
        self._made: dict[str, Speaker] = {}

    def __getitem__(self, name: str) -> Speaker:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._makers or (isinstance(name, str) and self._found(name) == name)

    def model_of(self, name: str) -> str:
        """The model of a speaker, if its provider exists already; else an empty text."""
        made = self._made.get(name)
        return (made.provider.model or "") if made else ""

    def named(self, name: str) -> Speaker:
        """The speaker of this name, in any case.

        Raises:
            UsageError: There is no such speaker.
        """
        return self[self.known(name)]

    def known(self, name: str) -> str:
        """The configured spelling of a name; upper and lower case do not matter.

        Raises:
            UsageError: There is no such speaker.
        """
        known = next((each for each in self._makers if each.lower() == name.lower()), None)
        if known is not None:
            return known
        found = self._found(name)
        if found is None:
            all_names = ", ".join((*self, *self.further)) or "none"
            raise UsageError(f"There is no speaker {name!r}; there are: {all_names}")
        return found

    def _found(self, name: str) -> str | None:
        """Look up a name with ``find``, and add the speaker if there is one; return its name."""
        found = self._find(name)
        if found is None:
            return None
        self._makers.setdefault(*found)
        return found[0]

    def close(self) -> None:
        """Close all connections, from any thread."""
        for speaker in self._made.values():
            speaker.provider.close()

    async def aclose(self) -> None:
        """Close all connections."""
        for speaker in self._made.values():
            await speaker.provider.aclose()


def given_speakers(
    providers: Mapping[str, LLMProvider], personas: Mapping[str, PersonaSettings] | None = None
) -> Speakers:
    """Make speakers of existing providers, or of objects with ``ask`` or ``call_api``; and their personas."""
    speakers: dict[str, Speaker] = {}
    for name, given in providers.items():
        provider = as_provider(given, name)
        if provider.speaker != name:
            provider = provider.with_speaker(name)
        speakers[name] = Speaker(name, provider, SpeakerSettings(provider.name))

    def persona_maker(name: str, persona: PersonaSettings) -> Callable[[], Speaker]:
        return lambda: _given_persona(name, persona, speakers)

    return Speakers(
        {name: (lambda speaker=speaker: speaker) for name, speaker in speakers.items()},
        {name: persona_maker(name, persona) for name, persona in (personas or {}).items()},
    )


def _given_persona(name: str, persona: PersonaSettings, speakers: Mapping[str, Speaker]) -> Speaker:
    base = next(
        (each for known, each in speakers.items() if known.lower() == persona.speaker.lower()), None
    )
    if base is None:
        known = ", ".join(speakers)
        raise UsageError(
            f"The persona {name!r} speaks as {persona.speaker!r}, which is no speaker; there are: {known}"
        )
    provider = base.provider.with_speaker(name)
    provider.set_up(model=persona.model, options=persona.options)
    tools = True if persona.tools is None else persona.tools
    settings = SpeakerSettings(
        provider.name, system_prompt=persona.system_prompt, options=persona.options, tools=tools
    )
    return Speaker(name, provider, settings)


#: A name such as ``claude`` or ``claude:MODEL``, or a provider.
Model: TypeAlias = str | LLMProvider
#: One model, a chain of them, or several speakers by name.
Models: TypeAlias = Model | Sequence[Model] | Mapping[str, Model | Sequence[str]]


def speakers_from(
    given: Speakers | Mapping[str, Model] | Iterable[Model],
    personas: Mapping[str, PersonaSettings] | None = None,
) -> Speakers:
    """Make speakers of ``Speakers``, of models by speaker name, or of a list of models.

    A model is a provider, or a name such as ``"claude"`` or ``"claude:MODEL"``.
    """
    if isinstance(given, Speakers):
        return given
    if isinstance(given, Mapping):
        return given_speakers(cast("Mapping[str, LLMProvider]", given), personas)
    example = "a list such as ['claude', 'gemini'], providers, or a dict with names of speakers"
    check_type(given, Iterable, "ChatService", example)
    models: Iterable[Model] = [given] if isinstance(given, str) else given
    providers = [create_provider(each) if isinstance(each, str) else each for each in models]
    return given_speakers({provider.speaker: provider for provider in providers}, personas)


def configured_speakers(settings: Settings, keys: Keys) -> Speakers:
    """The configured speakers, one for each provider with a key, and those that answer only if they are named."""

    def maker(name: str, each: SpeakerSettings) -> Callable[[], Speaker]:
        return lambda: _make(name, each, settings, keys)

    def find(name: str) -> tuple[str, Callable[[], Speaker]] | None:
        """A speaker for a provider without a known key: a local server, or a provider whose key is missing."""
        if is_known(name):
            row = provider_row(name)
            own = SpeakerSettings(row.name)
            # ChatGPT answers through openai; openai-chat then speaks under its own name.
            is_free = found.get(row.speaker, own).provider == row.name
            speaker = row.speaker if is_free else row.name
            return speaker, maker(speaker, own)
        return None

    found = speaker_settings(settings, keys)
    further = further_settings(settings, found)
    return Speakers(
        {name: maker(name, each) for name, each in found.items()},
        {name: maker(name, each) for name, each in further.items()},
        find,
    )


def _make(name: str, own: SpeakerSettings, settings: Settings, keys: Keys) -> Speaker:
    foreign = own.foreign or settings.foreign
    policy = RepairPolicy(foreign=foreign)
    names = (own.provider,) if isinstance(own.provider, str) else own.provider
    members = [_member(each, name, own, policy, keys) for each in names]
    # All members speak under one name, so that each reads the others' turns as the speaker's own.
    chain = FallbackProvider(members, foreign=foreign) if len(members) > 1 else members[0]
    return Speaker(name, chain, own)


def _member(
    provider: str, name: str, own: SpeakerSettings, policy: RepairPolicy, keys: Keys
) -> LLMProvider:
    alone = isinstance(own.provider, str)
    variables = (own.key,) if own.key else ()
    if not variables and find_factory(provider) is None:  # a plug-in finds its key itself
        variables = provider_row(provider).key_variables
    settings: ProviderSettings = {"options": own.options, "speaker": name, "policy": policy}
    key = keys.find_first(variables)
    if key is not None:
        settings["api_key"] = key.value
    if alone and own.model is not None:
        settings["model"] = own.model
    if alone and own.base_url is not None:
        settings["base_url"] = own.base_url
    return create_provider(provider, **settings)


def model_speakers(model: Models, settings: ProviderSettings) -> dict[str, LLMProvider]:
    """The providers of an agent, by speaker name."""
    several = model.values() if isinstance(model, Mapping) else [model]
    members = [each for one in several for each in _members(one)]
    _check_settings(members, settings)
    if isinstance(model, Mapping):
        return {name: _model_provider(each, name, settings) for name, each in model.items()}
    provider = _model_provider(model, None, settings)
    return {provider.speaker: provider}


def _members(model: Model | Sequence[Model]) -> Sequence[Model]:
    return model if isinstance(model, Sequence) and not isinstance(model, str) else (model,)


def _check_settings(members: Sequence[Model], settings: ProviderSettings) -> None:
    """Refuse a setting that cannot apply to every member: a key and an address belong to one service only."""
    given = [name for name, value in settings.items() if value is not None]
    objects = [each for each in members if not isinstance(each, str)]
    if given and objects:
        raise UsageError(
            f"Give {', '.join(given)} to the provider itself: create_provider(…, {given[0]}=…)"
        )
    of_one = [name for name in given if name in ("api_key", "base_url")]
    if of_one and len({_service(each) for each in members if isinstance(each, str)}) > 1:
        raise UsageError(
            f"These models have several providers, and {' and '.join(of_one)} would go to all: "
            f"use create_provider(…, {of_one[0]}=…) for each"
        )


def _service(model: str) -> str:
    known = model.partition(":")[0]
    return provider_row(known).name if is_known(known) else model


def _model_provider(
    model: Model | Sequence[Model], name: str | None, settings: ProviderSettings
) -> LLMProvider:
    if isinstance(model, str):
        own: ProviderSettings = settings if name is None else {**settings, "speaker": name}
        return create_provider(model, **own)
    members = _members(model)
    if members is not model:
        return as_provider(model, name or "agent")
    return FallbackProvider([_model_provider(each, name, settings) for each in members])
