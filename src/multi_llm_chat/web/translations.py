"""The words of the page, in the reader's language.

Rules:
1. All catalogues have the same keys; English is the one others are measured by.
2. The reader's choice decides, then what the browser asks for, then English.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

#: Languages by the name that their speakers give them.
LANGUAGES: Final = {"en": "English", "ja": "日本語", "ko": "한국어", "it": "Italiano"}

_FOLDER: Final = Path(__file__).parent / "catalogues"

#: What the scripts say; the rest is said by templates.
_FOR_SCRIPTS: Final = "js_"


class Words:
    """One language's words."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue = catalogue(self.language)

    def text(self, key: str) -> str:
        """The words for a key."""
        return self._catalogue[key]

    def maybe(self, key: str) -> str:
        """The words for a key, or the key itself where it is none, as a month."""
        return self._catalogue.get(key, key)

    @property
    def for_scripts(self) -> str:
        """The words that scripts need, as JSON."""
        chosen = {
            key.removeprefix(_FOR_SCRIPTS): text
            for key, text in self._catalogue.items()
            if key.startswith(_FOR_SCRIPTS)
        }
        return msgspec.json.encode(chosen).decode()


@cache
def catalogue(language: str) -> dict[str, str]:
    """All words of a language."""
    data = (_FOLDER / f"{language}.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])


def chosen_language(choice: str, accepted: str) -> str:
    """The language for a reader who chose one, or whose browser asks for some."""
    if choice in LANGUAGES:
        return choice
    for wanted in re.findall(r"[a-z]{2,3}", accepted.lower()):
        if wanted in LANGUAGES:
            return wanted
    return "en"
