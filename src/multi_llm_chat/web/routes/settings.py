"""The settings dialog: speakers, keys, groups and the default speaker.

Keys are write-only: a page shows where a key is stored and its last characters.
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
from multi_llm_chat.web.routes.request_context import THEMES, RequestContext, list_sessions
from multi_llm_chat.web.templating import LANGUAGES

#: Providers without a row in the table of providers.
_WITHOUT_ROW = ("local", "simulated")


async def panel(request: Request) -> Response:
    """The settings dialog."""
    context = RequestContext(request)
    workspace = context.hub.workspace
    rows = {
        row.key_variable: row
        for row in reversed(ROWS.values())
        if row.key_variable and row.name != "openai-chat"
    }
    keys = [
        (variable, row.name, workspace.keys.find_first(row.key_variables))
        for variable, row in reversed(rows.items())
    ]
    html = context.renderer.render(
        "settings.html",
        settings=workspace.settings,
        speakers=workspace.settings.speakers,
        people=context.hub.list_speakers(),
        providers=[*sorted(ROWS), *_WITHOUT_ROW],
        keys=keys,
        languages=LANGUAGES,
        language=context.translations.language,
        themes={theme: context.translations.text(f"theme_{theme}") for theme in THEMES},
        theme=context.theme,
        is_admin=context.access.is_admin(context.user),
        browsers=[] if context.access.proxy else list_sessions(context),
        options=_as_json,
    )
    return HTMLResponse(html)


def _as_json(options: dict[str, Any]) -> str:
    return msgspec.json.encode(options).decode() if options else ""


class SpeakerForm(Struct):
    """The form of a speaker; empty fields are not set."""

    name: str
    provider: str = ""
    model: str = ""
    base_url: str = ""
    system_prompt: str = ""
    options: str = ""
    remove: bool = False


async def speaker(request: Request) -> Response:
    """Add, change or remove a speaker."""
    context = RequestContext(request)
    form = await context.read_body(SpeakerForm)

    def change(document: Any, _settings: Settings) -> None:
        speakers = document.setdefault("speakers", {})
        if form.remove:
            speakers.pop(form.name, None)
            return
        entry = speakers.setdefault(form.name, {})
        # A chain of providers is shown as one text; it stays unless another provider is chosen.
        if not isinstance(entry.get("provider"), str) and _chain(entry) == form.provider:
            form.provider = ""
        else:
            entry["provider"] = _provider(form.provider.strip(), entry.get("provider"))
        for field in ("model", "base_url", "system_prompt"):
            value = getattr(form, field).strip()
            if value:
                entry[field] = value
            else:
                entry.pop(field, None)
        entry.pop("options", None)
        if form.options.strip():
            entry["options"] = _options(form.options)

    return _apply(context, change)


def _provider(name: str, before: object) -> str:
    """The chosen provider; a page cannot make the server import code that its configuration does not name."""
    if ":" in name and name != before:
        raise UsageError("A provider that is given by its path is set in the configuration file")
    return name


def _chain(entry: Any) -> str:
    return " → ".join(map(str, entry.get("provider") or ()))


def _options(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"The options are not a JSON object: {error}") from error


class GeneralForm(Struct):
    """Settings of all conversations; ``groups`` has one line for each: ``name: member, member``."""

    default_speaker: str = ""
    system_prompt: str = ""
    groups: str = ""


async def general(request: Request) -> Response:
    """Change the settings of all conversations."""
    context = RequestContext(request)
    form = await context.read_body(GeneralForm)

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

    return _apply(context, change)


def _group(line: str) -> tuple[str, list[str]]:
    name, colon, members = line.partition(":")
    if not colon:
        raise UsageError(f"Write a group as: name: member, member (not: {line})")
    return name.strip(), [member.strip() for member in members.split(",") if member.strip()]


def _apply(context: RequestContext, change: Any) -> Response:
    context.require_admin()
    change_settings(context.hub.workspace.folders, change)
    context.hub.reload()
    return JSONResponse({})


class KeyForm(Struct):
    """A key to store; without a value it is removed."""

    variable: str
    value: str = ""


async def key(request: Request) -> Response:
    """Store or remove a key."""
    context = RequestContext(request)
    context.require_admin()
    form = await context.read_body(KeyForm)
    if form.variable not in {row.key_variable for row in ROWS.values()}:
        raise UsageError("No provider uses a key with that name")
    if form.value.strip():
        context.hub.workspace.keys.set(form.variable, form.value)
    else:
        context.hub.workspace.keys.remove(form.variable)
    context.hub.reload()
    return JSONResponse({})
