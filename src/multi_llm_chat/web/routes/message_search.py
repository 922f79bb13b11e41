"""The search for messages in all chats."""

import time

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from multi_llm_chat.store import Hit, search
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.templating import day_of
from multi_llm_chat.web.views import hue_of

#: How many hits a search returns.
MOST_HITS = 30
#: How many pages of hits are read for a search with a filter.
MOST_PAGES_OF_HITS = 20


class SearchHit(Struct, frozen=True):
    """A hit, its day, its speaker's hue, and its snippet in marked and unmarked pieces."""

    hit: Hit
    day: str
    hue: int
    pieces: tuple[tuple[str, bool], ...]


class HitFilter(Struct, frozen=True):
    """Which hits a search returns: of an author, since a moment, and of archived chats too."""

    author: str = ""
    since_ms: int = 0
    archived: bool = False

    def takes(self, hit: Hit) -> bool:
        """Whether a hit is one of them."""
        return hit.created_ms >= self.since_ms and self.author in ("", hit.author)


async def _search(context: RequestContext, words: str, wanted: HitFilter) -> list[Hit]:
    """The newest hits that the filter takes, of the newest ``MOST_PAGES_OF_HITS`` pages."""
    found: list[Hit] = []
    before: int | None = None
    for _ in range(MOST_PAGES_OF_HITS):
        hits = await context.store.arun(
            search, words, archived=wanted.archived, limit=MOST_HITS, before=before
        )
        found += filter(wanted.takes, hits)
        # The newest come first: after one that is too old there are only older ones.
        if (
            len(hits) < MOST_HITS
            or len(found) >= MOST_HITS
            or hits[-1].created_ms < wanted.since_ms
        ):
            break
        before = hits[-1].number
    return found[:MOST_HITS]


async def find(request: Request) -> Response:
    """Search for messages that contain all words."""
    context = RequestContext(request)
    query = request.query_params
    words = query.get("words", "")[:500]
    days = query.get("days", "")
    wanted = HitFilter(
        query.get("from", ""),
        int((time.time() - int(days) * 86_400) * 1000) if days.isdecimal() else 0,
        archived=query.get("archived", "") == "1",
    )
    hits = await _search(context, words, wanted) if words.strip() else []
    # An answer may be on several branches (another one was regenerated); it is shown once.
    distinct: dict[tuple[str, str, str], Hit] = {}
    for hit in hits:
        distinct.setdefault((hit.conversation, hit.author, hit.snippet), hit)
    speakers = context.hub.workspace.speakers
    groups: dict[str, tuple[str, list[SearchHit]]] = {}
    for hit in distinct.values():
        shown = SearchHit(
            hit, day_of(hit.created_ms), hue_of(hit.author, speakers), _split_snippet(hit)
        )
        groups.setdefault(hit.conversation, (hit.title, []))[1].append(shown)
    count = sum(len(found) for _, found in groups.values())
    return HTMLResponse(
        context.renderer.render("hits.html", found=list(groups.values()), count=count)
    )


def _split_snippet(hit: Hit) -> tuple[tuple[str, bool], ...]:
    pieces: list[tuple[str, bool]] = []
    at = 0
    for begin, end in hit.marks:
        if begin >= at:
            pieces += [(hit.snippet[at:begin], False), (hit.snippet[begin:end], True)]
            at = end
    return (*pieces, (hit.snippet[at:], False))
