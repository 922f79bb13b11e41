"""May this call run?

Rules:
1. ``always`` runs, ``never`` does not, ``ask`` is decided by the callback, call by call.
2. Fail closed: no callback, a callback that fails, and an answer that is none all mean no.
3. "In this conversation" holds for that tool, as it was then, and that conversation; without a conversation
   it holds for the one call.
4. Who allows an interrupted call to be made again is not asked a second time whether it may run.
5. A refusal says to the model who refused and why, so that it does not try the same again.
6. What is approved is what runs: a card or a terminal shows all of its arguments, through ``visible_text``.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, cast

from msgspec import Struct

from multi_llm_chat.events import ApprovalDecided, ApprovalRequested, Event
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.tools.threads import in_thread
from multi_llm_chat.tools.tool import Approval, NotRun

_LOGGER = logging.getLogger(__name__)


#: Characters that count as printable but show nothing: fillers, joiners and variation selectors (not U+FE0F, which
#: many emoji end with). https://www.unicode.org/reports/tr36/ lists what they are abused for.
_SHOWS_NOTHING: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)


def visible_text(text: str) -> str:
    """The text with every invisible, bidirectional or control character as ``⟨U+202E⟩``; line feeds and tabs stay."""
    if text.isprintable() and not _SHOWS_NOTHING.search(text):
        return text
    return "".join(
        character
        if character in "\n\t" or (character.isprintable() and not _SHOWS_NOTHING.match(character))
        else f"⟨U+{ord(character):04X}⟩"
        for character in text
    )


class Allow(Struct, frozen=True):
    """Run it: this once, or from now on in this conversation."""

    scope: Literal["once", "conversation"] = "once"


class Deny(Struct, frozen=True):
    """Do not run it; the model receives the reason."""

    reason: str = ""


Decision: TypeAlias = Allow | Deny


class ApprovalRequest(Struct, frozen=True):
    """What the user is asked: ``call`` with the name the model used, ``tool`` and ``source`` its own.

    ``interrupted`` means that the call was begun before, and may have done its work: is it to be made again?
    """

    call: ToolCall
    tool: str
    source: str = ""
    description: str = ""
    conversation: str | None = None
    request_id: str | None = None
    interrupted: bool = False


#: May be ``async``; a plain function is called in a thread, so that it may wait for a keyboard.
ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]

#: The callback of the agent whose run this is, for registries that have none of their own.
AGENT_APPROVAL: ContextVar[ApprovalCallback | None] = ContextVar("AGENT_APPROVAL", default=None)

#: Observes what is asked and decided about the calls of a run: the request, then the request with its decision.
APPROVAL_OBSERVER: ContextVar[Callable[[ApprovalRequest, Decision | None], None] | None] = (
    ContextVar("APPROVAL_OBSERVER", default=None)
)


class Approvals:
    """Asks, and remembers what was allowed where."""

    def __init__(self, callback: ApprovalCallback | None = None) -> None:
        self.callback = callback
        self._allowed: set[tuple[str, str]] = set()
        self._repeated: set[tuple[str | None, str]] = set()

    async def require(self, policy: Approval, request: ApprovalRequest) -> None:
        """Return when the call may run.

        Raises:
            NotRun: It may not; the text is for the model.
        """
        name = request.call.name
        call = (request.conversation, request.call.tool_call_id)
        is_allowed = call in self._repeated or (request.conversation, name) in self._allowed
        self._repeated.discard(call)  # it was for this one time
        if policy == "always":
            return
        if policy == "never":
            raise NotRun(f"The tool {name!r} is not allowed to run here. Do without it.")
        if not is_allowed:
            await self._decide(request)

    async def require_again(self, request: ApprovalRequest) -> None:
        """Return when the call, which was interrupted, may be made again.

        Raises:
            NotRun: It may not, or no user can be asked.
        """
        await self._decide(request)
        self._repeated.add((request.conversation, request.call.tool_call_id))

    def forget(self, conversation: str | None = None) -> None:
        """Take back what was allowed in this conversation, or in all."""
        self._allowed = {
            allowed
            for allowed in self._allowed
            if conversation is not None and allowed[0] != conversation
        }

    def forget_tool(self, name: str) -> None:
        """Take back what was allowed for this tool: it is no longer the one that was allowed."""
        self._allowed = {allowed for allowed in self._allowed if allowed[1] != name}

    async def _decide(self, request: ApprovalRequest) -> None:
        name = request.call.name
        decision = await self._ask(request)
        if isinstance(decision, Deny):
            reason = f": {decision.reason}" if decision.reason else "."
            raise NotRun(f"The user denied this call of {name!r}{reason}")
        if decision.scope == "conversation" and request.conversation is not None:
            self._allowed.add((request.conversation, name))

    async def _ask(self, request: ApprovalRequest) -> Decision:
        callback = self.callback or AGENT_APPROVAL.get()
        name = request.call.name
        if callback is None:
            raise NotRun(
                f"The tool {name!r} needs the user's approval, and no user can be asked here; "
                "it was not run."
            )
        observe = APPROVAL_OBSERVER.get() or _nothing
        observe(request, None)
        try:
            decision = await _call(callback, request)
        except Exception as error:
            _LOGGER.warning("the approval callback failed", exc_info=True)
            raise NotRun(
                f"The tool {name!r} was not run: asking for the user's approval failed."
            ) from error
        if not isinstance(decision, Allow | Deny):
            _LOGGER.warning("the approval callback gave %s, not Allow or Deny", type(decision))
            raise NotRun(f"The tool {name!r} was not run: there was no clear approval.")
        observe(request, decision)
        return decision


def _nothing(_request: ApprovalRequest, _decision: Decision | None) -> None:
    """Observe nothing."""


async def _call(callback: ApprovalCallback, request: ApprovalRequest) -> object:
    if inspect.iscoroutinefunction(callback):
        return cast("object", await callback(request))
    answer: object = await in_thread(lambda: callback(request), "approval")
    return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


def approval_event(request: ApprovalRequest, decision: Decision | None) -> Event:
    """The event that a person is asked about a call, or of what was decided."""
    call = request.call
    if decision is None:
        return ApprovalRequested(call, request.source, request.description, request.interrupted)
    reason = decision.reason if isinstance(decision, Deny) else ""
    return ApprovalDecided(call, isinstance(decision, Allow), reason)
