"""Render views as HTML in the reader's language.

Rules:
1. Templates escape everything that is not HTML already. Only the output of ``render_markdown`` and ``highlight`` is marked as HTML, with
   ``|safe``.
2. Every text of the page comes from a catalogue. All catalogues have the same keys; English is the reference.
3. The reader's choice decides the language, then what the browser accepts, then English.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from multi_llm_chat.chat.branch import plain_title
from multi_llm_chat.web.markdown import highlight
from multi_llm_chat.web.views import (
    PageAnswer,
    PageExchange,
    PageOutbox,
    Phrase,
    Renderable,
    ServerForm,
    address_of,
)

#: Languages by their names in the language itself.
LANGUAGES: Final = {"en": "English", "ja": "日本語", "ko": "한국어", "it": "Italiano"}

_CATALOGUES: Final = Path(__file__).parent / "catalogues"

#: Keys with this prefix are used by scripts, all others by templates.
_FOR_SCRIPTS: Final = "js_"


class Translations:
    """The texts of one language."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue = read_catalogue(self.language)

    def text(self, key: str) -> str:
        """The text for a key."""
        return self._catalogue[key]

    def get(self, key: str, other: str = "") -> str:
        """The text for a key, or for another key, or the key itself if the catalogue has none, such as a month."""
        return self._catalogue.get(key) or self._catalogue.get(other, key)

    @property
    def for_scripts(self) -> str:
        """The texts that scripts need, as JSON."""
        chosen = {
            key.removeprefix(_FOR_SCRIPTS): text
            for key, text in self._catalogue.items()
            if key.startswith(_FOR_SCRIPTS)
        }
        return msgspec.json.encode(chosen).decode()


@cache
def read_catalogue(language: str) -> dict[str, str]:
    """All texts of a language."""
    data = (_CATALOGUES / f"{language}.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])


def choose_language(choice: str, accepted: str) -> str:
    """The language that the reader chose, or the first one the browser accepts."""
    if choice in LANGUAGES:
        return choice
    for wanted in re.findall(r"[a-z]{2,3}", accepted.lower()):
        if wanted in LANGUAGES:
            return wanted
    return "en"


_TEMPLATES: Final = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = environment.filters
    filters["number"] = _number
    filters["seconds"] = _seconds
    filters["address"] = address_of
    filters["as_words"] = _as_words
    filters["tool_icon"] = _tool_icon
    filters["merge"] = _merge
    filters["highlight"] = highlight
    filters["plain_title"] = plain_title
    return environment


def _number(value: int) -> str:
    return f"{value:,}"


def _seconds(value: float) -> str:
    if value < 0.05:
        return "<0.1 s"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"


def read_template(name: str) -> str:
    """The source of a template."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _as_words(name: str) -> str:
    """The name of a tool as words: ``create_issue`` is "Create issue"."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_./-]+", " ", name).strip().lower()
    return words[:1].upper() + words[1:]


#: The icon of a tool, by what its name contains; the first that fits.
_TOOL_ICONS: Final = (
    ("search|find|grep|lookup", "search"),
    ("sql|query|table|database", "data"),
    ("image|picture|photo|draw|paint|screenshot", "image"),
    ("file|folder|read|write|directory", "file"),
    ("http|url|web|fetch|browse|weather", "globe"),
    ("python|code|run|shell|exec", "code"),
    ("time|date|calendar|schedule", "clock"),
)


def _tool_icon(name: str) -> str:
    return next((icon for words, icon in _TOOL_ICONS if re.search(words, name.lower())), "tools")


def _merge(first: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The options of a menu, plus further ones whose text is their value."""
    return {**first, **{name: name for name in names}}


class HtmlRenderer:
    """Renders views and templates in one language."""

    def __init__(self, translations: Translations) -> None:
        self.translations = translations

    def render(self, template: str, **values: Any) -> str:
        """Render a template."""
        page = _environment().get_template(template)
        return page.render(t=self.translations.text, translations=self.translations, **values)

    def html(self, view: Renderable) -> str:
        """Render a view; a ``Phrase`` becomes plain text."""
        match view:
            case Phrase():
                return f"{self.translations.text(view.key)} {view.names}".rstrip()
            case PageAnswer():
                return self._macro("answer", view)
            case PageExchange():
                return self._macro("exchange", view)
            case ServerForm():
                return self._macro("question", view)
            case PageOutbox():
                return self._macro("outbox", view)
            case _:
                return self._macro("segment", view)

    def exchanges(self, exchanges: Sequence[PageExchange]) -> str:
        """Render several exchanges."""
        return "".join(map(self.html, exchanges))

    def _macro(self, name: str, *views: Any) -> str:
        return str(getattr(_macros(self.translations.language), name)(*views))


@cache
def _macros(language: str) -> Any:
    translations = Translations(language)
    template = _environment().get_template("messages.html")
    return template.make_module({"t": translations.text, "translations": translations})


def day_of(milliseconds: int, today: datetime | None = None) -> str:
    """The heading of a conversation in the list: a key of the catalogues, or a month."""
    now = today or datetime.now(UTC).astimezone()
    then = datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone()
    days = (now.date() - then.date()).days
    for limit, key in ((1, "today"), (2, "yesterday"), (8, "last_week"), (31, "last_month")):
        if days < limit:
            return key
    return f"{then:%Y-%m}"
