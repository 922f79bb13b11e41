"""The context of every route: the user, the language, and the decoded body.

Rules:
1. A body is JSON of the type that the route names, or the request is refused.
2. Ids in a URL are looked up among this user's conversations only.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.requests import Request

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store import Store, get
from multi_llm_chat.web.guard import read_cookie
from multi_llm_chat.web.templating import HtmlRenderer, Translations, choose_language
from multi_llm_chat.web.views import id_of

if TYPE_CHECKING:
    from multi_llm_chat.web.access import AccessPolicy
    from multi_llm_chat.web.hub import Hub
    from multi_llm_chat.web.live_conversation import LiveConversation

T = TypeVar("T")

THEMES = ("auto", "light", "dark", "contrast")
VIEWS = ("columns", "stack")


class RequestContext:
    """A request with its user, language and conversation."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.hub: Hub = request.app.state.hub
        self.access: AccessPolicy = request.state.access
        self.user: str = request.state.user or ""
        self.form_token: str = request.state.form_token

    @property
    def store(self) -> Store:
        """The store, scoped to the user."""
        return self.hub.store(self.user)

    @property
    def translations(self) -> Translations:
        """The texts in the reader's language."""
        choice = self.request.cookies.get("mlc_language", "")
        return Translations(
            choose_language(choice, self.request.headers.get("accept-language", ""))
        )

    @property
    def theme(self) -> str:
        """The theme: light, dark, high contrast, or that of the system."""
        theme = self.request.cookies.get("mlc_theme", "")
        return theme if theme in THEMES else THEMES[0]

    @property
    def view(self) -> str:
        """The layout of several answers: in columns, or one below the other."""
        view = self.request.cookies.get("mlc_view", "")
        return view if view in VIEWS else VIEWS[0]

    @property
    def renderer(self) -> HtmlRenderer:
        """Renders HTML in the reader's language."""
        return HtmlRenderer(self.translations)

    @property
    def conversation(self) -> str:
        """The id of the conversation in the URL."""
        return id_of(self.request.path_params["conversation"])

    async def open_conversation(self) -> "LiveConversation":
        """Open the conversation in the URL; one that is not in the store is new."""
        opened = self.hub.find_open(self.user, self.conversation)
        if opened is not None:
            return opened
        is_new = False
        try:
            await self.store.arun(get, self.conversation)
        except StoreError as error:
            if error.reason != "missing":
                raise
            is_new = True
        return self.hub.open_conversation(self.user, self.conversation, is_new=is_new)

    async def read_body(self, kind: type[T]) -> T:
        """Decode the body.

        Raises:
            UsageError: The body is not JSON of that type.
        """
        try:
            return msgspec.json.decode(await self.request.body(), type=kind)
        except msgspec.DecodeError as error:
            raise UsageError(f"The request cannot be read: {error}") from error

    def require_admin(self) -> None:
        """Refuse users who may not change the settings that all users share.

        Raises:
            UsageError: The user is not an administrator.
        """
        if not self.access.is_admin(self.user):
            raise UsageError(self.translations.text("not_allowed"))


def list_sessions(context: RequestContext) -> list[JsonObject]:
    """The browsers in which the user is signed in, the newest first."""
    own = context.access.session_id(read_cookie(context.request.headers.get("cookie", "")))
    return [
        {
            "id": each.id,
            "day": datetime.fromtimestamp(each.began, UTC).date().isoformat(),
            "browser": each.name,
            "is_this": each.id == own,
        }
        for each in context.access.sessions_of(context.user)
    ]
