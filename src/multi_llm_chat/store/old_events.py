"""Rewrite the journals of version 4, whose rows were lists, as rows of the one event union.

A list was ``[name, field, …]``. A row without a matching event becomes a row of an unknown kind, which followers skip:
dropping it would leave a gap in the numbers.
"""

from typing import Any, Final

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.json_column import read_json, write_json
from multi_llm_chat.store.transaction import Link

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "thinking_tokens",
)


def rewrite_old_events(link: Link) -> None:
    """Rewrite every row of every journal."""
    errors = dict(link.execute("SELECT id, error FROM runs WHERE error IS NOT NULL"))
    rows = link.execute("SELECT run_id, sequence, payload FROM run_events")
    link.execute_many(
        "UPDATE run_events SET payload = ? WHERE run_id = ? AND sequence = ?",
        [
            (write_json(rewritten(read_json(payload), errors.get(run_id))), run_id, sequence)
            for run_id, sequence, payload in rows
        ],
    )


def rewritten(row: list[Any], error: str | None = None) -> JsonObject:
    """One old row as a new one; ``error`` is the error of its run, as JSON."""
    name, *values = row
    if name == "ended":
        return _ended(*values, error=error)
    if name == "delayed":
        provider, seconds = values
        text = f"Waiting {seconds:.0f} s: the limit of {provider} is used up."
        return {"type": "run_waiting", "reason": "rate", "text": text}
    if name not in _FIELDS:
        return {"type": f"old_{name}", "fields": values}
    kind, fields = _FIELDS[name]
    told = dict(zip(fields, values, strict=True))
    told.pop("speaker", None)
    return {"type": kind} | {
        field: read_json(value) if field in _TEXTS else value for field, value in told.items()
    }


def _ended(
    status: str,
    reason: str,
    usage: list[int],
    cost: str | None,
    seconds: float,
    *,
    error: str | None,
) -> JsonObject:
    counts = dict(zip(_COUNTS, usage, strict=True))
    row: JsonObject = {"usage": counts, "seconds": seconds}
    if cost is not None:
        row["cost"] = cost
    if status != "failed":
        return {"type": "run_finished", "stop_reason": reason, **row}
    unknown = {"kind": "MultiLLMChatError", "message": "The answer failed."}
    return {"type": "run_failed", "error": unknown if error is None else read_json(error), **row}


#: The new kind and the names of the fields of each old row.
_FIELDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "begun": ("run_started", ("speaker", "model")),
    "resumed": ("run_resumed", ("attempt",)),
    "turn": ("turn_finished", ("turn_id", "role", "is_whole")),
    "text": ("text_delta", ("text",)),
    "thinking": ("thinking_delta", ("text",)),
    "call_start": ("tool_call_start", ("index", "tool_call_id", "name")),
    "call_delta": ("tool_call_delta", ("index", "arguments")),
    "call_end": ("tool_call_end", ("index", "call")),
    "usage": ("usage", _COUNTS),
    "finish": ("finish", ("reason", "raw")),
    "tool": ("tool_started", ("call",)),
    "result": ("tool_finished", ("call", "result", "seconds")),
}

#: Fields that were JSON within the JSON.
_TEXTS: Final = frozenset({"call", "result"})
