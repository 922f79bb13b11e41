"""Pages, the fragments that are reloaded, the stream of changes, signing in, and probes."""

from collections.abc import Iterable
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

from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.health import answer
from multi_llm_chat.store import (
    Hit,
    Listing,
    Summary,
    Total,
    get,
    list_conversations,
    search,
    total,
)
from multi_llm_chat.store.conversations import Which
from multi_llm_chat.web.guard import COOKIE, sign_in
from multi_llm_chat.web.history_view import money
from multi_llm_chat.web.routes.request_body import THEMES, Asking, asking
from multi_llm_chat.web.templating import LANGUAGES, day_of

if TYPE_CHECKING:
    from multi_llm_chat.web.live_conversation import Live, Picture

#: How many conversations a page lists at first, and how many hits.
LISTED = 60
HITS = 30


async def new_page(request: Request) -> Response:
    """An empty conversation."""
    told = asking(request)
    identifier = new_id()
    live = told.hub.live(told.user, identifier, is_new=True)
    return await _page(told, identifier, live, "")


async def conversation_page(request: Request) -> Response:
    """A conversation."""
    told = asking(request)
    try:
        summary = await told.store.arun(get, told.conversation)
    except StoreError as error:
        if error.reason == "missing":
            return RedirectResponse("/", 303)
        raise
    return await _page(told, told.conversation, await told.live(), summary.title)


async def _page(told: Asking, conversation: str, live: "Live", title: str) -> Response:
    picture = await live.picture()
    listing = await told.store.arun(list_conversations, limit=LISTED)
    spent = await _total(told, conversation) if title else Total()
    hub = told.hub
    html = told.drawing.draw(
        "page.html",
        conversation=conversation,
        title=title,
        picture=picture,
        days=days(listing.conversations),
        next_page=listing.after,
        which="open",
        people=hub.people(),
        groups=hub.workspace.settings.groups,
        tools=hub.servers.groups(),
        problems=hub.workspace.problems,
        spent=total_words(told, spent),
        form_token=told.form_token,
        theme=told.theme,
        languages=LANGUAGES,
        may_change=told.access.may_change(told.user),
        notices=_notices(told),
    )
    return HTMLResponse(html)


def _notices(told: Asking) -> list[str]:
    """What speakers want to be told wherever they speak."""
    speakers = told.hub.workspace.speakers
    if tuple(speakers) != ("local",):
        return []
    try:
        notice: Any = getattr(speakers["local"].provider, "notice", "")
    except (ValueError, OSError):
        return []
    return [notice] if notice else []


async def view(request: Request) -> Response:
    """The messages of a conversation as they are now."""
    told = asking(request)
    live = await told.live()
    picture = await live.picture()
    title = await _title(told)
    spent = await _total(told, told.conversation) if title is not None else Total()
    return JSONResponse(
        {
            "html": _messages(told, picture),
            "questions": "".join(map(told.drawing.html, picture.questions)),
            "position": picture.position,
            "busy": picture.busy,
            "title": title or "",
            "total": total_words(told, spent),
        }
    )


async def spent_total(request: Request) -> Response:
    """What the conversation took so far."""
    told = asking(request)
    return JSONResponse({"total": total_words(told, await _total(told, told.conversation))})


async def earlier(request: Request) -> Response:
    """The exchanges before one."""
    told = asking(request)
    picture = await (await told.live()).picture(before=request.query_params.get("before", ""))
    return JSONResponse({"html": _messages(told, picture)})


def _messages(told: Asking, picture: "Picture") -> str:
    earlier_button = (
        told.drawing.draw("earlier.html", first=picture.exchanges[0].id) if picture.more else ""
    )
    return earlier_button + told.drawing.exchanges(picture.exchanges)


async def events(request: Request) -> Response:
    """Everything that changes from now on, or from where the page was."""
    told = asking(request)
    live = await told.live()
    position = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return StreamingResponse(
        live.log.stream(position, told.drawing),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _title(told: Asking) -> str | None:
    try:
        return (await told.store.arun(get, told.conversation)).title
    except StoreError:
        return None


async def _total(told: Asking, conversation: str) -> Total:
    try:
        return await told.store.arun(total, conversation)
    except StoreError:
        return Total()


def total_words(told: Asking, spent: Total) -> str:
    """What a conversation took, in a few words."""
    tokens = spent.tokens.input_tokens + spent.tokens.output_tokens
    if not tokens:
        return ""
    shown = f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)
    cost = spent.costs.get("USD")
    sign = "≥ " if spent.unknown_costs else ""
    price = f" · {sign}{money(cost)}" if cost is not None else ""
    return f"{shown} {told.words.text('tokens_short')}{price}"


# The list of conversations.


def days(conversations: Iterable[Summary]) -> list[tuple[str, list[Summary]]]:
    """Conversations under the days on which something was last said in them."""
    grouped = groupby(conversations, key=lambda each: day_of(each.changed_ms))
    return [(day, list(group)) for day, group in grouped]


async def sidebar(request: Request) -> Response:
    """The list of conversations, or its next page."""
    told = asking(request)
    which: Which = "archived" if request.query_params.get("which") == "archived" else "open"
    after = _after(request.query_params.get("after", ""))
    listing: Listing = await told.store.arun(
        list_conversations, which=which, limit=LISTED, after=after
    )
    html = told.drawing.draw(
        "sidebar.html",
        days=days(listing.conversations),
        next_page=listing.after,
        conversation=request.query_params.get("current", ""),
        which=which,
    )
    return HTMLResponse(html)


def _after(text: str) -> tuple[int, int] | None:
    changed, _, key = text.partition(",")
    return (int(changed), int(key)) if changed.isdecimal() and key.isdecimal() else None


class Found(Struct, frozen=True):
    """A hit, its snippet in pieces: those that are marked and those between."""

    hit: Hit
    pieces: tuple[tuple[str, bool], ...]


async def find(request: Request) -> Response:
    """Messages that hold all the words."""
    told = asking(request)
    words = request.query_params.get("words", "")[:500]
    hits = await told.store.arun(search, words, archived=True, limit=HITS) if words.strip() else ()
    # An answer that stays when another is given again is on both branches; it is found once.
    once: dict[tuple[str, str, str], Hit] = {}
    for hit in hits:
        once.setdefault((hit.conversation, hit.author, hit.snippet), hit)
    found = [Found(hit, _pieces(hit)) for hit in once.values()]
    return HTMLResponse(told.drawing.draw("hits.html", found=found, words_sought=words))


def _pieces(hit: Hit) -> tuple[tuple[str, bool], ...]:
    pieces: list[tuple[str, bool]] = []
    at = 0
    for begin, end in hit.marks:
        if begin >= at:
            pieces += [(hit.snippet[at:begin], False), (hit.snippet[begin:end], True)]
            at = end
    return (*pieces, (hit.snippet[at:], False))


# Signing in, and taste.


async def login_page(request: Request) -> Response:
    """The page for signing in."""
    told = asking(request)
    if told.user:
        return RedirectResponse("/", 303)
    return _login(told, "", 200)


async def login(request: Request) -> Response:
    """Look at a password."""
    told = asking(request)
    form = await request.form(max_files=0, max_fields=4)
    if told.access.wait:
        return _login(told, "wait", 429)
    if not told.access.check_password(str(form.get("password", ""))[:1000]):
        return _login(told, "wrong", 403)
    response = RedirectResponse("/", 303)
    sign_in(response, told.access)
    return response


def _login(told: Asking, problem: str, status: int) -> Response:
    html = told.drawing.draw(
        "login.html",
        problem=problem,
        by_password=told.access.password_hash is not None,
        by_proxy=told.access.proxy is not None,
        theme=told.theme,
    )
    return HTMLResponse(html, status)


async def logout(request: Request) -> Response:
    """Forget this browser."""
    del request
    response = JSONResponse({})
    response.delete_cookie(COOKIE)
    return response


async def new_link(request: Request) -> Response:
    """A link that opens another browser, once."""
    told = asking(request)
    told.require_admin()
    return JSONResponse({"link": f"{request.base_url}?token={told.access.new_link()}"})


class Preferences(Struct):
    """What a reader likes."""

    theme: str | None = None
    language: str | None = None


async def preferences(request: Request) -> Response:
    """Keep what a reader likes, in this browser."""
    told = asking(request)
    wanted = await told.body(Preferences)
    response = JSONResponse({})
    if wanted.theme in THEMES:
        response.set_cookie("mlc_theme", wanted.theme, max_age=10**8, samesite="strict")
    if wanted.language in LANGUAGES:
        response.set_cookie("mlc_language", wanted.language, max_age=10**8, samesite="strict")
    return response


async def people(request: Request) -> Response:
    """Everybody who can be asked."""
    told = asking(request)
    return HTMLResponse(told.drawing.draw("people.html", people=told.hub.people()))


async def health(request: Request) -> Response:
    """A sign of life."""
    del request
    return JSONResponse({"status": "ok"})


# Probes.


async def probe(request: Request) -> Response:
    """Whether the server lives, whether it can work, and what it counts."""
    told = asking(request)
    address = request.client.host if request.client else ""
    path = request.url.path
    if path == "/metrics" and not told.access.tells_figures(address, request.headers):
        return PlainTextResponse("show the token: Authorization: Bearer …\n", 401)
    status, text = await answer(told.hub.workspace.store, path)
    return PlainTextResponse(text, status, media_type="text/plain; version=0.0.4")
