"""Actions in and on a conversation; uploads and downloads.

Rules:
1. The bytes decide the type of an uploaded file, not its name or the type that the browser declares.
2. Pictures, PDF and text are accepted; everything else is refused with a list of what is accepted.
3. A file that a browser might execute is only sent as a download.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from multi_llm_chat.archive.text_export import Format
from multi_llm_chat.chat.transfer import export_conversations, import_in_batches
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import JsonObject, Media, ToolResult
from multi_llm_chat.store import archive, delete, get_turn, rename, undelete
from multi_llm_chat.tools.approval import Allow, read_edit
from multi_llm_chat.web.artifacts import DOCUMENT_POLICY, artifacts_of, as_code, compare
from multi_llm_chat.web.hub import ADDRESSEES
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.remote_runs import TURNS_AT_FIRST
from multi_llm_chat.web.routes.request_context import RequestContext
from multi_llm_chat.web.routes.tools import RuleBody, set_rule
from multi_llm_chat.web.tool_questions import DECISIONS
from multi_llm_chat.web.views import PICTURE_TYPES, Phrase, id_of

if TYPE_CHECKING:
    from multi_llm_chat.web.live_conversation import LiveConversation

# Uploads.

#: The most bytes of one file.
LARGEST_FILE: Final = 20_000_000

_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def check_upload(data: bytes, name: str, declared: str) -> Media:
    """Check an uploaded file and make it a part of a message; ``declared`` is the browser's type.

    Raises:
        UsageError: The file is too large, or of a type that no model accepts.
    """
    shown = " ".join(name.split())[:120] or "file"
    if len(data) > LARGEST_FILE:
        raise UsageError(f"{shown} is larger than {LARGEST_FILE // 1_000_000} MB")
    mime = _mime_type(data)
    if mime is None:
        raise UsageError(
            f"{shown} cannot be sent: pictures (PNG, JPEG, GIF, WebP), PDF and text can"
        )
    if mime == "text/plain" and declared.startswith("text/"):
        mime = declared.partition(";")[0].strip()
        mime = mime if mime in ("text/csv", "text/markdown") else "text/plain"
    return Media(mime, base64.b64encode(data).decode(), name=shown)


def _mime_type(data: bytes) -> str | None:
    for signature, mime in _SIGNATURES:
        if data.startswith(signature):
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

#: The most files of a message.
MOST_FILES: Final = 10


#: The limits of the multipart form of a message.
_FORM_LIMITS: Final = {"max_files": MOST_FILES, "max_fields": 20, "max_part_size": 2_000_000}


class _FormParser(MultiPartParser):
    """A parser that detects an incomplete form: Starlette treats a truncated form as complete, without its last part."""

    has_end = False

    def on_end(self) -> None:
        """Note the end of the form."""
        self.has_end = True

    def close_files(self) -> None:
        """Close the files of all parts, also of a truncated one."""
        for file in self._files_to_close_on_error:
            file.close()


@asynccontextmanager
async def _read_form(request: Request) -> AsyncGenerator[FormData]:
    """Read the form of a message; its files are closed at the end.

    Raises:
        UsageError: It is not a form, exceeds a limit, or is truncated.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        async with request.form(**_FORM_LIMITS) as form:
            yield form
        return
    parser = _FormParser(request.headers, request.stream(), **_FORM_LIMITS)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise UsageError(f"The form cannot be read: {error.message}") from None
    try:
        if not parser.has_end:
            raise UsageError("The form was cut off before its end. Send the message again.")
        yield form
    finally:
        parser.close_files()


async def send_message(request: Request) -> Response:
    """Send a message with its files."""
    context = RequestContext(request)
    async with _read_form(request) as form:
        text = str(form.get("text", ""))
        names: list[str] | None = [str(name) for name in form.getlist("to")] or None
        if form.get("memo"):
            names = []
        files = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
        media = [
            check_upload(await each.read(), each.filename or "", each.content_type or "")
            for each in files
        ]
    live = await context.open_conversation()
    if starting := context.hub.servers.starting():
        live.log.publish({"op": "notice", "text": Phrase("servers_starting", ", ".join(starting))})
    names = await remember_addressees(live, text, names)
    await live.send(text, media, names)
    return JSONResponse({})


async def remember_addressees(
    live: "LiveConversation", text: str, names: list[str] | None
) -> list[str] | None:
    """Store in the conversation which speakers a message addresses; return the speakers of the message, or None if its text names them."""
    service = live.service
    mentioned = service.mentions(text)
    addressed = list(mentioned) or names
    if addressed and service.own_settings.get(ADDRESSEES) != addressed:
        await service.aconfigure(**{ADDRESSEES: addressed})
    return None if mentioned else names


class ActionBody(Struct):
    """The body of an action."""

    turn: str = ""
    text: str = ""
    speaker: str | None = None
    question: str = ""
    decision: str = ""
    arguments: str | None = None
    content: JsonObject = field(default_factory=dict)


async def _edit(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.start(live.service.edit(body.turn, body.text), resets=True)


async def _regenerate(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.start(live.service.regenerate(body.turn), resets=True)


async def _retry(context: RequestContext, body: ActionBody) -> None:
    del body
    live = await context.open_conversation()
    await live.start(live.service.retry(), resets=True)


async def _continue(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.start(live.service.continue_answer(body.speaker), resets=False)


async def _switch(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.change_branch(lambda: live.service.aswitch(body.turn, TURNS_AT_FIRST))


async def _branch(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.change_branch(lambda: live.service.abranch(body.turn))


async def _remove(context: RequestContext, body: ActionBody) -> JsonObject:
    live = await context.open_conversation()
    before = await live.change_branch(lambda: live.service.aremove(body.turn))
    return {"before": before}


async def _stop(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    live.stop(body.speaker)
    await live.remote.sync()  # other processes may have started runs since the last sync
    live.stop(body.speaker)


async def _decide(context: RequestContext, body: ActionBody) -> None:
    live = context.hub.find_open(context.user, context.conversation)
    decision = DECISIONS.get(body.decision)
    asked = live.approvals.find(body.question) if live else None
    if body.decision == "always":
        context.require_admin()
    if asked is not None and body.arguments is not None and isinstance(decision, Allow):
        decision = replace(decision, arguments=read_edit(asked, body.arguments))
    if live is None or decision is None or not await live.approvals.decide(body.question, decision):
        raise UsageError(context.translations.text("too_late"))
    if body.decision == "always" and asked is not None:
        _always_allow(context, asked.call.name)


def _always_allow(context: RequestContext, tool: str) -> None:
    """Let a tool run without approval from now on, and save that in the settings."""
    # With its source, because another server may have a tool of the same name.
    source, original = context.hub.workspace.tools.origin(tool)
    set_rule(context.hub, RuleBody(f"{source}/{original}", "always"))


async def _edit_queued(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.outbox.edit(body.question, body.text)


async def _withdraw(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    await live.outbox.withdraw(body.question)


async def _send_now(context: RequestContext, body: ActionBody) -> None:
    live = await context.open_conversation()
    live.send_now(body.question)


async def _answer(context: RequestContext, body: ActionBody) -> None:
    live = context.hub.find_open(context.user, context.conversation)
    if live is None or not live.forms.answer(body.question, body.decision, body.content):
        raise UsageError(context.translations.text("too_late"))


async def _rename(context: RequestContext, body: ActionBody) -> None:
    await context.store.arun(rename, context.conversation, body.text[:200])
    context.hub.publish_to_user(context.user, {"op": "list"})


async def _archive(context: RequestContext, body: ActionBody) -> None:
    await context.store.arun(archive, context.conversation, archived=body.decision != "back")
    context.hub.publish_to_user(context.user, {"op": "list"})


async def _delete(context: RequestContext, body: ActionBody) -> None:
    del body
    await context.store.arun(delete, context.conversation)
    context.hub.forget(context.user, context.conversation)
    context.hub.publish_to_user(context.user, {"op": "list"})


async def _undelete(context: RequestContext, body: ActionBody) -> None:
    del body
    await context.store.arun(undelete, context.conversation)
    context.hub.publish_to_user(context.user, {"op": "list"})


_ACTIONS: Final[dict[str, Callable[[RequestContext, ActionBody], Awaitable[JsonObject | None]]]] = {
    "edit": _edit,
    "regenerate": _regenerate,
    "retry": _retry,
    "continue": _continue,
    "switch": _switch,
    "branch": _branch,
    "remove": _remove,
    "stop": _stop,
    "decide": _decide,
    "edit-queued": _edit_queued,
    "withdraw": _withdraw,
    "send-now": _send_now,
    "answer": _answer,
    "rename": _rename,
    "archive": _archive,
    "delete": _delete,
    "undelete": _undelete,
}


async def run_action(request: Request) -> Response:
    """Run the action of a button of a conversation."""
    context = RequestContext(request)
    action = _ACTIONS.get(request.path_params["action"])
    if action is None:
        return JSONResponse({"error": "There is no such action."}, 404)
    return JSONResponse(await action(context, await context.read_body(ActionBody)) or {})


# Uploads and downloads.

_EXPORT_FORMS: Final[dict[str, tuple[str, str]]] = {
    "json": ("application/json", "json"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
    "text": ("text/plain; charset=utf-8", "txt"),
}


async def export(request: Request) -> Response:
    """Export a conversation, or all of them, as a file."""
    context = RequestContext(request)
    form = request.query_params.get("form", "json")
    if form not in _EXPORT_FORMS:
        raise UsageError("The form is json, markdown or text.")
    mime, ending = _EXPORT_FORMS[form]
    one = "conversation" in request.path_params
    wanted = [context.conversation] if one else None
    text = await context.store.arun(export_conversations, wanted, cast("Format", form))
    name = f"conversation{'' if one else 's'}.{ending}"
    return Response(
        text, media_type=mime, headers={"content-disposition": f'attachment; filename="{name}"'}
    )


async def import_file(request: Request) -> Response:
    """Import a file of conversations."""
    context = RequestContext(request)
    report = await import_in_batches(context.store, await request.body())
    context.hub.publish_to_user(context.user, {"op": "list"})
    return JSONResponse(
        {"conversations": list(report.conversations), "problems": list(report.problems[:20])}
    )


async def media(request: Request) -> Response:
    """Serve a picture or a file of a turn."""
    context = RequestContext(request)
    placed = await context.store.arun(
        get_turn, context.conversation, id_of(request.path_params["turn"])
    )
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
    shown = part.mime in PICTURE_TYPES
    return Response(
        data,
        media_type=part.mime if shown else "application/octet-stream",
        headers={
            "content-security-policy": "default-src 'none'; sandbox",
            "content-disposition": "inline" if shown else "attachment",
            "cache-control": "private, max-age=86400, immutable",
        },
    )


# Artifacts.


async def artifact_document(request: Request) -> Response:
    """The document of an artifact, for its frame only."""
    context = RequestContext(request)
    if request.headers.get("sec-fetch-dest", "iframe") != "iframe":
        return JSONResponse({"error": "An artifact is shown in its frame only."}, 403)
    turn = await context.store.arun(
        get_turn, context.conversation, id_of(request.path_params["turn"])
    )
    found = dict(enumerate(artifacts_of(turn.turn))).get(request.path_params["number"])
    if found is None:
        return JSONResponse({"error": "There is no such artifact."}, 404)
    return HTMLResponse(
        found.document,
        headers={
            "content-security-policy": DOCUMENT_POLICY,
            "x-frame-options": "SAMEORIGIN",
            "x-dns-prefetch-control": "off",
            "referrer-policy": "no-referrer",
            "cache-control": "private, max-age=86400, immutable",
        },
    )


async def artifact(request: Request) -> Response:
    """The data of an artifact's pane: its versions, its source, and the changes."""
    context = RequestContext(request)
    live = await context.open_conversation()
    await live.remote.sync()
    await live.reader.read_artifacts()
    place = id_of(request.path_params["turn"]), request.path_params["number"]
    shown = live.reader.artifacts()
    if place not in shown:
        return JSONResponse({"error": context.translations.text("on_another_branch")}, 404)
    found = shown[place]
    versions = [each for each in shown.values() if each.block.title == found.block.title]
    before = versions[found.version - 2].block.code if found.version > 1 else None
    changes = "" if before is None else compare(before, found.block.code)
    source, diff = await asyncio.to_thread(
        lambda: (
            render_markdown(as_code(found.block.code, found.block.language)),
            render_markdown(as_code(changes, "diff")) if changes else "",
        )
    )
    return JSONResponse(
        {
            "title": found.block.title,
            "language": found.block.language,
            "at": found.version,
            "versions": [{"turn": each.turn, "number": each.number} for each in versions],
            "speaker": found.speaker,
            "size": len(found.block.code.encode()),
            "code": found.block.code,
            "source": source,
            "changes": diff,
        }
    )
