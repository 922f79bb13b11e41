"""The settings of one chat: its models, instructions and parameters; and the list of available models.

Rules:
1. A choice is a setting of the conversation (``ChatService.configure``): it is saved with the conversation and applies from the next answer
   on. A running answer keeps its settings.
2. A speaker uses models of its own provider only.
"""

from decimal import Decimal
from typing import Any, Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.web.model_catalogue import ModelEntry
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.routes.settings import read_parameters

#: Providers that run on the user's own machine.
_THIS_MACHINE: Final = frozenset({"local", "ollama", "llamacpp", "lmstudio", "vllm", "simulated"})

#: The most characters of a chat's own instructions.
LONGEST_PROMPT: Final = 100_000


def chosen_models(own: JsonObject) -> dict[str, str]:
    """The models that a chat has chosen, by speaker."""
    found = as_object(own.get("models")) or {}
    return {name: model for name, model in found.items() if isinstance(model, str)}


async def people(request: Request) -> Response:
    """The speakers, which of them are addressed, and the models that the chat has chosen for them."""
    context = RequestContext(request)
    own = (await context.open_conversation()).service.own_settings
    names = request.query_params.getlist("to")
    speakers = context.hub.list_speakers(names, chosen_models(own))
    return HTMLResponse(context.renderer.render("people.html", people=speakers))


async def models(request: Request) -> Response:
    """The models of all speakers, and the providers that returned no list."""
    context = RequestContext(request)
    found = await context.hub.catalogue.models()
    listings = {name: context.hub.catalogue.known(name) for name in context.hub.workspace.speakers}
    problems = {
        name: listing.message for name, listing in listings.items() if listing and listing.error
    }
    return JSONResponse({"models": list(map(_view, found)), "problems": problems})


def _view(entry: ModelEntry) -> JsonObject:
    return {
        "id": entry.id,
        "name": entry.name,
        "speaker": entry.speaker,
        "provider": entry.provider,
        "hue": entry.hue,
        "window": entry.window,
        "input": _dollars(entry.input),
        "output": _dollars(entry.output),
        "free": entry.is_free,
        "can": sorted(entry.abilities),
        "local": entry.provider in _THIS_MACHINE,
    }


def _dollars(price: Decimal | None) -> str | None:
    """A price for a million tokens, without insignificant digits."""
    if price is None:
        return None
    return f"${price:.0f}" if price == int(price) else f"${price.normalize():.4g}" if price < Decimal("0.1") else f"${price:.2f}"  # fmt: skip


class ChosenModel(Struct):
    """The model that a speaker uses in this chat; an empty one is the speaker's own."""

    speaker: str
    model: str = ""


async def choose_model(request: Request) -> Response:
    """Choose a speaker's model for this chat."""
    context = RequestContext(request)
    live = await context.open_conversation()
    wanted = await context.read_body(ChosenModel)
    name = live.service.known_speaker(wanted.speaker)
    if len(wanted.model) > 300:
        raise UsageError("The name of the model is too long")
    chosen = chosen_models(live.service.own_settings)
    chosen.pop(name, None)
    if wanted.model:
        chosen[name] = wanted.model
    await live.service.aconfigure(models=chosen or None)
    live.log.publish({"op": "people"})
    return JSONResponse({})


# Instructions and parameters.


class ParametersForm(Struct):
    """The chat's own instructions and parameters; for empty fields, those of the speakers apply."""

    system_prompt: str = ""
    temperature: str = ""
    max_tokens: str = ""
    thinking: str = ""


async def parameters(request: Request) -> Response:
    """The form of the chat's instructions and parameters."""
    context = RequestContext(request)
    own = (await context.open_conversation()).service.own_settings
    return HTMLResponse(
        context.renderer.render(
            "parameters.html",
            prompt=own.get("system_prompt") or "",
            options=as_object(own.get("options")) or {},
        )
    )


async def set_parameters(request: Request) -> Response:
    """Set the chat's instructions and parameters."""
    context = RequestContext(request)
    live = await context.open_conversation()
    form = await context.read_body(ParametersForm)
    service = live.service
    merged: JsonObject = {**(as_object(service.own_settings.get("options")) or {})}
    merged |= read_parameters(form)
    options = {name: value for name, value in merged.items() if value is not None}
    prompt = form.system_prompt.strip()[:LONGEST_PROMPT]
    await service.aconfigure(system_prompt=prompt or None, options=options or None)
    return JSONResponse({"text": describe_parameters(context, service.own_settings)})


def describe_parameters(context: RequestContext, own: JsonObject) -> str:
    """The chat's own parameters in a few words; empty if it has none."""
    text = context.translations.text
    options: dict[str, Any] = as_object(own.get("options")) or {}
    thinking = options.get("thinking")
    words = [
        text("has_instructions") if own.get("system_prompt") else "",
        text("effort_off") if thinking is False else "",
        context.translations.get(f"effort_{thinking}") if isinstance(thinking, str) else "",
        f"T {options['temperature']:g}" if "temperature" in options else "",
        f"≤ {options['max_tokens']:,}" if "max_tokens" in options else "",
    ]
    return " · ".join(filter(None, words))
