"""Approvals: decide whether a tool call may run.

Rules:
1. With the policy ``always`` a call runs, with ``never`` it does not; with ``ask`` the callback decides for each call.
2. Fail closed: without a callback, if the callback fails, or if it returns something else than a decision, the call does not run.
3. An approval "in this conversation" holds for that conversation and for the tool as it is defined now; without a conversation it holds for
   the one call.
4. If the user allows an interrupted call to run again, no second approval is requested for it.
5. A refusal tells the model who refused and why, so that it does not retry the same call.
6. The call runs exactly as approved: a card or a terminal shows all of its arguments, through ``visible_text``.
7. A person may change the arguments of the call: ``Allow(arguments=…)``. If they do not fit the tool's schema, nothing runs. They hold for
   this one call, and the observer gets them (a run records them) before the tool starts. The result tells the model that they were changed.
"""

import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import ApprovalDecided, ApprovalRequested, Event
from multi_llm_chat.history.json_values import MAX_DEPTH, as_object, clean_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.tools.schema_validation import SchemaCheck
from multi_llm_chat.tools.threads import in_thread
from multi_llm_chat.tools.tool import Approval, NotRun, ToolHint

_LOGGER = logging.getLogger(__name__)


#: Characters that count as printable but are invisible: fillers, joiners and variation selectors (not U+FE0F, which many emoji end with).
#: https://www.unicode.org/reports/tr36/ lists attacks that use them.
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
    """The call may run: once, or from now on in this conversation.

    ``arguments`` replace those of the call, this once; None runs the call unchanged.
    """

    scope: Literal["once", "conversation"] = "once"
    arguments: JsonObject | None = None


class Deny(Struct, frozen=True):
    """The call must not run; the model receives the reason."""

    reason: str = ""


Decision: TypeAlias = Allow | Deny


class ApprovalRequest(Struct, frozen=True):
    """A request for the user's approval: ``call`` has the name that the model used, ``tool`` and ``source`` are the tool's own.

    ``interrupted`` means that the call was started before and may have had its effect; the user decides whether it runs again. ``schema``
    is that of the arguments. ``written`` are the arguments that the model wrote, if ``call`` has others because a person changed them in an
    earlier attempt. ``hints`` are the server's annotations of the tool.
    """

    call: ToolCall
    tool: str
    source: str = ""
    description: str = ""
    conversation: str | None = None
    request_id: str | None = None
    interrupted: bool = False
    schema: JsonObject = field(default_factory=dict)
    written: JsonObject | None = None
    hints: tuple[ToolHint, ...] = ()


#: May be ``async``; a plain function is called in a thread, so that it may wait for keyboard input.
ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]

#: The callback of the agent that runs, for registries without a callback of their own.
AGENT_APPROVAL: ContextVar[ApprovalCallback | None] = ContextVar("AGENT_APPROVAL", default=None)

#: Observes the approvals of a run: called with the request, and again with the request and its decision, before the tool runs.
ApprovalObserver: TypeAlias = Callable[[ApprovalRequest, Decision | None], Awaitable[None]]
APPROVAL_OBSERVER: ContextVar[ApprovalObserver | None] = ContextVar(
    "APPROVAL_OBSERVER", default=None
)

#: The current call with the arguments that a person gave it in an earlier attempt.
EDITED_CALL: ContextVar[ToolCall | None] = ContextVar("EDITED_CALL", default=None)


class Approvals:
    """Asks for approvals, and remembers those that hold for a conversation."""

    def __init__(self, callback: ApprovalCallback | None = None) -> None:
        self.callback = callback
        self._allowed: set[tuple[str, str]] = set()
        self._repeated: dict[tuple[str | None, str], JsonObject] = {}

    async def require(self, policy: Approval, request: ApprovalRequest) -> JsonObject:
        """Return the arguments with which the call runs, if it may run.

        Raises:
            NotRun: The call may not run; the text is for the model.
        """
        call, name = request.call, request.call.name
        # The permission to run a call again holds once.
        repeated = self._repeated.pop((request.conversation, call.tool_call_id), None)
        if policy == "never":
            raise NotRun(f"The tool {name!r} is not allowed to run here. Do without it.")
        if repeated is not None:
            return repeated
        if policy == "always" or (request.conversation, name) in self._allowed:
            return call.arguments
        return await self._decide(request)

    async def require_again(self, request: ApprovalRequest) -> None:
        """Return if an interrupted call may run again.

        Raises:
            NotRun: The call may not run again, or there is no approval callback.
        """
        arguments = await self._decide(request)
        self._repeated[request.conversation, request.call.tool_call_id] = arguments

    def forget(self, conversation: str | None = None) -> None:
        """Forget the approvals in this conversation, or in all."""
        self._allowed = {
            allowed
            for allowed in self._allowed
            if conversation is not None and allowed[0] != conversation
        }

    def forget_tool(self, name: str) -> None:
        """Forget the approvals of this tool, because its definition has changed."""
        self._allowed = {allowed for allowed in self._allowed if allowed[1] != name}

    async def _decide(self, request: ApprovalRequest) -> JsonObject:
        name = request.call.name
        decision = await self._ask(request)
        if isinstance(decision, Deny):
            reason = f": {decision.reason}" if decision.reason else "."
            raise NotRun(f"The user denied this call of {name!r}{reason}")
        if decision.scope == "conversation" and request.conversation is not None:
            self._allowed.add((request.conversation, name))
        return request.call.arguments if decision.arguments is None else decision.arguments

    async def _ask(self, request: ApprovalRequest) -> Decision:
        callback = self.callback or AGENT_APPROVAL.get()
        name = request.call.name
        if callback is None:
            raise NotRun(
                f"The tool {name!r} needs the user's approval, and no user can be asked here; "
                "it was not run."
            )
        observe = APPROVAL_OBSERVER.get() or _nothing
        await observe(request, None)
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
        if isinstance(decision, Allow) and decision.arguments is not None:
            decision = _checked(request, decision)
        await observe(request, decision)
        return decision


async def _nothing(_request: ApprovalRequest, _decision: Decision | None) -> None:
    """Observe nothing."""


async def _call(callback: ApprovalCallback, request: ApprovalRequest) -> object:
    if inspect.iscoroutinefunction(callback):
        return cast("object", await callback(request))
    answer: object = await in_thread(lambda: callback(request), "approval")
    return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


def approval_event(request: ApprovalRequest, decision: Decision | None) -> Event:
    """The event for an approval request, or for its decision."""
    call = request.call
    if decision is None:
        return ApprovalRequested(call, request.source, request.description, request.interrupted)
    if isinstance(decision, Deny):
        return ApprovalDecided(call, allowed=False, reason=decision.reason)
    unchanged = None if request.written is None else call.arguments
    edited = unchanged if decision.arguments is None else decision.arguments
    return ApprovalDecided(call, allowed=True, arguments=edited)


# Changed arguments.

#: The most characters of arguments that a person may type.
LONGEST_EDIT: Final = 1_000_000


def edit_text(arguments: JsonObject, indent: int | None = 2) -> str:
    """The arguments as JSON to edit; invisible characters are escaped, so that the editor shows everything."""
    text = json.dumps(arguments, ensure_ascii=False, indent=indent)
    if text.replace("\n", "").isprintable() and not _SHOWS_NOTHING.search(text):
        return text
    return "".join(
        each
        if each == "\n" or (each.isprintable() and not _SHOWS_NOTHING.match(each))
        else json.dumps(each)[1:-1]
        for each in text
    )


def read_edit(request: ApprovalRequest, text: str) -> JsonObject | None:
    """The arguments that a person typed; None if they are those of the call.

    Raises:
        UsageError: The text is not a JSON object that fits the tool's schema.
    """
    if len(text) > LONGEST_EDIT:
        raise UsageError(f"The arguments are longer than {LONGEST_EDIT:,} characters.")
    try:
        value: object = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"This is not JSON: {error}") from None
    arguments = as_object(value)
    if arguments is None:
        raise UsageError("The arguments are one JSON object: { … }")
    _require_fit(request, arguments)
    return None if _same(arguments, request.call.arguments) else arguments


def _checked(request: ApprovalRequest, decision: Allow) -> Decision:
    """The decision if the tool accepts its arguments, without them if they equal those of the call; a denial otherwise."""
    try:
        _require_fit(request, decision.arguments)
    except UsageError as error:
        return Deny(f"the user changed its arguments, and the changed ones cannot be used. {error}")
    same = _same(decision.arguments, request.call.arguments)
    return replace(decision, arguments=None) if same else decision


def _require_fit(request: ApprovalRequest, arguments: object) -> None:
    if as_object(arguments) is None or clean_json(arguments) is not arguments:
        raise UsageError(_unclean(arguments))
    complaints = SchemaCheck(request.schema).complaints(arguments)
    if complaints:
        raise UsageError("The arguments do not fit the schema of the tool:\n" + "\n".join(complaints))  # fmt: skip


def _unclean(value: object, place: str = "$", depth: int = 0) -> str:
    """The error text about a value that cannot be sent: what it is, where it is, and what to do."""
    if depth >= MAX_DEPTH:
        return f"{place} is nested more than {MAX_DEPTH} deep: write it flatter."
    if isinstance(value, str) and "\0" in value:
        return f"{place} contains the character \\u0000, which cannot be sent: remove it."
    if isinstance(value, str):
        return f"{place} contains half a character (such as \\ud800): remove it."
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
    elif isinstance(value, list):
        items = enumerate(cast("list[object]", value))
    for name, item in items:
        if isinstance(name, str) and clean_json(name) is not name:
            return _unclean(name, f"A name in {place}")
        if clean_json(item, depth + 1) is not item:
            return _unclean(item, f"{place}[{name}]" if isinstance(name, int) else f"{place}.{name}", depth + 1)  # fmt: skip
    return f"{place} is not plain JSON: use text, numbers, lists and objects."


def _same(one: object, other: object) -> bool:
    """Whether two values are the same JSON; ``==`` does not tell, since in Python 1, 1.0 and True are equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _distinct(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two values have the same name")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
