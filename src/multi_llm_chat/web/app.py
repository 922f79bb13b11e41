"""The application: routes, errors, and the gate in front of them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from multi_llm_chat.errors import MultiLLMChatError, ProviderError, StoreError, UsageError
from multi_llm_chat.web.access import Access
from multi_llm_chat.web.guard import Guard
from multi_llm_chat.web.hub import Hub
from multi_llm_chat.web.routes import conversations, pages, probes, settings, tools

_ASSETS: Final = Path(__file__).parent / "assets"


def make_app(hub: Hub, access: Access) -> Starlette:
    """The application that shows a hub's conversations to those who may come in."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        hub.start()
        yield
        await hub.close()

    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={MultiLLMChatError: _told, ValueError: _told},
        lifespan=lifespan,
    )
    app.state.hub = hub
    return app


def _routes() -> list[Route | Mount]:
    get, post = ["GET"], ["POST"]
    conversation = "/c/{conversation}"
    media = f"{conversation}/media/{{turn}}"
    return [
        Route("/", pages.new_page, methods=get),
        Route(conversation, pages.conversation_page, methods=get),
        Route(f"{conversation}/view", pages.view, methods=get),
        Route(f"{conversation}/total", pages.spent_total, methods=get),
        Route(f"{conversation}/earlier", pages.earlier, methods=get),
        Route(f"{conversation}/events", pages.events, methods=get),
        Route(f"{conversation}/export", conversations.export, methods=get),
        Route(f"{media}/{{position:int}}", conversations.media, methods=get),
        Route(f"{media}/{{position:int}}/{{number:int}}", conversations.media, methods=get),
        Route(f"{conversation}/messages", conversations.say, methods=post),
        Route(f"{conversation}/{{action}}", conversations.order, methods=post),
        Route("/sidebar", pages.sidebar, methods=get),
        Route("/people", pages.people, methods=get),
        Route("/find", pages.find, methods=get),
        Route("/export", conversations.export, methods=get),
        Route("/import", conversations.take_in, methods=post),
        Route("/tools", tools.panel, methods=get),
        Route("/tools/toggle", tools.toggle, methods=post),
        Route("/tools/add", tools.add, methods=post),
        Route("/tools/restart", tools.restart, methods=post),
        Route("/prompts", tools.prompts, methods=get),
        Route("/prompts", tools.prompt, methods=post),
        Route("/settings", settings.panel, methods=get),
        Route("/settings/speaker", settings.speaker, methods=post),
        Route("/settings/general", settings.general, methods=post),
        Route("/settings/key", settings.key, methods=post),
        Route("/preferences", pages.preferences, methods=post),
        Route("/login", pages.login_page, methods=get),
        Route("/login", pages.login, methods=post),
        Route("/logout", pages.logout, methods=post),
        Route("/link", pages.new_link, methods=post),
        Route("/health", pages.health, methods=get),
        *(Route(path, probes.probe, methods=get) for path in ("/healthz", "/readyz", "/metrics")),
        Mount("/assets", StaticFiles(directory=_ASSETS)),
    ]


async def _told(_request: Request, error: Exception) -> Response:
    """An error in words, and whose fault it was."""
    return JSONResponse({"error": str(error)}, _status(error))


def _status(error: Exception) -> int:
    match error:
        case StoreError() if error.reason == "missing":
            return 404
        case StoreError():
            return 503
        case ProviderError():
            return 502
        case UsageError() | ValueError():
            return 400
        case _:
            return 500
