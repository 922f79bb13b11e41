"""What orchestrators and monitors ask: the same answers as a worker's health port gives."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from multi_llm_chat.runs.health import answer
from multi_llm_chat.web.routes.request_body import asking


async def probe(request: Request) -> Response:
    """Whether the server lives, whether it can work, and what it counts."""
    told = asking(request)
    address = request.client.host if request.client else ""
    path = request.url.path
    if path == "/metrics" and not told.access.tells_figures(address, request.headers):
        return PlainTextResponse("show the token: Authorization: Bearer …\n", 401)
    status, text = await answer(told.hub.workspace.store, path)
    return PlainTextResponse(text, status, media_type="text/plain; version=0.0.4")
