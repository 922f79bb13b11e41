"""Decisions about tools that whoever looks at a conversation may make, in whichever process.

Rules:
1. The question is in the store while it is awaited; all who look at the conversation are shown it, and the first decision
   counts.
2. A store that is away comes back: the question waits.
3. Who stops waiting takes the question back.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.chat.tool_scope import in_scope
from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.store import Store
from multi_llm_chat.store.questions import Question, ask, read_answer, withdraw
from multi_llm_chat.tools.approval import Allow, ApprovalCallback, ApprovalRequest, Decision, Deny

#: Seconds between two looks for a decision.
PACE: Final = 0.5


async def decide_in_store(
    store: Store, owner: str, conversation: str, key: str, request: ApprovalRequest
) -> Decision:
    """Ask under the key, in the name of the runs' owner, for as long as nobody decides."""
    body: JsonObject = msgspec.to_builtins(replace(request, conversation=None))
    question = Question(key, owner, body)
    is_asked = False
    try:
        while True:
            with contextlib.suppress(StoreError):
                if not is_asked:
                    await store.arun(ask, conversation, question)
                    is_asked = True
                answer = await store.arun(read_answer, key)
                if answer is not None:
                    return read_decision(answer)
            await asyncio.sleep(PACE)
    finally:
        with contextlib.suppress(StoreError):
            store.submit(withdraw, key)


def deciding_in(host: Callable[[], RunHost]) -> ApprovalCallback:
    """A callback for tools that are scoped: it asks everyone who looks at the conversation."""

    async def approve(request: ApprovalRequest) -> Decision:
        whose = in_scope(request.conversation)
        if whose is None:
            return Deny("nobody can be asked")
        user, conversation = whose
        return await decide_in_store(
            host().store.as_user(user), host().owner, conversation, new_id(), request
        )

    return approve


def read_request(question: Question) -> ApprovalRequest:
    """What is asked."""
    return msgspec.convert(question.body, ApprovalRequest)


def write_decision(decision: Decision) -> JsonObject:
    """The decision as an answer."""
    return {"deny": decision.reason} if isinstance(decision, Deny) else {"allow": decision.scope}


def read_decision(answer: JsonObject) -> Decision:
    """The answer as a decision."""
    if "allow" not in answer:
        return Deny(str(answer.get("deny", "")))
    return Allow("conversation" if answer["allow"] == "conversation" else "once")
