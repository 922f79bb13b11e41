"""Questions about tools that come while nothing is shown: of answers that go on after an interruption.

Rules:
1. Such a question is announced, and asked when the user sends the next line; an empty one will do.
2. Who leaves has decided nothing: the question is asked again at the next start.
"""

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.cli.terminal.safety import one_line
from multi_llm_chat.tools.approval import ApprovalRequest, Decision


class LaterQuestions:
    """The questions that wait for the user; ``approve`` is called in other threads."""

    def __init__(self, announce: Callable[[str], None] = tell) -> None:
        self._announce = announce
        self._waiting: SimpleQueue[tuple[ApprovalRequest, Future[Decision]]] = SimpleQueue()

    def __bool__(self) -> bool:
        return not self._waiting.empty()

    def approve(self, request: ApprovalRequest) -> Decision:
        """Wait until the user can be asked."""
        decided: Future[Decision] = Future()
        self._waiting.put((request, decided))
        self._announce(
            f"{one_line(request.tool)} waits for your decision: press Enter to be asked."
        )
        return decided.result()

    def ask(self, approve: Callable[[ApprovalRequest], Decision]) -> None:
        """Ask what waits, one after the other."""
        while True:
            try:
                request, decided = self._waiting.get_nowait()
            except Empty:
                return
            decided.set_result(approve(request))
