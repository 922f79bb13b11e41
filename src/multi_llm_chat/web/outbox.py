"""The outbox of a conversation in the form in which pages show it: messages that wait until the answers are complete.

Rules:
1. The outbox is in the store; all pages show the same state, the one last read.
2. Until it is sent, a waiting message can be edited, withdrawn, or moved before the others.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from multi_llm_chat.errors import MultiLLMChatError, StoreError, UsageError
from multi_llm_chat.store import QueuedMessage, edit_queued, take_queued
from multi_llm_chat.web.oplog import OpLog
from multi_llm_chat.web.views import PageOutbox, WaitingMessage

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService


class Outbox:
    """The outbox of one conversation; ``wanted_next`` is the message that is sent before the others."""

    def __init__(self, service: "ChatService", log: OpLog) -> None:
        self.view = PageOutbox()
        self.wanted_next = ""
        self.is_sending = False
        self.is_closing = False
        self._service = service
        self._log = log

    async def refresh(self) -> None:
        """Read the outbox, and show it on all pages if it has changed."""
        try:
            found = PageOutbox(tuple(map(self._view, await self._service.aoutbox())))
        except StoreError as error:
            if error.reason != "missing":
                raise
            found = PageOutbox()  # the conversation was deleted
        if found != self.view:
            self.view = found
            self._log.publish({"op": "replace", "id": "outbox", "html": found})

    async def send_all(
        self,
        wait: Callable[[], Awaitable[None]],
        send: Callable[[QueuedMessage], Awaitable[BaseException | None]],
    ) -> None:
        """Send the messages one after the other.

        Args:
            wait: Returns when no answer is running; a message may be edited until then.
            send: Sends a message and waits for its answers; returns the reason if it cannot be sent.
        """
        try:
            while True:
                await wait()
                waiting = () if self.is_closing else await self._service.aoutbox()
                if not waiting:
                    return
                message = next(
                    (each for each in waiting if each.id == self.wanted_next), waiting[0]
                )
                error = await send(message)
                await self.refresh()
                if error is not None and await self._has(message.id):
                    self._log.publish({"op": "notice", "text": str(error)})
                    return  # the message stays in the outbox, to be edited or withdrawn
        except MultiLLMChatError as error:
            self._log.publish({"op": "notice", "text": str(error)})
        finally:
            self.is_sending = False

    async def edit(self, identifier: str, text: str) -> None:
        """Change the text of a message.

        Raises:
            UsageError: It was sent or withdrawn, or the text is empty.
        """
        if not text.strip():
            raise UsageError("The message is empty")
        await self._service.store.arun(edit_queued, self._service.conversation, identifier, text)
        await self.refresh()

    async def withdraw(self, identifier: str) -> None:
        """Take back a message.

        Raises:
            UsageError: It was sent or withdrawn.
        """
        await self._service.store.arun(take_queued, self._service.conversation, identifier)
        await self.refresh()

    async def _has(self, identifier: str) -> bool:
        """Whether a message still waits: another server may have sent it."""
        return any(each.id == identifier for each in await self._service.aoutbox())

    def _view(self, message: QueuedMessage) -> WaitingMessage:
        to = message.request.get("to")
        names = self._service.addresses(message.text) if to is None else tuple(map(str, to))
        return WaitingMessage(message.id, message.text, names)
