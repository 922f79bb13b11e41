"""The names of the speakers, found without loading any provider.

Rules:
1. Configured speakers come first; then every provider with a key, under its usual name. Without either, the embedded
   model is the only speaker.
2. The embedded model answers when it is named (``@local``), also where there are others.
"""

from typing import Final

from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings, SpeakerSettings
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
    """The settings of the speakers that answer only when they are named."""
    del settings
    return {} if EMBEDDED in speakers else {EMBEDDED: SpeakerSettings(EMBEDDED)}
