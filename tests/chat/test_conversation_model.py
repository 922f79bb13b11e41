"""After any sequence of user actions a conversation, on screen and on disk, equals a plain list of texts."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.chat.stage import ONCE, words_of

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.events import Event, RunFailed
from multi_llm_chat.testing.simulator import RecordedRequest, Reply, Say, Simulator, Status

TEXTS = st.sampled_from(["one", "two", "three"])
POSITIONS = st.integers(0, 5)


class ConversationMachine(RuleBasedStateMachine):
    """One speaker, a store on disk, and a model of the shown branch in plain Python."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        self.store = str(folder / "chat.db")
        self.simulator = self.stack.enter_context(Simulator(self.reply))
        self.fails = False
        self.answers = 0
        self.shown: list[str] = []
        self.waiting: list[str] = []
        self.service = self.open(None)

    def open(self, conversation: str | None) -> ChatService:
        speaker = create_provider(
            "anthropic",
            api_key="key",
            base_url=self.simulator.base_url("anthropic"),
            retry=ONCE,
        )
        return ChatService({"claude": speaker}, store=self.store, conversation=conversation)

    def reply(self, _request: RecordedRequest) -> Reply:
        if self.fails:
            return Status(500)
        self.answers += 1
        return Say(f"answer {self.answers}")

    def check(self, events: list[Event], before: list[str]) -> None:
        """Check the branch: the speaker's answer follows these texts, or it fails and leaves them unchanged."""
        failed = any(isinstance(event, RunFailed) for event in events)
        assert failed == self.fails
        self.shown = before if failed else [*before, f"answer {self.answers}"]

    @rule(text=TEXTS)
    def send(self, text: str) -> None:
        self.check(list(self.service.process_message(text)), [*self.shown, text])

    @precondition(lambda self: self.shown)
    @rule(text=TEXTS, position=POSITIONS)
    def edit(self, text: str, position: int) -> None:
        messages = [at for at, turn in enumerate(self.service.turns) if turn.role == "user"]
        at = messages[position % len(messages)]
        turn = self.service.turns[at].id or ""
        self.check(list(self.service.edit(turn, text)), [*self.shown[:at], text])

    @precondition(lambda self: any(word.startswith("answer") for word in self.shown[-1:]))
    @rule()
    def regenerate(self) -> None:
        turn = self.service.turns[-1].id or ""
        self.check(list(self.service.regenerate(turn)), self.shown[:-1])

    @precondition(lambda self: self.shown and not self.shown[-1].startswith("answer"))
    @rule()
    def retry(self) -> None:
        self.check(list(self.service.retry()), self.shown)

    @rule()
    def break_or_repair_the_provider(self) -> None:
        self.fails = not self.fails

    @precondition(lambda self: self.shown)
    @rule(text=TEXTS)
    def queue(self, text: str) -> None:
        self.service.queue(text)
        self.waiting.append(text)

    @precondition(lambda self: self.waiting)
    @rule(text=TEXTS, position=POSITIONS)
    def edit_queued(self, text: str, position: int) -> None:
        at = position % len(self.waiting)
        self.service.edit_queued(self.service.outbox()[at].id, text)
        self.waiting[at] = text

    @precondition(lambda self: self.waiting)
    @rule(position=POSITIONS)
    def withdraw(self, position: int) -> None:
        at = position % len(self.waiting)
        self.service.withdraw(self.service.outbox()[at].id)
        del self.waiting[at]

    @precondition(lambda self: self.waiting)
    @rule()
    def send_queued(self) -> None:
        text = self.waiting.pop(0)
        events = list(self.service.send_queued(self.service.outbox()[0]))
        self.check(events, [*self.shown, text])

    @rule()
    def restart(self) -> None:
        conversation = self.service.conversation
        self.service.close()
        self.service = self.open(conversation if self.shown else None)
        self.service.load()

    @invariant()
    def the_branch_and_the_outbox_are_what_they_must_be(self) -> None:
        assert [words_of(turn) for turn in self.service.turns] == self.shown
        assert [message.text for message in self.service.outbox()] == self.waiting
        assert self.service.run_ids == frozenset()

    def teardown(self) -> None:
        self.service.close()
        self.stack.close()


TestConversations = ConversationMachine.TestCase
# Each example starts a server and a store: it gets a third of the usual number of examples.
TestConversations.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=12
)
