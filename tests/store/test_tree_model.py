"""After any sequence of operations the store equals a model of a few plain dictionaries."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Appended,
    Conflict,
    append,
    children,
    create,
    delete,
    drop_head,
    end_of_branch,
    heads,
    list_conversations,
    move_head,
    newest_leaf,
    open_store,
    page,
    path,
    purge,
    search,
    siblings,
    turns_around,
    turns_with_text,
    undelete,
)

NONE: MultipleResults[tuple[str, str]] = multiple()
BRANCHES = st.sampled_from(["main", "other"])


class Model:
    """A model of one conversation in plain Python: parents in the order of writing, and heads."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.heads: dict[str, str] = {}
        self.deleted = False
        self.purged = False

    def line(self, end: str | None) -> list[str]:
        found: list[str] = []
        while end is not None:
            found.append(end)
            end = self.parents[end]
        return found[::-1]

    def children(self, parent: str | None) -> tuple[str, ...]:
        return tuple(turn for turn, above in self.parents.items() if above == parent)


class Tree(RuleBasedStateMachine):
    conversations = Bundle[str]("conversations")
    turns = Bundle[tuple[str, str]]("turns")

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(":memory:")
        self.models: dict[str, Model] = {}
        self.count = 0

    def teardown(self) -> None:
        self.store.close()

    def new_turns(self, number: int) -> list[Turn]:
        self.count += number
        names = [f"t{self.count - number + offset}" for offset in range(number)]
        # Every third turn is a message of the user.
        roles = ["user" if int(name[1:]) % 3 == 0 else "robot" for name in names]
        return [
            Turn(role, (Text(f"words {name}"),), id=name)
            for role, name in zip(roles, names, strict=True)
        ]

    @rule(target=conversations)
    def make(self) -> str:
        conversation = self.store.run(create, "t").id
        self.models[conversation] = Model()
        return conversation

    @rule(target=turns, conversation=conversations, number=st.integers(1, 3), branch=BRANCHES)
    def say(self, conversation: str, number: int, branch: str) -> MultipleResults[tuple[str, str]]:
        model = self.models[conversation]
        new = self.new_turns(number)
        if model.deleted:
            self.refused(conversation, new)
            return NONE
        self.store.run(append, conversation, new, branch=branch)
        return self.follow(conversation, new, model.heads.get(branch), branch)

    @rule(target=turns, turn=turns, number=st.integers(1, 2), branch=BRANCHES)
    def edit(
        self, turn: tuple[str, str], number: int, branch: str
    ) -> MultipleResults[tuple[str, str]]:
        conversation, name = turn
        model = self.models[conversation]
        new = self.new_turns(number)
        if model.deleted:
            self.refused(conversation, new)
            return NONE
        parent = model.parents[name]
        self.store.run(append, conversation, new, branch=branch, parent=parent)
        return self.follow(conversation, new, parent, branch)

    def follow(
        self, conversation: str, new: list[Turn], parent: str | None, branch: str
    ) -> MultipleResults[tuple[str, str]]:
        model = self.models[conversation]
        for turn in new:
            name = turn.id or ""
            model.parents[name] = parent
            parent = name
        model.heads[branch] = parent or ""
        return multiple(*((conversation, turn.id or "") for turn in new))

    @rule(turn=turns, branch=BRANCHES)
    def say_again(self, turn: tuple[str, str], branch: str):
        conversation, name = turn
        if not self.models[conversation].deleted:
            new = [Turn("user", (Text("other words"),), id=name)]
            outcome = self.store.run(append, conversation, new, branch=branch, expected="nowhere")
            assert isinstance(outcome, Appended)

    @rule(turn=turns, branch=BRANCHES)
    def expect_the_wrong_end(self, turn: tuple[str, str], branch: str):
        conversation, name = turn
        model = self.models[conversation]
        if not model.deleted and model.heads.get(branch) != name:
            outcome = self.store.run(
                append, conversation, self.new_turns(1), branch=branch, expected=name
            )
            assert outcome == Conflict(model.heads.get(branch))

    @rule(turn=turns, branch=BRANCHES)
    def move(self, turn: tuple[str, str], branch: str):
        conversation, name = turn
        if not self.models[conversation].deleted:
            self.store.run(move_head, conversation, name, branch=branch)
            self.models[conversation].heads[branch] = name

    @rule(conversation=conversations, branch=BRANCHES)
    def drop(self, conversation: str, branch: str):
        if not self.models[conversation].deleted:
            self.store.run(drop_head, conversation, branch)
            self.models[conversation].heads.pop(branch, None)

    @rule(conversation=conversations)
    def delete_or_bring_back(self, conversation: str):
        model = self.models[conversation]
        if not model.purged:
            self.store.run(undelete if model.deleted else delete, conversation)
            model.deleted = not model.deleted

    @rule(conversation=consumes(conversations))
    def purge_all(self, conversation: str):
        if not self.models[conversation].deleted:
            self.store.run(delete, conversation)
            self.models[conversation].deleted = True
        gone = [name for name, model in self.models.items() if model.deleted and not model.purged]
        assert self.store.run(purge, deleted_before_ms=2**60) == len(gone)
        for name in gone:
            self.models[name].purged = True

    @rule(turn=turns, limit=st.integers(1, 3))
    def read(self, turn: tuple[str, str], limit: int):
        conversation, name = turn
        model = self.models[conversation]
        if model.deleted:
            return
        line = model.line(name)
        above = self.store.run(page, conversation, before=name, limit=limit)
        assert [placed.turn.id for placed in above.turns] == line[:-1][-limit:]
        assert above.more == (len(line) - 1 > limit)
        family = model.children(model.parents[name])
        assert self.store.run(siblings, conversation, [name]) == {name: family}
        assert self.store.run(children, conversation, name) == model.children(name)
        leaf = name
        while following := model.children(leaf):
            leaf = following[-1]
        assert self.store.run(newest_leaf, conversation, name) == leaf
        assert [hit.turn for hit in self.store.run(search, f'"words {name}"')] == [name]

    def refused(self, conversation: str, new: list[Turn]) -> None:
        with pytest.raises(StoreError, match="There is no conversation"):
            self.store.run(append, conversation, new)

    @invariant()
    def branches_are_the_same(self):
        for conversation, model in self.models.items():
            if not model.deleted:
                assert self.store.run(heads, conversation) == model.heads
                for branch, end in model.heads.items():
                    line = [turn.id for turn in self.store.run(path, conversation, head=branch)]
                    assert line == model.line(end)
                    for least in (1, 4):
                        self.is_an_end(conversation, branch, least, model.line(end))
                    for turn in model.parents:
                        self.is_a_part(conversation, branch, turn, model.line(end))

    def is_an_end(self, conversation: str, branch: str, least: int, line: list[str]) -> None:
        found = self.store.run(end_of_branch, conversation, least, head=branch)
        read = [placed.turn.id for placed in found.turns]
        assert read == line[len(line) - len(read) :]
        assert found.more == (len(read) < len(line)) == (found.tokens_before > 0)
        if found.more:
            assert len(read) >= least
            assert found.turns[0].turn.role == "user"
            assert all(each.turn.role != "user" for each in found.turns[1 : len(read) - least + 1])

    def is_a_part(self, conversation: str, branch: str, turn: str, line: list[str]) -> None:
        reach = self.count % 4
        found = self.store.run(turns_around, conversation, turn, reach, head=branch)
        if found is None:
            assert turn not in line
            return
        at, read = line.index(turn), [placed.turn.id for placed in found]
        end = min(at + reach + 1, len(line))
        assert read == line[end - len(read) : end]
        assert len(read) >= min(end, end - at + reach)
        assert found[0].turn.role == "user" or found[0].parent is None
        with_text = self.store.run(turns_with_text, conversation, turn, [f"WORDS {line[0]}"])
        assert [each.id for each in with_text if each.id == line[0]] == line[: min(at, 1)]

    @invariant()
    def the_same_conversations_are_listed(self):
        listed = self.store.run(list_conversations).conversations
        assert {item.id for item in listed} == {
            name for name, model in self.models.items() if not model.deleted
        }


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=25)
