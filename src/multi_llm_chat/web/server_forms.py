"""What servers of tools want to know from the user, shown below the messages of one conversation.

Rules:
1. A question is there, on every page and after a reload, until it is answered or nobody waits for it any more.
2. An answer that nobody waits for is no answer.
"""

import asyncio
from typing import Final

from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.oplog import OpLog
from multi_llm_chat.web.views import Asked

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
