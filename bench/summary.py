"""The summaries in ``docs/benchmarks``: the data of a run that the page needs, small enough to commit.

    python -m bench.summary     make them from the raw files of the last runs; then: python -m bench.page

Rules:
1. A run writes its complete results below ``.bench/``, which git ignores, and its summary beside the page.
2. A run of some groups or contenders is merged into the existing summary: the others keep their figures.
3. A summary has one line for each case or column. An outcome is a word: ``ok``, ``crash``, ``-`` (not offered) or the rule by
   which the request was refused; the suffix ``/2`` says that two texts are not in the request.
"""

import json
from pathlib import Path
from typing import Any, cast

from bench.where import PAGE, RAW

Body = dict[str, Any]

ACCEPTED, CRASHED, NOT_OFFERED = "ok", "crash", "-"
#: The maximum length of an error text.
_LONGEST = 200
#: Digits of a figure and of its noise.
_DIGITS, _NOISE_DIGITS = 7, 4


def read(file: Path) -> Body | None:
    """Read a file of figures, if it exists."""
    return json.loads(file.read_bytes()) if file.exists() else None


def write_raw(name: str, body: Body) -> None:
    """Save a run's complete results, outside version control."""
    RAW.mkdir(parents=True, exist_ok=True)
    (RAW / name).write_text(json.dumps(body) + "\n", encoding="utf-8")


def write(file: Path, body: Body) -> None:
    """Write a summary: one line for each item of its members."""
    file.parent.mkdir(parents=True, exist_ok=True)
    members = [f"{_compact(name)}: {_lines(value)}" for name, value in body.items()]
    file.write_text("{\n" + ",\n".join(members) + "\n}\n", encoding="utf-8")


def _lines(value: Any) -> str:
    if isinstance(value, dict) and value:
        items = cast("Body", value).items()
        lines = [f" {_compact(name)}: {_compact(item)}" for name, item in items]
        return "{\n" + ",\n".join(lines) + "\n}"
    if isinstance(value, list) and value:
        lines = [f" {_compact(item)}" for item in cast("list[Any]", value)]
        return "[\n" + ",\n".join(lines) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def one_line(text: str) -> str:
    """Return the beginning of a text on one line, for a table."""
    return " ".join(text.replace("`", "'").replace("|", "/").split())[:_LONGEST]


# The comparison.


def of_comparison(raw: Body, before: Body | None = None) -> Body:
    """Return the summary of ``bench.compare``; contenders that were not run keep their outcomes from ``before``."""
    labels = [target["label"] for target in raw["targets"]]
    if before is None or [target["label"] for target in before["targets"]] != labels:
        before = {"cases": [], "words": {}}
    kept = {case["name"]: case["outcomes"] for case in before["cases"]}
    cases = [
        {
            **case,
            "outcomes": kept.get(case["name"], {})
            | {
                name: _outcomes(found, case["name"], labels)
                for name, found in raw["outcomes"].items()
                if found
            },
        }
        for case in raw["cases"]
    ]
    return {
        **{name: value for name, value in raw.items() if name not in ("cases", "outcomes")},
        "words": before["words"] | _words(raw["outcomes"]),
        "cases": cases,
    }


def _outcomes(found: list[Body], case: str, labels: list[str]) -> str:
    """Return the outcome of a case at each target."""
    words = {one["target"]: _outcome(one) for one in found if one["case"] == case}
    return " ".join(words.get(label, NOT_OFFERED) for label in labels)


def _outcome(one: Body) -> str:
    kind: str = {"accepted": ACCEPTED, "crashed": CRASHED}.get(one["outcome"]) or one["rule"]
    # A request that was never sent lacks all texts, which is no information.
    return f"{kind}/{len(one['lost'])}" if one["lost"] and kind != CRASHED else kind


def _words(outcomes: dict[str, list[Body]]) -> dict[str, str]:
    """Return an example of the provider's error message for each rule."""
    words: dict[str, str] = {}
    for found in outcomes.values():
        for one in found:
            if one["outcome"] == "refused":
                words.setdefault(one["rule"], one_line(one["words"]))
    return dict(sorted(words.items()))


# Speed.


def of_peers(raw: Body, before: Body | None = None) -> Body:
    """Return the summary of ``bench.peers``; columns and contenders that were not run keep their figures from ``before``."""
    columns = {_key(column): column for column in (before or {}).get("columns", [])}
    for column in raw["columns"]:
        known = columns.get(_key(column), {"cells": {}})["cells"]
        new = {name: _cell(cell) for name, cell in column["cells"].items()}
        columns[_key(column)] = {**column, "cells": known | new}
    merged = list(columns.values())
    floor = raw["server"]["µs a delta"]
    ratio = server_ratio(merged, floor)
    return {
        **raw,
        "server": {
            "µs a delta": _rounded(floor, _DIGITS),
            "times faster than the fastest": _rounded(ratio, _DIGITS),
        },
        "columns": merged,
    }


def server_ratio(columns: list[Body], floor: float) -> float:
    """Return how many times as fast as the fastest contender the server is; it takes ``floor`` µs for a delta."""
    return min(
        (
            cell["value"] / floor
            for column in columns
            if (column["group"], column["title"]) == ("burst", "openai-chat")
            for cell in column["cells"].values()
            if "value" in cell
        ),
        default=float("inf"),
    )


def _key(column: Body) -> tuple[str, str, str]:
    return column["group"], column["title"], column["figure"]


def _cell(cell: Body) -> Body:
    if "failure" in cell:
        missing = cell["failure"].startswith("missing")
        return {"failure": "missing" if missing else one_line(cell["failure"])}
    noise = cell.get("noise")
    value: Body = {"value": _rounded(cell["value"], _DIGITS)}
    return value | ({"noise": _rounded(noise, _NOISE_DIGITS)} if noise else {})


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def main() -> None:
    """Create the summaries of the raw files that exist."""
    for name, summary in (("compare.json", of_comparison), ("peers.json", of_peers)):
        if (raw := read(RAW / name)) is not None:
            write(PAGE / name, summary(raw))


if __name__ == "__main__":
    main()
