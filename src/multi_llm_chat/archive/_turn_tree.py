"""Foreign nodes to a tree of turns.

Rules:
1. A node may stand for no turn (it is skipped, its children move up), one, or several in a row.
2. Every node is used once. One whose parent is missing begins a branch of its own; so does one that is its own
   ancestor. Both are reported.
3. Parents stand before their children, and otherwise everything in the order of the file. Depth does not matter.
4. Ids are unique: a further turn of a node, or a repeated id, gets a number behind it.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.archive.document import TreeTurn
from multi_llm_chat.history.values import Turn


class Node(Struct, frozen=True):
    """A message of a foreign file, and the turns it becomes."""

    id: str
    parent: str | None
    turns: tuple[Turn, ...] = ()
    run: str | None = None


class Tree(Struct, frozen=True):
    """The turns, where each node ended up, and what was odd.

    ``last`` gives for a node the last turn at or above it; None where there is none.
    """

    turns: tuple[TreeTurn, ...]
    last: dict[str, str | None]
    problems: tuple[str, ...]


def grow(nodes: Iterable[Node]) -> Tree:
    """Put the turns of the nodes into one tree."""
    known: dict[str, Node] = {}
    for node in nodes:
        known.setdefault(node.id, node)
    problems: list[str] = []
    growth = _Growth()
    for node in known.values():
        if node.parent is not None and node.parent not in known:
            problems.append(f"the message before {node.id!r} is missing")
            growth.add(node, None)
        else:
            growth.add(node, node.parent)
    for node in known.values():  # what still waits goes in a circle
        if node.id not in growth.last:
            problems.append(f"the message {node.id!r} answers itself")
            growth.add(node, None)
    return Tree(tuple(growth.turns), growth.last, tuple(problems))


class _Growth:
    def __init__(self) -> None:
        self._waiting: dict[str, list[Node]] = {}
        self._taken: set[str] = set()
        self.turns: list[TreeTurn] = []
        self.last: dict[str, str | None] = {}

    def add(self, node: Node, parent: str | None) -> None:
        """Place the node and those that wait for it; it waits itself while its parent is not there."""
        if parent is not None and parent not in self.last:
            self._waiting.setdefault(parent, []).append(node)
            return
        placeable = [(node, self.last[parent] if parent is not None else None)]
        while placeable:
            next_node, above = placeable.pop()
            if next_node.id in self.last:
                continue
            end = self.last[next_node.id] = self._place(next_node, above)
            waiting = self._waiting.pop(next_node.id, [])
            placeable += [(child, end) for child in reversed(waiting)]

    def _place(self, node: Node, above: str | None) -> str | None:
        for turn in node.turns:
            identifier = self._free(node.id)
            self.turns.append(TreeTurn(replace(turn, id=identifier), above, node.run))
            above = identifier
        return above

    def _free(self, wanted: str) -> str:
        wanted = wanted or "turn"
        identifier, number = wanted, 1
        while identifier in self._taken:
            number += 1
            identifier = f"{wanted}.{number}"
        self._taken.add(identifier)
        return identifier
