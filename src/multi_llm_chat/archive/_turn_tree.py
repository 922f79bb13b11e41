"""Builds a tree of turns from the messages of an imported file.

Rules:
1. A node has no turn (then its children move up to its parent), one, or several in a row.
2. Every node is used once. A node whose parent is missing begins a new branch; so does one that is its own
   ancestor. Both are reported.
3. Parents come before their children; otherwise the order of the file is kept. There is no limit of depth.
4. Ids are unique: a further turn of a node, or a repeated id, gets a number as a suffix.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.archive.document import TreeTurn
from multi_llm_chat.history.values import Turn


class Node(Struct, frozen=True):
    """A message of an imported file, and the turns that it becomes."""

    id: str
    parent: str | None
    turns: tuple[Turn, ...] = ()
    run: str | None = None


class Tree(Struct, frozen=True):
    """The turns, and the problems that were found.

    ``last`` maps each node to the last turn at or above it; None if there is no such turn.
    """

    turns: tuple[TreeTurn, ...]
    last: dict[str, str | None]
    problems: tuple[str, ...]


def grow(nodes: Iterable[Node]) -> Tree:
    """Build one tree from the turns of the nodes."""
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
    for node in known.values():  # nodes that were not placed are in a cycle
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
        """Place the node and the nodes that wait for it; if its parent is not placed yet, the node waits."""
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
