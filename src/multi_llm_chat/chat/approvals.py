"""Approvals through the store: one process asks, and a person may decide in any process.

Rules:
1. The question is a row in the store while the asking process waits. Every page of the conversation shows it, and the first decision
   counts.
2. While the store cannot be reached, the asking process keeps waiting.
3. A process that stops waiting withdraws its question.
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
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.store import Store
from multi_llm_chat.store.questions import Question, ask, read_answer, withdraw
from multi_llm_chat.tools.approval import Allow, ApprovalCallback, ApprovalRequest, Decision, Deny

#: Seconds between two reads of the decision.
PACE: Final = 0.5


async def decide_in_store(
    store: Store, owner: str, conversation: str, key: str, request: ApprovalRequest
) -> Decision:
    """Ask a question with this key, on behalf of the owner of the run, and wait for the decision."""
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
    """An approval callback for ``ScopedTools``: it asks in every page that shows the conversation."""

    async def approve(request: ApprovalRequest) -> Decision:
        whose = in_scope(request.conversation)
        if whose is None:
            return Deny("there is no user to ask")
        user, conversation = whose
        return await decide_in_store(
            host().store.as_user(user), host().owner, conversation, new_id(), request
        )

    return approve


def read_request(question: Question) -> ApprovalRequest:
    """The approval request of a question."""
    return msgspec.convert(question.body, ApprovalRequest)


def write_decision(decision: Decision) -> JsonObject:
    """The decision in the form in which the store keeps it."""
    if isinstance(decision, Deny):
        return {"deny": decision.reason}
    edited = {} if decision.arguments is None else {"arguments": decision.arguments}
    return {"allow": decision.scope, **edited}


def read_decision(answer: JsonObject) -> Decision:
    """The decision that the store keeps."""
    if "allow" not in answer:
        return Deny(str(answer.get("deny", "")))
    scope = "conversation" if answer["allow"] == "conversation" else "once"
    return Allow(scope, as_object(answer.get("arguments")))
