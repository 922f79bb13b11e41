"""Who is there to be asked, known without loading anything that could ask.

Rules:
1. Who is configured speaks; besides, every provider whose key is there speaks under its usual name. Where nobody is
   left, the embedded model speaks.
"""

from typing import Final

from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings, SpeakerSettings
from multi_llm_chat.protocol.providers import ROWS

EMBEDDED: Final = "local"

#: Rows that share another row's key and are asked for by name only.
_SECOND_CHOICES: Final = frozenset({"openai-chat"})


def told_speakers(settings: Settings, keys: Keys) -> dict[str, SpeakerSettings]:
    """All speakers by name, and how they are asked."""
    told = dict(settings.speakers)
    for row in ROWS.values():
        if row.key_variable and row.name not in _SECOND_CHOICES and keys.find(row.key_variable):
            told.setdefault(row.speaker, SpeakerSettings(row.name))
    return told or {EMBEDDED: SpeakerSettings(EMBEDDED)}
