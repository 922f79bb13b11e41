"""Actions in a conversation and on it; files in and out.

Rules:
1. The bytes decide the type of an uploaded file, not its name or what the browser says.
2. Pictures, PDF and text are accepted; everything else is refused with a list of what is accepted.
3. A file that a browser might run is only ever offered for saving.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from msgspec import Struct, field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from multi_llm_chat.archive.text_export import Format
from multi_llm_chat.chat.transfer import export_conversations, import_conversations
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.result_parts import split_result
from multi_llm_chat.history.values import JsonObject, Media, ToolResult
from multi_llm_chat.store import archive, delete, get_turn, rename, undelete
from multi_llm_chat.web.routes.request_body import Asking, asking
from multi_llm_chat.web.tool_questions import DECISIONS
from multi_llm_chat.web.views import PICTURES, Phrase, id_of

# Uploads.

#: Bytes of one file.
LARGEST: Final = 20_000_000

_BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def checked_upload(data: bytes, name: str, told: str) -> Media:
    """The file as a part of a message.

    Raises:
        UsageError: It is too large, or of a kind that no model reads.
    """
    shown = " ".join(name.split())[:120] or "file"
    if len(data) > LARGEST:
        raise UsageError(f"{shown} is larger than {LARGEST // 1_000_000} MB")
    mime = _kind(data)
    if mime is None:
        raise UsageError(
            f"{shown} cannot be sent: pictures (PNG, JPEG, GIF, WebP), PDF and text can"
        )
    if mime == "text/plain" and told.startswith("text/"):
        mime = told.partition(";")[0].strip()
        mime = mime if mime in ("text/csv", "text/markdown") else "text/plain"
    return Media(mime, base64.b64encode(data).decode(), name=shown)


def _kind(data: bytes) -> str | None:
    for beginning, mime in _BEGINNINGS:
        if data.startswith(beginning):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"\x00" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return "text/plain"


# Messages and actions.

#: How many files may go with a message.
MOST_FILES: Final = 10


async def say(request: Request) -> Response:
    """A message, with its files."""
    told = asking(request)
    async with request.form(max_files=MOST_FILES, max_fields=20, max_part_size=2_000_000) as form:
        text = str(form.get("text", ""))
        names = [str(name) for name in form.getlist("to")]
        files = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
        media = [
            checked_upload(await each.read(), each.filename or "", each.content_type or "")
            for each in files
        ]
    live = await told.live()
    if starting := told.hub.servers.starting():
        live.log.publish({"op": "notice", "text": Phrase("servers_starting", ", ".join(starting))})
    await live.say(text, media, names or None)
    return JSONResponse({})


class Order(Struct):
    """What a button asks for."""

    turn: str = ""
    text: str = ""
    speaker: str | None = None
    question: str = ""
    decision: str = ""
    content: JsonObject = field(default_factory=dict)


async def _edit(told: Asking, order: Order) -> None:
    live = await told.live()
    await live.proceed(live.service.edit(order.turn, order.text), resets=True)


async def _regenerate(told: Asking, order: Order) -> None:
    live = await told.live()
    await live.proceed(live.service.regenerate(order.turn), resets=True)


async def _retry(told: Asking, order: Order) -> None:
    del order
    live = await told.live()
    await live.proceed(live.service.retry(), resets=True)


async def _go_on(told: Asking, order: Order) -> None:
    live = await told.live()
    await live.proceed(live.service.continue_answer(order.speaker), resets=False)


async def _switch(told: Asking, order: Order) -> None:
    live = await told.live()
    await live.move(lambda: live.service.aswitch(order.turn))


async def _branch(told: Asking, order: Order) -> None:
    live = await told.live()
    await live.move(lambda: live.service.abranch(order.turn))


async def _stop(told: Asking, order: Order) -> None:
    live = await told.live()
    live.stop(order.speaker)
    await live.elsewhere.look()  # others may be answering, and nobody has looked yet
    live.stop(order.speaker)


async def _decide(told: Asking, order: Order) -> None:
    live = told.hub.opened(told.user, told.conversation)
    decision = DECISIONS.get(order.decision)
    if (
        live is None
        or decision is None
        or not await live.decisions.decided(order.question, decision)
    ):
        raise UsageError(told.words.text("too_late"))


async def _answer(told: Asking, order: Order) -> None:
    live = told.hub.opened(told.user, told.conversation)
    if live is None or not live.questions.answered(order.question, order.decision, order.content):
        raise UsageError(told.words.text("too_late"))


async def _rename(told: Asking, order: Order) -> None:
    await told.store.arun(rename, told.conversation, order.text[:200])
    told.hub.tell(told.user, {"op": "list"})


async def _archive(told: Asking, order: Order) -> None:
    await told.store.arun(archive, told.conversation, archived=order.decision != "back")
    told.hub.tell(told.user, {"op": "list"})


async def _delete(told: Asking, order: Order) -> None:
    del order
    await told.store.arun(delete, told.conversation)
    told.hub.forget(told.user, told.conversation)
    told.hub.tell(told.user, {"op": "list"})


async def _undelete(told: Asking, order: Order) -> None:
    del order
    await told.store.arun(undelete, told.conversation)
    told.hub.tell(told.user, {"op": "list"})


_ORDERS: Final[dict[str, Callable[[Asking, Order], Awaitable[None]]]] = {
    "edit": _edit,
    "regenerate": _regenerate,
    "retry": _retry,
    "continue": _go_on,
    "switch": _switch,
    "branch": _branch,
    "stop": _stop,
    "decide": _decide,
    "answer": _answer,
    "rename": _rename,
    "archive": _archive,
    "delete": _delete,
    "undelete": _undelete,
}


async def order(request: Request) -> Response:
    """Whatever a button of a conversation does."""
    told = asking(request)
    action = _ORDERS.get(request.path_params["action"])
    if action is None:
        return JSONResponse({"error": "There is no such action."}, 404)
    await action(told, await told.body(Order))
    return JSONResponse({})


# Files in and out.

_FORMS: Final[dict[str, tuple[str, str]]] = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "text": ("text/plain; charset=utf-8", "txt"),
}


async def export(request: Request) -> Response:
    """A conversation, or all of them, as a file."""
    told = asking(request)
    form = request.query_params.get("form", "json")
    if form not in _FORMS:
        raise UsageError("A file is json, markdown or text.")
    mime, ending = _FORMS[form]
    one = "conversation" in request.path_params
    wanted = [told.conversation] if one else None
    text = await told.store.arun(export_conversations, wanted, cast("Format", form))
    name = f"conversation{'' if one else 's'}.{ending}"
    return Response(
        text, media_type=mime, headers={"content-disposition": f'attachment; filename="{name}"'}
    )


async def take_in(request: Request) -> Response:
    """A file of conversations."""
    told = asking(request)
    report = await told.store.arun(import_conversations, await request.body())
    told.hub.tell(told.user, {"op": "list"})
    return JSONResponse(
        {"conversations": list(report.conversations), "problems": list(report.problems[:20])}
    )


async def media(request: Request) -> Response:
    """A picture or a file of a turn; what a browser might run is only ever saved."""
    told = asking(request)
    placed = await told.store.arun(get_turn, told.conversation, id_of(request.path_params["turn"]))
    part: Any = dict(enumerate(placed.turn.parts)).get(request.path_params["position"])
    if isinstance(part, ToolResult):
        part = dict(enumerate(split_result(part.content)[1])).get(
            request.path_params.get("number", 0)
        )
    if not isinstance(part, Media) or part.data is None:
        return JSONResponse({"error": "There is no such file."}, 404)
    try:
        data = base64.b64decode(part.data, validate=True)
    except binascii.Error:
        return JSONResponse({"error": "The file is damaged."}, 404)
    shown = part.mime in PICTURES
    return Response(
        data,
        media_type=part.mime if shown else "application/octet-stream",
        headers={
            "content-security-policy": "default-src 'none'; sandbox",
            "content-disposition": "inline" if shown else "attachment",
            "cache-control": "private, max-age=86400, immutable",
        },
    )
