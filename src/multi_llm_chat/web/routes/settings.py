"""The settings: who speaks, with which keys, and who is asked first.

Keys go in and never come out: a page learns where one is and its last characters.
"""

from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.web.config_editor import change_settings
from multi_llm_chat.web.routes.request_body import THEMES, Asking, asking
from multi_llm_chat.web.templating import LANGUAGES

#: Providers without a row of their own.
_ELSEWHERE = ("local", "simulated")


async def panel(request: Request) -> Response:
    """The dialog."""
    told = asking(request)
    workspace = told.hub.workspace
    variables: dict[str, str] = {}
    for row in ROWS.values():
        if row.key_variable and row.name != "openai-chat":
            variables.setdefault(row.key_variable, row.name)
    found = {key.variable: key for key in workspace.keys.list(variables)}
    html = told.drawing.draw(
        "settings.html",
        settings=workspace.settings,
        speakers=workspace.settings.speakers,
        people=told.hub.people(),
        providers=[*sorted(ROWS), *_ELSEWHERE],
        keys=[(variable, name, found.get(variable)) for variable, name in variables.items()],
        languages=LANGUAGES,
        language=told.words.language,
        themes=THEMES,
        theme=told.theme,
        may_change=told.access.may_change(told.user),
        options=_as_json,
    )
    return HTMLResponse(html)


def _as_json(options: dict[str, Any]) -> str:
    return msgspec.json.encode(options).decode() if options else ""


class SpeakerForm(Struct):
    """A speaker as the form has it; empty fields are not set."""

    name: str
    provider: str = ""
    model: str = ""
    base_url: str = ""
    system_prompt: str = ""
    options: str = ""
    remove: bool = False


async def speaker(request: Request) -> Response:
    """Add, change or remove a speaker."""
    told = asking(request)
    form = await told.body(SpeakerForm)

    def change(document: Any, _settings: Settings) -> None:
        speakers = document.setdefault("speakers", {})
        if form.remove:
            speakers.pop(form.name, None)
            return
        entry = speakers.setdefault(form.name, {})
        for field in ("provider", "model", "base_url", "system_prompt"):
            value = getattr(form, field).strip()
            if value:
                entry[field] = value
            else:
                entry.pop(field, None)
        entry.pop("options", None)
        if form.options.strip():
            entry["options"] = _options(form.options)

    return _changed(told, change)


def _options(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"The options are not a JSON object: {error}") from error


class GeneralForm(Struct):
    """What holds for all conversations; ``groups`` has one line each: ``name: member, member``."""

    default_speaker: str = ""
    system_prompt: str = ""
    groups: str = ""


async def general(request: Request) -> Response:
    """Change what holds for all conversations."""
    told = asking(request)
    form = await told.body(GeneralForm)

    def change(document: Any, _settings: Settings) -> None:
        for field in ("default_speaker", "system_prompt"):
            value = getattr(form, field).strip()
            if value:
                document[field] = value
            else:
                document.pop(field, None)
        document.pop("groups", None)
        if form.groups.strip():
            document["groups"] = dict(map(_group, form.groups.strip().splitlines()))

    return _changed(told, change)


def _group(line: str) -> tuple[str, list[str]]:
    name, colon, members = line.partition(":")
    if not colon:
        raise UsageError(f"A group is written so: name: member, member (not: {line})")
    return name.strip(), [member.strip() for member in members.split(",") if member.strip()]


def _changed(told: Asking, change: Any) -> Response:
    told.require_admin()
    change_settings(told.hub.workspace.folders, change)
    told.hub.reload()
    return JSONResponse({})


class KeyForm(Struct):
    """A key to keep; without a value it is forgotten."""

    variable: str
    value: str = ""


async def key(request: Request) -> Response:
    """Keep a key."""
    told = asking(request)
    told.require_admin()
    form = await told.body(KeyForm)
    if form.variable not in {row.key_variable for row in ROWS.values()}:
        raise UsageError("No provider has a key of that name")
    if form.value.strip():
        told.hub.workspace.keys.set(form.variable, form.value)
    else:
        told.hub.workspace.keys.remove(form.variable)
    told.hub.reload()
    return JSONResponse({})
