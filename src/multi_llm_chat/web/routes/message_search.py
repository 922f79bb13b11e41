"""The search for messages in all chats, and the preview of a hit.

Rules:
1. A hit is shown with its context: the question of an answer, or the newest answer to a question. It may be on any branch.
2. The context is text only: no tools, no artifacts, no actions.
"""

import asyncio
import time

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from multi_llm_chat.chat.branch import typed
from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Hit, Transaction, children, get, get_turn, page, reading, search
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.templating import day_of
from multi_llm_chat.web.views import hue_of, truncate

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
        """Whether the filter accepts a hit."""
        return hit.created_ms >= self.since_ms and self.author in ("", hit.author)


async def _search(context: RequestContext, words: str, wanted: HitFilter) -> list[Hit]:
    """The newest hits that the filter accepts, among the newest ``MOST_PAGES_OF_HITS`` pages."""
    found: list[Hit] = []
    before: int | None = None
    for _ in range(MOST_PAGES_OF_HITS):
        hits = await context.store.arun(
            search, words, archived=wanted.archived, limit=MOST_HITS, before=before
        )
        found += filter(wanted.takes, hits)
        # Hits are newest first: after one that is too old there are only older ones.
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


# The context of a hit.

#: How many turns before an answer are searched for its question: tools and other speakers may be between them.
_FURTHEST = 40


class Surroundings(Struct, frozen=True):
    """A hit with its context: a question, an answer, or both."""

    title: str
    question: Turn | None
    answer: Turn | None


@reading
def read_surroundings(transaction: Transaction, conversation: str, turn: str) -> Surroundings:
    """The question and the answer that a turn belongs to."""
    title = get(transaction, conversation).title
    hit = get_turn(transaction, conversation, turn).turn
    if hit.role == "user":
        newest = next(iter(reversed(children(transaction, conversation, turn))), None)
        answer = None if newest is None else get_turn(transaction, conversation, newest).turn
        is_answer = answer is not None and answer.role not in ("user", "tool", "system")
        return Surroundings(title, hit, answer if is_answer else None)
    above = page(transaction, conversation, before=turn, limit=_FURTHEST).turns
    asked = (each.turn for each in reversed(above) if each.turn.role == "user")
    return Surroundings(title, next(asked, None), hit)


async def preview(request: Request) -> Response:
    """The preview of a hit."""
    context = RequestContext(request)
    turn = request.query_params.get("turn", "")
    try:
        found = await context.store.arun(read_surroundings, context.conversation, turn)
    except StoreError:
        return HTMLResponse("", 404)
    question, answer = found.question, found.answer
    html = await asyncio.to_thread(
        lambda: context.renderer.render(
            "preview.html",
            title=found.title,
            conversation=context.conversation,
            turn=turn,
            question="" if question is None else render_markdown(truncate(typed(question))),
            answer=answer,
            answer_html="" if answer is None else render_markdown(truncate(_words(answer))),
            hue=0 if answer is None else hue_of(answer.role, context.hub.workspace.speakers),
        )
    )
    return HTMLResponse(html)


def _words(turn: Turn) -> str:
    return "\n\n".join(part.content for part in turn.parts if isinstance(part, Text))
