"""What every route needs: who asks, in which language, and what was sent.

Rules:
1. A body is JSON of the type that the route names, or the request is refused.
2. Ids from an address are ids of this user's conversations, whatever they look like.
"""

from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from starlette.requests import Request

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.store import Store, get
from multi_llm_chat.web.templating import Drawing, Words, chosen_language
from multi_llm_chat.web.views import id_of

if TYPE_CHECKING:
    from multi_llm_chat.web.access import Access
    from multi_llm_chat.web.hub import Hub
    from multi_llm_chat.web.live_conversation import Live

T = TypeVar("T")

THEMES = ("auto", "light", "dark")


class Asking:
    """A request, read."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.hub: Hub = request.app.state.hub
        self.access: Access = request.state.access
        self.user: str = request.state.user or ""
        self.form_token: str = request.state.form_token

    @property
    def store(self) -> Store:
        """The user's conversations."""
        return self.hub.store(self.user)

    @property
    def words(self) -> Words:
        """In the reader's language."""
        choice = self.request.cookies.get("mlc_language", "")
        return Words(chosen_language(choice, self.request.headers.get("accept-language", "")))

    @property
    def theme(self) -> str:
        """Light, dark, or as the system has it."""
        theme = self.request.cookies.get("mlc_theme", "")
        return theme if theme in THEMES else THEMES[0]

    @property
    def drawing(self) -> Drawing:
        """Draws in the reader's language."""
        return Drawing(self.words)

    @property
    def conversation(self) -> str:
        """The conversation that the address names."""
        return id_of(self.request.path_params["conversation"])

    async def live(self) -> "Live":
        """The conversation that the address names, open; one that is not in the store is new."""
        opened = self.hub.opened(self.user, self.conversation)
        if opened is not None:
            return opened
        is_new = False
        try:
            await self.store.arun(get, self.conversation)
        except StoreError as error:
            if error.reason != "missing":
                raise
            is_new = True
        return self.hub.live(self.user, self.conversation, is_new=is_new)

    async def body(self, kind: type[T]) -> T:
        """What was sent, as a value.

        Raises:
            UsageError: It is not that.
        """
        try:
            return msgspec.json.decode(await self.request.body(), type=kind)
        except msgspec.DecodeError as error:
            raise UsageError(f"The request cannot be read: {error}") from error

    def require_admin(self) -> None:
        """Go on only if the user may change what is everybody's.

        Raises:
            UsageError: The user may not.
        """
        if not self.access.may_change(self.user):
            raise UsageError(self.words.text("not_allowed"))


def asking(request: Any) -> Asking:
    """A request, read."""
    return Asking(cast("Request", request))
