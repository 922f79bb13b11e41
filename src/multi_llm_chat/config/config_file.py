"""Reading ``config.toml``.

Rules:
1. A missing file counts as an empty one.
2. An error names the file, the key in it, and what is expected there.
3. Names are checked against each other: groups and defaults must name speakers that can exist, and no speaker may have a
   name with another meaning (such as a role).
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError

#: Names that already have a meaning in a history or in a message.
TAKEN_NAMES: Final = frozenset({"user", "system", "tool", "assistant", "model", "all"})

_NAME: Final = re.compile(r"[^\W_][\w.-]*")
_UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`(?: - at `\$\.?(.*)`)?")
_PLACE: Final = re.compile(r" - at `(key in )?\$\.?(.*)`")


def read_settings(path: Path) -> Settings:
    """The settings in a file.

    Raises:
        UsageError: They cannot be read or make no sense.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read: {_reason(error)}") from error
    return parse_settings(text, str(path))


def parse_settings(text: str, name: str = "config.toml") -> Settings:
    """The settings in a text; errors refer to it as ``name``.

    Raises:
        UsageError: They cannot be read or make no sense.
    """
    try:
        content = tomllib.loads(text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is not valid TOML: {error}") from error
    _rename_others(content)
    try:
        settings = msgspec.convert(content, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {_error_text(str(error), content)}") from error
    problem = next(iter(_contradictions(settings)), None)
    if problem:
        raise UsageError(f"{name}: {problem}")
    return settings


def _rename_others(content: dict[str, Any]) -> None:
    """Move the setting ``others``, the earlier name, to ``foreign``."""
    speakers: Any = content.get("speakers")
    tables: list[Any] = [content, *(speakers.values() if isinstance(speakers, dict) else ())]
    for table in tables:
        if isinstance(table, dict) and "others" in table:
            named = cast("dict[str, Any]", table)
            named.setdefault("foreign", named.pop("others"))


def _contradictions(settings: Settings) -> Iterable[str]:
    yield from _name_problems((*settings.speakers, *settings.personas, *settings.groups))
    for name, persona in settings.personas.items():
        if persona.speaker.lower() in (each.lower() for each in settings.personas):
            yield f"the persona {name!r} needs a speaker, not another persona"
    for name, panel in settings.councils.items():
        if not _NAME.fullmatch(name):
            yield f"{name!r} cannot be addressed with @: use letters, digits, dots and dashes"
        if len(set(panel.members)) < 2:
            yield f"the council {name!r} needs two members or more"
    for group, members in settings.groups.items():
        if not members:
            yield f"the group {group!r} has no members"


def _name_problems(names: Sequence[str]) -> Iterable[str]:
    for name in names:
        if name.lower() in TAKEN_NAMES:
            yield f"a speaker cannot be called {name!r}: the word has a meaning of its own"
        if not _NAME.fullmatch(name):
            yield f"{name!r} cannot be addressed with @: use letters, digits, dots and dashes"
    folded = [name.lower() for name in names]
    for name in folded:
        if folded.count(name) > 1:
            yield f"{name!r} is the name of two speakers, personas or groups; names are the same in any case"


def _error_text(message: str, content: dict[str, Any]) -> str:
    unknown = _UNKNOWN.search(message)
    if unknown:
        place = unknown[2] or ""
        known = _known_at(place)
        close = difflib.get_close_matches(unknown[1], known, 1)
        where = f" in [{_dotted(place, content)}]" if place else ""
        advice = f"; did you mean {close[0]!r}?" if close else f"; known are: {', '.join(known)}"
        return f"{unknown[1]!r} is no setting{where}{advice}"
    place = _PLACE.search(message)
    text = _PLACE.sub("", message).replace("`", "'")
    text = text[:1].lower() + text[1:]
    return f"{_dotted(place[2], content)}: {text}" if place and place[2] else text


def _dotted(place: str, content: dict[str, Any]) -> str:
    """The path of a setting as it is written in the file; a ``[...]`` in it stands for a key that is looked up in the content."""
    head, wild, tail = place.partition("[...]")
    table: Any = content.get(head, {})
    if not wild or not isinstance(table, dict) or len(cast("dict[str, Any]", table)) != 1:
        return place.replace("[...]", ".*")
    return f"{head}.{next(iter(cast('dict[str, Any]', table)))}{tail}"


def _known_at(place: str) -> list[str]:
    """The names of the settings in a table."""
    shape: Any = Settings
    for step in re.findall(r"\[\.\.\.\]|\w+", place):
        shape = _inner(shape, step)
    return list(getattr(shape, "__struct_fields__", ()))


def _inner(shape: Any, step: str) -> Any:
    if step == "[...]":
        return shape.__args__[1]
    field = next((each for each in msgspec.structs.fields(shape) if each.name == step), None)
    return field.type if field else None


def _reason(error: OSError | UnicodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8 text"
