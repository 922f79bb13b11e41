"""What the tools of a conversation ask the user: whether a call may run, and what a tool server wants to know.

Rules:
1. Whether a call may run is asked in the card of the call, in every page that shows it. The call may be made in this process or
   in another one (another server, a worker); the first decision counts, wherever it is made.
2. What a tool server wants to know is asked in a form below the messages, on every page and after a reload.
3. A question is shown as long as a call or a server waits for it. A later answer is refused.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from multi_llm_chat.chat.approvals import decide_in_store, read_request, write_decision
from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.questions import Question, answer_question
from multi_llm_chat.tools.approval import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.oplog import Change, OpLog
from multi_llm_chat.web.views import Asked

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

# Approvals of calls.

#: What each button of a card means.
DECISIONS: Final[dict[str, Decision]] = {
    "once": Allow(),
    "chat": Allow("conversation"),
    "deny": Deny(),
}


class Decisions:
    """The open questions about the tools of one conversation."""

    def __init__(
        self,
        service: "ChatService",
        answers: Callable[[], Iterable[LiveAnswer]],
        publish: Callable[[list[Change]], object],
    ) -> None:
        self._service = service
        self._answers = answers
        self._publish = publish
        self._here: dict[str, asyncio.Future[Decision]] = {}
        self._elsewhere: set[str] = set()

    async def ask(self, answer: LiveAnswer, request: ApprovalRequest) -> Decision:
        """Ask about a call that is made here, until somebody decides."""
        key, service = new_id(), self._service
        here = self._here[key] = asyncio.get_running_loop().create_future()
        elsewhere = asyncio.ensure_future(
            decide_in_store(service.store, service.host.owner, service.conversation, key, request)
        )
        try:
            self._publish(answer.ask(request, key))
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            return (here if here.done() else elsewhere).result()
        finally:
            elsewhere.cancel()
            del self._here[key]
            self._settle(key)

    def asked(self, questions: Sequence[Question]) -> None:
        """Show what is asked about calls that are made elsewhere, and nothing that is not asked any more."""
        own = self._service.host.owner
        told = {each.id: each for each in questions if each.asker != own}
        for key in self._elsewhere - set(told):
            self._settle(key)
        self._elsewhere &= set(told)
        for key in [key for key in told if key not in self._elsewhere]:
            request = read_request(told[key])
            running = next((each for each in self._answers() if each.runs(request.call)), None)
            if running is not None:  # else its beginning is not here yet: the next look shows it
                self._elsewhere.add(key)
                self._publish(running.ask(request, key))

    async def decided(self, key: str, decision: Decision) -> bool:
        """The user's decision; tells whether anybody waited for it."""
        awaited = self._here.get(key)
        if awaited is not None and not awaited.done():
            awaited.set_result(decision)
            return True
        if key not in self._elsewhere:
            return False
        store, conversation = self._service.store, self._service.conversation
        answer = write_decision(decision)
        is_first = await store.arun(answer_question, conversation, key, answer)
        if is_first:
            self._settle(key)
        return is_first

    def _settle(self, key: str) -> None:
        for answer in self._answers():
            self._publish(answer.decided(key))


# Forms of tool servers.

_NO: Final = {"decline": ElicitationAnswer("decline"), "cancel": ElicitationAnswer("cancel")}


class Questions:
    """The open questions of a conversation."""

    def __init__(self, log: OpLog) -> None:
        self._log = log
        self._open: dict[str, tuple[Elicitation, asyncio.Future[ElicitationAnswer]]] = {}

    @property
    def open(self) -> tuple[Asked, ...]:
        """The questions that are not answered yet."""
        return tuple(Asked(key, question) for key, (question, _) in self._open.items())

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """Ask what a server wants to know."""
        key = new_id()
        awaited: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = (question, awaited)
        self._log.publish({"op": "append", "to": "questions", "html": Asked(key, question)})
        try:
            return await awaited
        finally:
            del self._open[key]
            self._log.publish({"op": "remove", "id": f"question-{key}"})

    def answered(self, key: str, action: str, content: JsonObject) -> bool:
        """The user's answer; tells whether it was awaited."""
        found = self._open.get(key)
        if found is None or found[1].done():
            return False
        accepted = ElicitationAnswer("accept", content)
        found[1].set_result(accepted if action == "accept" else _NO.get(action, _NO["cancel"]))
        return True
