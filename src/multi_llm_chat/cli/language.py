"""The language of the terminal.

Rules:
1. ``MLC_LANGUAGE`` decides, else the first of ``LC_ALL``, ``LC_MESSAGES`` and ``LANG`` that is set; English otherwise.
2. The English text is the key: ``tr("A new conversation begins.")``. A text without a translation stays English.
3. ``{names}`` in a text are filled in after the translation.
4. Answers for programs (``--json``, exit codes, names of commands) have no language.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

LANGUAGES: Final = ("en", "ja", "ko", "it")
_VARIABLES: Final = ("MLC_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_CATALOGUES: Final = Path(__file__).parent / "catalogues"


def terminal_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language that the environment asks for."""
    chosen = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    code = re.match(r"[A-Za-z]+", chosen)
    language = code[0].lower() if code else ""
    return language if language in LANGUAGES else "en"


def tr(text: str, /, **values: object) -> str:
    """The text in the language of the terminal."""
    translated = catalogue(terminal_language()).get(text, text)
    return translated.format(**values) if values else translated


@cache
def catalogue(language: str) -> dict[str, str]:
    """All texts of a language, by the English ones."""
    if language == "en":
        return {}
    data = (_CATALOGUES / f"{language}.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])
