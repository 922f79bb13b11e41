"""The questions of a conversation's tools to the user: approvals of calls, and forms of tool servers.

Rules:
1. An approval request is shown in the card of its call, in every page that shows the call. The call may be made in this process or in
   another one (another server, a worker); the first decision counts, in whichever process it is made.
2. The form of a tool server is shown in the card of the call that the server is answering, or below the messages if there is none; on every
   page, also after a reload.
3. A question is shown as long as a call or a server waits for its answer. A later answer is refused. Changed arguments are checked before
   the decision counts: if they are invalid, the card shows the error, and the call keeps waiting.
4. The answers in a form are checked against its schema here too, independently of the checks of the page.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from multi_llm_chat.chat.approvals import decide_in_store, read_request, write_decision
from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.questions import Question, answer_question
from multi_llm_chat.tools.approval import Allow, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.oplog import Change, OpLog
from multi_llm_chat.web.views import ServerForm

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

# Approvals of calls.

#: The decision of each button of a card.
DECISIONS: Final[dict[str, Decision]] = {
    "once": Allow(),
    "chat": Allow("conversation"),
    "always": Allow("conversation"),
    "deny": Deny(),
}


class ToolApprovals:
    """The open approval requests of one conversation."""

    def __init__(
        self,
        service: "ChatService",
        answers: Callable[[], Iterable[LiveAnswer]],
        publish: Callable[[list[Change]], object],
    ) -> None:
        self._service = service
        self._answers = answers
        self._publish = publish
        self._local: dict[str, asyncio.Future[Decision]] = {}
        self._remote: set[str] = set()
        self._requests: dict[str, ApprovalRequest] = {}

    def find(self, key: str) -> ApprovalRequest | None:
        """The open request with this key."""
        return self._requests.get(key)

    async def ask(self, answer: LiveAnswer, request: ApprovalRequest) -> Decision:
        """Ask about a call of this process, and wait for the decision."""
        key, service = new_id(), self._service
        local = self._local[key] = asyncio.get_running_loop().create_future()
        remote = asyncio.ensure_future(
            decide_in_store(service.store, service.host.owner, service.conversation, key, request)
        )
        try:
            self._show(answer, request, key)
            await asyncio.wait((local, remote), return_when=asyncio.FIRST_COMPLETED)
            return (local if local.done() else remote).result()
        finally:
            remote.cancel()
            del self._local[key]
            self._end_question(key)

    def show_remote(self, questions: Sequence[Question]) -> None:
        """Show the questions of other processes, and remove those that are answered."""
        own = self._service.host.owner
        others = {each.id: each for each in questions if each.asker != own}
        for key in self._remote - set(others):
            self._end_question(key)
        self._remote &= set(others)
        for key in [key for key in others if key not in self._remote]:
            request = read_request(others[key])
            answer = next((each for each in self._answers() if each.is_running(request.call)), None)
            # If there is no answer yet, its first events have not arrived: the next sync shows the question.
            if answer is not None:
                self._remote.add(key)
                self._show(answer, request, key)

    async def decide(self, key: str, decision: Decision) -> bool:
        """Apply the user's decision; return whether the question was open."""
        waiting = self._local.get(key)
        if waiting is not None and not waiting.done():
            waiting.set_result(decision)
            return True
        if key not in self._remote:
            return False
        store, conversation = self._service.store, self._service.conversation
        answer = write_decision(decision)
        is_first = await store.arun(answer_question, conversation, key, answer)
        if is_first:
            self._end_question(key)
        return is_first

    def _show(self, answer: LiveAnswer, request: ApprovalRequest, key: str) -> None:
        self._requests[key] = request
        self._publish([*answer.ask_approval(request, key), {"op": "list"}])

    def _end_question(self, key: str) -> None:
        self._requests.pop(key, None)
        for answer in self._answers():
            self._publish(answer.end_approval(key))
        self._publish([{"op": "list"}])


# Forms of tool servers.

_NO: Final = {"decline": ElicitationAnswer("decline"), "cancel": ElicitationAnswer("cancel")}


class ServerForms:
    """The open forms of tool servers in one conversation."""

    def __init__(self, log: OpLog, answers: Callable[[], Iterable[LiveAnswer]]) -> None:
        self._log = log
        self._answers = answers
        self._open: dict[str, tuple[Elicitation, asyncio.Future[ElicitationAnswer]]] = {}
        self._in_cards: set[str] = set()

    @property
    def count(self) -> int:
        """How many forms are not answered yet."""
        return len(self._open)

    @property
    def outside_cards(self) -> tuple[ServerForm, ...]:
        """The forms that are not answered yet and stand in no card."""
        return tuple(
            ServerForm(key, question)
            for key, (question, _) in self._open.items()
            if key not in self._in_cards
        )

    async def ask(self, question: Elicitation) -> ElicitationAnswer:
        """Show a form, and wait for the user's answer."""
        key = new_id()
        waiting: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = (question, waiting)
        self._show(ServerForm(key, question))
        try:
            return await waiting
        finally:
            del self._open[key]
            self._in_cards.discard(key)
            for answer in self._answers():
                self._log.publish(*answer.end_form(key))
            self._log.publish({"op": "remove", "id": f"question-{key}"}, {"op": "list"})

    def _show(self, form: ServerForm) -> None:
        for answer in self._answers():
            changes = answer.show_form(form)
            if changes is not None:
                self._in_cards.add(form.key)
                self._log.publish(*changes, {"op": "list"})
                return
        self._log.publish({"op": "append", "to": "questions", "html": form}, {"op": "list"})

    def answer(self, key: str, action: str, content: JsonObject) -> bool:
        """Apply the user's answer; return whether the form was open.

        Raises:
            UsageError: The answers do not fit the form.
        """
        found = self._open.get(key)
        if found is None or found[1].done():
            return False
        if action == "accept" and found[0].mode == "form":
            _check_content(found[0].schema, content)
        accepted = ElicitationAnswer("accept", content)
        found[1].set_result(accepted if action == "accept" else _NO.get(action, _NO["cancel"]))
        return True


def _check_content(schema: JsonObject, content: JsonObject) -> None:
    """Check the answers in a form; if its schema is unusable, leave the check to the server."""
    try:
        validator = jsonschema_rs.Draft202012Validator(schema, retriever=_refuse)
    except (ValueError, TypeError, RecursionError):
        return
    for error in validator.iter_errors(content):
        place = ".".join(map(str, error.instance_path))
        raise UsageError(f"{place}: {error.message}"[:300] if place else error.message[:300])


def _refuse(address: str) -> Any:
    """Refuse to fetch references of a schema."""
    raise ValueError(f"{address} is not fetched")
