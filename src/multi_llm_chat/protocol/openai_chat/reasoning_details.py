"""OpenRouter's ``reasoning_details``: blocks that arrive in pieces and go back verbatim (ORT-03).

Rules:
1. Pieces with the same ``index`` and ``type`` are one block. Encrypted blocks come whole: each
   with an id of its own, or without any id, is a block.
2. ``text``, ``summary`` and ``data`` grow; every other key keeps the last value that was not null.
3. Blocks keep the order in which they began. Strings are joined once, at the end.
"""

from typing import Any, Final, cast

_GROWING: Final = ("text", "summary", "data")


class ReasoningDetails:
    """The reasoning blocks of one reply."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._places: dict[str, int] = {}

    def add(self, details: list[Any]) -> str:
        """Take the pieces of one chunk; give the readable words among them."""
        blocks = [cast("dict[str, Any]", item) for item in details if isinstance(item, dict)]
        return "".join([self._add(block) for block in blocks])

    def merged(self) -> list[dict[str, Any]]:
        """Give the whole blocks."""
        return [
            entry | {key: "".join(values) for key, values in pieces.items()}
            for entry, pieces in zip(self.entries, self._pieces, strict=True)
        ]

    def _add(self, detail: dict[str, Any]) -> str:
        marks = [detail.get("index"), detail.get("type")]
        if detail.get("type") == "reasoning.encrypted":
            marks.append(detail.get("id") or len(self.entries))
        key = repr(marks)
        place = self._places.get(key)
        if place is None:
            place = len(self.entries)
            self._places[key] = place
            self.entries.append({})
            self._pieces.append({})
        entry, pieces = self.entries[place], self._pieces[place]
        for name, value in detail.items():
            if name in _GROWING and isinstance(value, str):
                entry.setdefault(name, "")  # keeps the order of the keys
                pieces.setdefault(name, []).append(value)
            elif value is not None or name not in entry:
                entry[name] = value
        told = detail.get("text") or detail.get("summary")
        return told if isinstance(told, str) else ""
