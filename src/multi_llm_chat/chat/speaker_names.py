"""The names of the speakers, found without loading any provider.

Rules:
1. Configured speakers come first, then every provider with a key, under its usual name. If there are neither, the embedded model is the
   only speaker.
2. If there are other speakers, the embedded model answers only when it is named (``@local``), as personas do.
"""

from typing import Final

from msgspec.structs import replace

from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import PersonaSettings, Settings, SpeakerSettings
from multi_llm_chat.protocol.providers import ROWS

EMBEDDED: Final = "local"

#: Rows that share another row's key: they need a configured speaker.
_SECOND_CHOICES: Final = frozenset({"openai-chat"})


def speaker_settings(settings: Settings, keys: Keys) -> dict[str, SpeakerSettings]:
    """The settings of all speakers, by name."""
    found = dict(settings.speakers)
    for row in ROWS.values():
        if row.name not in _SECOND_CHOICES and keys.find_first(row.key_variables):
            found.setdefault(row.speaker, SpeakerSettings(row.name))
    return found or {EMBEDDED: SpeakerSettings(EMBEDDED)}


def further_settings(
    settings: Settings, speakers: dict[str, SpeakerSettings]
) -> dict[str, SpeakerSettings]:
    """The settings of the speakers that answer only if they are named."""
    further = {
        name: _persona(persona, speakers)
        for name, persona in settings.personas.items()
        if name not in speakers
    }
    if EMBEDDED not in speakers:
        further.setdefault(EMBEDDED, SpeakerSettings(EMBEDDED))
    return further


def _persona(persona: PersonaSettings, speakers: dict[str, SpeakerSettings]) -> SpeakerSettings:
    """The settings of a persona: those of its speaker, overridden by its own."""
    known = {name.lower(): each for name, each in speakers.items()}
    base = known.get(persona.speaker.lower()) or SpeakerSettings(persona.speaker)
    return replace(
        base,
        model=persona.model or base.model,
        system_prompt=persona.system_prompt or base.system_prompt,
        options={**base.options, **persona.options},
        tools=base.tools if persona.tools is None else persona.tools,
    )
