"""Pages, the fragments that are reloaded, the stream of changes, signing in, and probes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from multi_llm_chat.chat.branch import new_id, plain_title
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import as_list
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.runs.health import answer as answer_probe
from multi_llm_chat.store import (
    LOCAL_USER,
    Listing,
    Summary,
    Total,
    get,
    list_conversations,
    total,
)
from multi_llm_chat.store.conversations import Which
from multi_llm_chat.web.components import render_components
from multi_llm_chat.web.guard import COOKIE, DEVICE_COOKIE, read_cookie, sign_in
from multi_llm_chat.web.history_view import format_money
from multi_llm_chat.web.hub import ADDRESSEES
from multi_llm_chat.web.model_catalogue import estimate_cost
from multi_llm_chat.web.routes.chat_settings import chosen_models, describe_parameters
from multi_llm_chat.web.routes.request_context import THEMES, VIEWS, RequestContext, list_sessions
from multi_llm_chat.web.templating import LANGUAGES, day_of
from multi_llm_chat.web.views import PageSnapshot, hue_of

if TYPE_CHECKING:
    from multi_llm_chat.web.live_conversation import LiveConversation

#: How many conversations the list shows at first.
CONVERSATIONS_PER_PAGE = 60


async def new_page(request: Request) -> Response:
    """The page of a new conversation."""
    context = RequestContext(request)
    identifier = new_id()
    live = context.hub.open_conversation(context.user, identifier, is_new=True)
    newest = await context.store.arun(list_conversations, limit=1)
    own = newest.conversations[0].settings if newest.conversations else {}
    return await _page(context, identifier, live, "", own)


async def conversation_page(request: Request) -> Response:
    """The page of a conversation."""
    context = RequestContext(request)
    try:
        summary = await context.store.arun(get, context.conversation)
    except StoreError as error:
        if error.reason == "missing":
            return RedirectResponse("/?gone", 303)
        raise
    live = await context.open_conversation()
    return await _page(context, context.conversation, live, summary.title, summary.settings)


async def _page(
    context: RequestContext,
    conversation: str,
    live: "LiveConversation",
    title: str,
    own: JsonObject,
) -> Response:
    snapshot = await live.snapshot()
    listing = await context.store.arun(list_conversations, limit=CONVERSATIONS_PER_PAGE)
    spent = await _total(context, conversation) if title else Total()
    hub = context.hub
    addressed = hub.addressees(own)
    chosen = chosen_models(live.service.own_settings)
    tools = hub.servers.groups()
    html = await asyncio.to_thread(
        context.renderer.render,
        "page.html",
        conversation=conversation,
        title=plain_title(title),
        snapshot=snapshot,
        **_list_values(context, listing, "open"),
        people=hub.list_speakers(addressed, chosen),
        parameters=describe_parameters(context, live.service.own_settings),
        groups=hub.workspace.settings.groups,
        price=estimate_text(context, live, addressed, chosen),
        tools=tools,
        tool_count=sum(group.enabled for group in tools),
        view=context.view,
        user_name=context.translations.text("this_computer")
        if context.user == LOCAL_USER
        else context.user,
        user_note=context.translations.text("kept_here"),
        problems=hub.workspace.problems,
        spent=format_total(context, spent),
        form_token=context.form_token,
        theme=context.theme,
        languages=LANGUAGES,
        is_admin=context.access.is_admin(context.user),
        notices=_notices(context),
    )
    return HTMLResponse(html)


def _notices(context: RequestContext) -> list[str]:
    """A notice about the embedded model, if it is the only speaker; in the reader's language, without variables and commands."""
    speakers = context.hub.workspace.speakers
    if tuple(speakers) != ("local",):
        return []
    try:
        notice: Any = getattr(speakers["local"].provider, "notice", "")
    except (ValueError, OSError):
        return []
    return [context.translations.text("small_model")] if notice else []


async def view(request: Request) -> Response:
    """The newest messages of a conversation, or those around a turn."""
    context = RequestContext(request)
    live = await context.open_conversation()
    around = request.query_params.get("around")
    snapshot = await live.snapshot(around=around)
    if not snapshot.is_found:
        return JSONResponse({"error": context.translations.text("on_another_branch")}, 409)
    title = await _title(context)
    spent = await _total(context, context.conversation) if title is not None else Total()
    return JSONResponse(
        {
            "html": await asyncio.to_thread(_messages, context, snapshot),
            "questions": "".join(map(context.renderer.html, snapshot.forms)),
            "outbox": context.renderer.html(snapshot.outbox),
            "position": snapshot.position,
            "busy": snapshot.is_busy,
            "later": snapshot.has_later,
            "title": title or "",
            "total": format_total(context, spent),
        }
    )


async def spent_total(request: Request) -> Response:
    """The tokens and the cost of the conversation so far."""
    context = RequestContext(request)
    return JSONResponse(
        {"total": format_total(context, await _total(context, context.conversation))}
    )


async def earlier(request: Request) -> Response:
    """The exchanges before one, or after one."""
    context = RequestContext(request)
    before, after = request.query_params.get("before"), request.query_params.get("after")
    snapshot = await (await context.open_conversation()).snapshot(before=before, after=after)
    html = await asyncio.to_thread(
        _messages, context, snapshot, has_earlier=after is None, has_later=before is None
    )
    return JSONResponse({"html": html, "later": snapshot.has_later})


def _messages(
    context: RequestContext,
    snapshot: PageSnapshot,
    *,
    has_earlier: bool = True,
    has_later: bool = True,
) -> str:
    """The exchanges, with buttons to load those that are not shown."""
    html = context.renderer.exchanges(snapshot.exchanges)
    if snapshot.has_more and has_earlier and snapshot.exchanges:
        html = context.renderer.render("earlier.html", first=snapshot.exchanges[0].id) + html
    if snapshot.has_later and has_later and snapshot.exchanges:
        html += context.renderer.render("later.html", last=snapshot.exchanges[-1].id)
    return html


async def source(request: Request) -> Response:
    """The Markdown of an answer or a message."""
    context = RequestContext(request)
    live = await context.open_conversation()
    text = await live.reader.source(request.query_params.get("turn", ""))
    if text is None:
        return JSONResponse({"error": context.translations.text("on_another_branch")}, 404)
    return JSONResponse({"text": text})


async def estimate(request: Request) -> Response:
    """The estimated cost of the next message to these speakers."""
    context = RequestContext(request)
    live = await context.open_conversation()
    known = (*live.service.names, *context.hub.workspace.speakers.further)
    names = [name for name in request.query_params.getlist("to") if name in known]
    models = chosen_models(live.service.own_settings)
    if model := request.query_params.get("model", ""):
        models |= dict.fromkeys(names, model)
    return JSONResponse({"text": estimate_text(context, live, names, models)})


def estimate_text(
    context: RequestContext,
    live: "LiveConversation",
    names: Sequence[str],
    models: Mapping[str, str],
) -> str:
    """The estimated cost of the next message as text; empty if unknown."""
    translations = context.translations
    service = live.service
    turns, before = service.turns, service.tokens_before
    found = estimate_cost(context.hub.workspace, turns, names, models, tokens_before=before)
    if found.is_free:
        return translations.text("costs_nothing")
    if found.cost is None:
        return ""
    key = "costs_at_least" if found.is_at_least else "costs_about"
    return translations.text(key).replace("{cost}", format_money(found.cost, digits=3))


async def events(request: Request) -> Response:
    """Stream the changes after the position of the page."""
    context = RequestContext(request)
    live = await context.open_conversation()
    position = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return StreamingResponse(
        live.log.stream(position, context.renderer),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _title(context: RequestContext) -> str | None:
    try:
        return plain_title((await context.store.arun(get, context.conversation)).title)
    except StoreError:
        return None


async def _total(context: RequestContext, conversation: str) -> Total:
    try:
        return await context.store.arun(total, conversation)
    except StoreError:
        return Total()


def format_total(context: RequestContext, spent: Total) -> str:
    """Format the tokens and the cost of a conversation."""
    tokens = spent.tokens.input_tokens + spent.tokens.output_tokens
    if not tokens:
        return ""
    shown = f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
    cost = spent.costs.get("USD")
    sign = "≥ " if spent.unknown_costs else ""
    price = f" · {sign}{format_money(cost)}" if cost is not None else ""
    return f"{shown} {context.translations.text('tokens_short')}{price}"


# The list of conversations.


def group_by_day(conversations: Iterable[Summary]) -> list[tuple[str, list[Summary]]]:
    """Group conversations by the day of their last message."""
    grouped = groupby(conversations, key=lambda each: day_of(each.changed_ms))
    return [(day, list(group)) for day, group in grouped]


async def sidebar(request: Request) -> Response:
    """The list of conversations, or its next page."""
    context = RequestContext(request)
    which: Which = "archived" if request.query_params.get("which") == "archived" else "open"
    after = _read_cursor(request.query_params.get("after", ""))
    listing: Listing = await context.store.arun(
        list_conversations, which=which, limit=CONVERSATIONS_PER_PAGE, after=after
    )
    current = request.query_params.get("current", "")
    values = _list_values(context, listing, which)
    return HTMLResponse(context.renderer.render("sidebar.html", conversation=current, **values))


def _list_values(context: RequestContext, listing: Listing, which: Which) -> dict[str, Any]:
    """What the template of the list needs."""
    speakers = context.hub.workspace.speakers

    def hues(summary: Summary) -> list[int]:
        """The hues of the speakers whom the conversation addressed last."""
        names = as_list(summary.settings.get(ADDRESSEES)) or ()
        return [hue_of(str(name), speakers) for name in names[:5]]

    return {
        "days": group_by_day(listing.conversations),
        "next_page": listing.after,
        "which": which,
        "waiting": context.hub.count_waiting(context.user),
        "hues": hues,
    }


def _read_cursor(text: str) -> tuple[int, int] | None:
    changed, _, key = text.partition(",")
    return (int(changed), int(key)) if changed.isdecimal() and key.isdecimal() else None


# Signing in and preferences.


async def login_page(request: Request) -> Response:
    """The page for signing in."""
    context = RequestContext(request)
    if context.user:
        return RedirectResponse("/", 303)
    return _login(context, "", 200)


async def login(request: Request) -> Response:
    """Check a password."""
    context = RequestContext(request)
    form = await request.form(max_files=0, max_fields=4)
    device = read_cookie(request.headers.get("cookie", ""), DEVICE_COOKIE)
    place = context.access.place_of(request.client.host if request.client else "", device)
    if context.access.wait(place):
        return _login(context, "wait", 429)
    if not await context.access.check_password(str(form.get("password", ""))[:1000], place):
        return _login(context, "wrong", 403)
    response = RedirectResponse("/", 303)
    sign_in(response, context.access, request.headers.get("user-agent", ""))
    return response


def _login(context: RequestContext, problem: str, status: int) -> Response:
    html = context.renderer.render(
        "login.html",
        problem=problem,
        by_password=context.access.password_hash is not None,
        by_proxy=context.access.proxy is not None,
        theme=context.theme,
        host=context.request.url.hostname or "",
    )
    return HTMLResponse(html, status)


async def logout(request: Request) -> Response:
    """Sign this browser out: its session ends."""
    context = RequestContext(request)
    cookie = read_cookie(request.headers.get("cookie", ""))
    context.access.end_session(context.user, context.access.session_id(cookie))
    response = JSONResponse({})
    response.delete_cookie(COOKIE)
    return response


async def sessions(request: Request) -> Response:
    """The browsers in which the user is signed in."""
    return JSONResponse({"sessions": list_sessions(RequestContext(request))})


class SessionToEnd(Struct):
    """The session that a user ends."""

    id: str


async def end_session(request: Request) -> Response:
    """Sign another browser of the user out."""
    context = RequestContext(request)
    body = await context.read_body(SessionToEnd)
    if not context.access.end_session(context.user, body.id):
        raise UsageError(context.translations.text("too_late"))
    return JSONResponse({})


async def new_link(request: Request) -> Response:
    """Make a link that signs in another browser, once."""
    context = RequestContext(request)
    context.require_admin()
    return JSONResponse({"link": f"{request.base_url}?token={context.access.new_link()}"})


class Preferences(Struct):
    """The preferences of a reader."""

    theme: str | None = None
    language: str | None = None
    view: str | None = None


async def preferences(request: Request) -> Response:
    """Store the preferences in this browser."""
    context = RequestContext(request)
    wanted = await context.read_body(Preferences)
    response = JSONResponse({})
    if wanted.theme in THEMES:
        response.set_cookie("mlc_theme", wanted.theme, max_age=10**8, samesite="strict")
    if wanted.view in VIEWS:
        response.set_cookie("mlc_view", wanted.view, max_age=10**8, samesite="strict")
    if wanted.language in LANGUAGES:
        response.set_cookie("mlc_language", wanted.language, max_age=10**8, samesite="strict")
    return response


async def health(request: Request) -> Response:
    """Whether the server responds."""
    del request
    return JSONResponse({"status": "ok"})


async def components(request: Request) -> Response:
    """The component page: every card in every state. The address names the theme and the language."""
    theme = request.query_params.get("theme", "")
    language = request.query_params.get("language", "")
    html = render_components(theme if theme in THEMES else THEMES[0], language)
    return HTMLResponse(html)


# Probes.


async def probe(request: Request) -> Response:
    """Liveness, readiness and metrics, as on the health port of a worker."""
    context = RequestContext(request)
    address = request.client.host if request.client else ""
    path = request.url.path
    if path == "/metrics" and not context.access.may_read_metrics(address, request.headers):
        return PlainTextResponse("send the token: Authorization: Bearer …\n", 401)
    status, text = await answer_probe(context.hub.workspace.store, path)
    return PlainTextResponse(text, status, media_type="text/plain; version=0.0.4")
