"""The settings: pages with addresses of their own, and the forms on them.

Rules:
1. All users have the pages for appearance, usage, data and the account; the others are for administrators.
2. Keys are write-only: a page shows where a key is stored and its last characters. A key is checked before it is saved. If the provider
   refuses it, it is not saved; if the provider cannot be reached, it is saved with a note.
3. A page cannot make the server import code that the configuration does not name already.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from multi_llm_chat.chat.council import COUNCIL_PREFIX
from multi_llm_chat.chat.speaker_names import speaker_settings
from multi_llm_chat.config.settings import Settings, SpeakerSettings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ROWS, ProviderRow
from multi_llm_chat.store import LOCAL_USER
from multi_llm_chat.web.config_editor import change_settings
from multi_llm_chat.web.model_catalogue import ProviderState, check_key
from multi_llm_chat.web.routes.request_context import THEMES, RequestContext, list_sessions
from multi_llm_chat.web.templating import LANGUAGES
from multi_llm_chat.web.views import hue_of, id_of

#: Providers without a row in the table of providers.
_WITHOUT_ROW: Final = ("local", "simulated")

#: The pages: the name in the address, the icon, and whether the page is for administrators.
PAGES: Final = (
    ("general", "settings", True),
    ("appearance", "palette", False),
    ("models", "key", True),
    ("personas", "people", True),
    ("tools", "plug", True),
    ("usage", "chart", False),
    ("data", "archive", False),
    ("account", "lock", False),
)

#: The separator between the providers of a chain.
ARROW: Final = " → "


async def first_page(request: Request) -> Response:
    """Redirect to the first page that the user may open."""
    context = RequestContext(request)
    name = "models" if context.access.is_admin(context.user) else "appearance"
    return RedirectResponse(f"/settings/{name}", 303)


def render_page(context: RequestContext, page: str, **values: Any) -> Response:
    """Render a page of the settings; a page for administrators only for them."""
    is_admin = context.access.is_admin(context.user)
    pages = [each for each in PAGES if is_admin or not each[2]]
    if page not in {name for name, _, _ in pages}:
        return RedirectResponse("/settings/appearance", 303)
    translations = context.translations
    hub = context.hub
    listings = [hub.catalogue.known(name) for name in hub.workspace.speakers]
    alarms = {
        "tools": any(state.state == "failed" for state in hub.servers.states()),
        "models": any(listing.is_refused for listing in listings if listing),
    }
    html = context.renderer.render(
        f"settings_{page}.html",
        page=page,
        pages=[(name, icon) for name, icon, _ in pages],
        alarms=alarms,
        form_token=context.form_token,
        theme=context.theme,
        user_name=translations.text("this_computer")
        if context.user == LOCAL_USER
        else context.user,
        is_admin=is_admin,
        settings=hub.workspace.settings,
        people=hub.list_speakers(),
        **values,
    )
    return HTMLResponse(html)


async def general_page(request: Request) -> Response:
    """Settings of all conversations."""
    return render_page(RequestContext(request), "general")


async def appearance_page(request: Request) -> Response:
    """Theme and language."""
    context = RequestContext(request)
    translations = context.translations
    return render_page(
        context,
        "appearance",
        languages=LANGUAGES,
        language=translations.language,
        themes={theme: translations.text(f"theme_{theme}") for theme in THEMES},
    )


async def data_page(request: Request) -> Response:
    """Import and export."""
    return render_page(RequestContext(request), "data")


async def account_page(request: Request) -> Response:
    """The browsers in which the user is signed in."""
    context = RequestContext(request)
    browsers = [] if context.access.proxy else list_sessions(context)
    return render_page(context, "account", browsers=browsers)


# Models and keys.


async def models_page(request: Request) -> Response:
    """Providers with their keys, and speakers with their models."""
    context = RequestContext(request)
    workspace = context.hub.workspace
    providers = _provider_states(context)
    return render_page(
        context,
        "models",
        providers=[each for each in providers if each.key or each.speakers],
        others=[each for each in providers if not (each.key or each.speakers)],
        speakers=speaker_settings(workspace.settings, workspace.keys),
        configured=workspace.settings.speakers,
        names=[*sorted(ROWS), *_WITHOUT_ROW],
        chain_of=chain_of,
        as_json=_as_json,
    )


def _provider_states(context: RequestContext) -> list[ProviderState]:
    workspace = context.hub.workspace
    speakers = speaker_settings(workspace.settings, workspace.keys)
    rows = {
        row.key_variable: row
        for row in reversed(ROWS.values())
        if row.key_variable and row.name != "openai-chat"
    }
    states: list[ProviderState] = []
    for row in reversed(rows.values()):
        using = tuple(name for name, each in speakers.items() if row.name in _providers(each))
        first = [name for name in using if _providers(speakers[name])[0] == row.name]
        known = [context.hub.catalogue.known(name) for name in first]
        states.append(
            ProviderState(
                row,
                workspace.keys.find_first(row.key_variables),
                using,
                next((each for each in known if each), None),
                hue_of(row.speaker, [*speakers]),
                next((each for name in using if (each := speakers[name].key)), ""),
            )
        )
    return states


def _providers(settings: SpeakerSettings) -> tuple[str, ...]:
    return (settings.provider,) if isinstance(settings.provider, str) else settings.provider


def chain_of(settings: SpeakerSettings | None) -> str:
    """The providers of a speaker as one text."""
    return ARROW.join(_providers(settings)) if settings else ""


def _as_json(options: Mapping[str, Any]) -> str:
    return msgspec.json.encode(options).decode() if options else ""


class KeyForm(Struct):
    """A key to store; without a value, the stored key is removed."""

    variable: str
    value: str = ""


async def key(request: Request) -> Response:
    """Check and store a key, or remove it."""
    context = RequestContext(request)
    context.require_admin()
    form = await context.read_body(KeyForm)
    row = next((row for row in ROWS.values() if row.key_variable == form.variable), None)
    if row is None:
        raise UsageError("No provider uses a key with that name")
    keys = context.hub.workspace.keys
    note = ""
    if form.value.strip():
        checked = await check_key(row.name, form.value.strip(), _address_of(context, row))
        if checked.is_refused or checked.error == "UsageError":
            words = context.translations.text("key_refused").replace("{name}", row.name)
            raise UsageError(f"{words} {checked.message}")
        keys.set(form.variable, form.value)
        if checked.error:
            words = context.translations.text("key_unchecked").replace("{name}", row.name)
            note = f"{words} {checked.message}"
    else:
        keys.remove(form.variable)
    context.hub.reload()
    if form.value.strip():
        await _list_models(context, row)
    return JSONResponse({"note": note})


def _address_of(context: RequestContext, row: ProviderRow) -> str | None:
    """The address at which the key is used: that of a speaker with the provider's usual key, else the provider's own."""
    speakers = context.hub.workspace.settings.speakers.values()
    found = (each.base_url for each in speakers if each.provider == row.name and each.key is None)
    return next((url for url in found if url), None)


class ProviderBody(Struct):
    """A provider."""

    provider: str


async def check(request: Request) -> Response:
    """Ask a provider for its models with the stored key."""
    context = RequestContext(request)
    context.require_admin()
    name = (await context.read_body(ProviderBody)).provider
    if name not in ROWS:
        raise UsageError("There is no such provider")
    await _list_models(context, ROWS[name])
    return JSONResponse({})


async def _list_models(context: RequestContext, row: ProviderRow) -> None:
    """Read the list of models for the speakers whose first provider this is."""
    workspace = context.hub.workspace
    for name, each in speaker_settings(workspace.settings, workspace.keys).items():
        if _providers(each)[0] == row.name:
            await context.hub.catalogue.listing(name, again=True)


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
        before = entry.get("provider")
        chain = [name.strip() for name in form.provider.split(ARROW.strip()) if name.strip()]
        _require_known(chain, [before] if isinstance(before, str) else before or ())
        if chain != ([before] if isinstance(before, str) else before):  # its comments stay
            entry["provider"] = chain[0] if len(chain) == 1 else chain
        _set(entry, form, ("model", "base_url", "system_prompt"))
        _set_options(entry, form.options)

    return _apply(context, change)


def _require_known(chain: list[str], before: Any) -> None:
    """Refuse providers given by their path, unless the configuration names them already."""
    if not chain:
        raise UsageError("Choose a provider")
    if any(":" in name and name not in before for name in chain):
        raise UsageError("A provider that is given by its path is set in the configuration file")


def _set(entry: Any, form: Struct, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(form, name).strip()
        if value:
            entry[name] = value
        else:
            entry.pop(name, None)


def _set_options(entry: Any, text: str) -> None:
    entry.pop("options", None)
    if text.strip():
        try:
            entry["options"] = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"The options are not a JSON object: {error}") from error


class GeneralForm(Struct):
    """Settings of all conversations."""

    default_speaker: str = ""
    system_prompt: str = ""


async def general(request: Request) -> Response:
    """Change the settings of all conversations."""
    context = RequestContext(request)
    form = await context.read_body(GeneralForm)

    def change(document: Any, _settings: Settings) -> None:
        _set(document, form, ("default_speaker", "system_prompt"))

    return _apply(context, change)


def _apply(context: RequestContext, change: Any) -> Response:
    context.require_admin()
    change_settings(context.hub.workspace.folders, change)
    context.hub.reload()
    return JSONResponse({})


# Personas, groups and councils.


async def personas_page(request: Request) -> Response:
    """Personas, groups and councils; the address may name the persona that is edited."""
    context = RequestContext(request)
    wanted = id_of(request.path_params.get("name", ""))
    settings = context.hub.workspace.settings
    shown = settings.personas.get(wanted)
    if wanted and shown is None:
        return RedirectResponse("/settings/personas", 303)
    return render_page(
        context,
        "personas",
        wanted=wanted,
        shown=shown,
        is_new="new" in request.query_params,
        speakers=[*context.hub.workspace.speakers],
        hues={each["name"]: each["hue"] for each in context.hub.list_speakers()},
        council_names=[f"{COUNCIL_PREFIX}{name}" for name in settings.councils],
    )


class PersonaForm(Struct):
    """The form of a persona; for empty fields, those of the speaker apply."""

    name: str
    speaker: str = ""
    model: str = ""
    system_prompt: str = ""
    thinking: str = ""
    temperature: str = ""
    max_tokens: str = ""
    tools: str = ""
    before: str = ""
    remove: bool = False


async def persona(request: Request) -> Response:
    """Add, change or remove a persona."""
    context = RequestContext(request)
    form = await context.read_body(PersonaForm)

    def change(document: Any, _settings: Settings) -> None:
        personas = document.setdefault("personas", {})
        kept = personas.pop(form.before, None) if form.before != form.name else None
        if form.remove:
            personas.pop(form.name, None)
            return
        if not form.before and form.name in personas:
            raise UsageError(f"There is a persona {form.name!r} already")
        entry = personas.setdefault(form.name, kept or {})
        _set(entry, form, ("speaker", "model", "system_prompt"))
        options = {**entry.pop("options", {})} | read_parameters(form)
        options = {name: value for name, value in options.items() if value is not None}
        if options:
            entry["options"] = options
        entry.pop("tools", None)
        if form.tools in ("on", "off"):
            entry["tools"] = form.tools == "on"

    return _apply(context, change)


def read_parameters(form: Any) -> JsonObject:
    """Temperature, longest answer and thinking of a form; None for those that are not set.

    Raises:
        UsageError: One of them is not a number, or out of range.
    """
    return {
        "temperature": _number(form.temperature, 0, 2),
        "max_tokens": None if (most := _number(form.max_tokens, 1, 10**6)) is None else int(most),
        "thinking": {"": None, "off": False}.get(form.thinking, form.thinking),
    }


def _number(text: str, least: float, most: float) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number") from None
    if not least <= value <= most:
        raise UsageError(f"{text} is not between {least:g} and {most:g}")
    return value


class GroupForm(Struct):
    """A group or a council; ``chair`` writes a council's verdict."""

    kind: str
    name: str
    members: list[str] = field(default_factory=list)
    chair: str = ""
    before: str = ""
    remove: bool = False


async def group(request: Request) -> Response:
    """Add, change or remove a group or a council."""
    context = RequestContext(request)
    form = await context.read_body(GroupForm)
    if form.kind not in ("groups", "councils"):
        raise UsageError("The kind is groups or councils")

    def change(document: Any, _settings: Settings) -> None:
        table = document.setdefault(form.kind, {})
        table.pop(form.before or form.name, None)
        if form.remove:
            return
        if form.kind == "groups":
            table[form.name] = form.members
            return
        chair = {"chair": form.chair} if form.chair else {}
        table[form.name] = {"members": form.members, **chair}

    return _apply(context, change)
