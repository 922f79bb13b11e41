"""The page: ``docs/benchmarks/README.md`` and its pictures, from the three files of figures beside it.

Rules:
1. Nothing is written that is not in the files; a file that is missing is told to be missing.
2. A cell without a figure says why: ``-`` the contender does not do this, ``fails`` it tried and was wrong, with its words below.
3. The same files give the same page.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.plots import bars, shown
from bench.where import PAGE

Body = dict[str, Any]

#: The groups in the order of the page, and what a reader should know about each.
#: A lead that a single reading cannot tell from noise.
LEVEL = 0.03

GROUPS = {
    "import": "CPU and wall time of a fresh process that does nothing but the import. Ours loads its parts at first use, so compare the cold start too.",
    "cold start": "A fresh process up to its first whole answer over HTTP: import, client, request, stream.",
    "burst": "3,000 deltas as fast as the server can send them: what is left is the client's own work.",
    "paced": "The same, one write for each event, as a model speaks.",
    "fragments": "One tool call whose arguments come in 500 or 4,000 fragments; linear means: the same a fragment.",
    "parallel": "20 tool calls in one turn.",
    "first delta": "CPU spent until the first delta, alone and when 50 streams begin at once (the median stream). One thread does all the work, so this is the wait on an idle machine.",
    "first delta, wall": "The same in wall time.",
    "throughput": "50 streams of 200 deltas at once.",
    "memory": "Memory of an open stream, 200 over the first ones: what Python objects take (traced), and what the system gave (resident).",
    "agent, no-op tools": "20 rounds of four tools that do nothing. Ours streams the replies, the others ask for whole ones.",
    "agent, 100 ms tools": "Four tools of 100 ms in each round: wall time of a round, request and reply included; 100 ms is the floor if they run at once, 400 ms if not.",
    "request": "From a legal tool-using conversation in the contender's own types to a whole answer.",
    "store": "One message after the other into an SQLite file. Ours writes turn, parts, head and the full-text index and waits for the disk (synchronous=FULL); openai-agents inserts one row.",
}
PICTURES = (
    ("burst", "openai-chat", "burst.svg", "CPU a streamed delta, OpenAI Chat"),
    ("fragments", "openai-chat, 4,000", "fragments.svg", "CPU a fragment of a long tool call, OpenAI Chat"),
    ("cold start", "CPU", "cold-start.svg", "CPU from a fresh process to the first answer"),
    ("memory", "openai-chat, traced", "memory.svg", "Memory of an open stream"),
    ("request", "openai-chat, 1,000 turns", "request.svg", "CPU of a request from 1,000 turns, OpenAI Chat"),
    ("agent, no-op tools", "openai-chat", "agent.svg", "CPU of an agent's round of four tools, OpenAI Chat"),
)  # fmt: skip


def _read(folder: Path, name: str) -> Body | None:
    file = folder / name
    return json.loads(file.read_bytes()) if file.exists() else None


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A Markdown table, figures to the right."""
    return [
        f"| {' | '.join(head)} |",
        f"|---|{'---:|' * (len(head) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _cell(cells: Body, name: str) -> str:
    cell = cells.get(name)
    if cell is None or cell.get("failure", "").startswith("missing"):
        return "-"
    if "failure" in cell:
        return "fails"
    ours = cells.get("ours", {}).get("value")
    ratio = f" (x{shown(cell['value'] / ours)})" if ours and name != "ours" else ""
    return f"{shown(cell['value'])}{ratio}"


def _contenders(columns: list[Body]) -> list[str]:
    names = dict.fromkeys(name for column in columns for name in column["cells"])
    return [
        name for name in names if any(_cell(column["cells"], name) != "-" for column in columns)
    ]


def _group(name: str, columns: list[Body]) -> Iterator[str]:
    yield from ["", f"### {name.capitalize()}", "", GROUPS[name], ""]
    head = ["contender", *(f"{column['title']}<br>{column['unit']}" for column in columns)]
    names = _contenders(columns)
    bold = {"ours": "**ours**"}
    yield from table(
        head,
        (
            [bold.get(one, one), *(_cell(column["cells"], one) for column in columns)]
            for one in names
        ),
    )
    failures = {
        f"{one}, {column['title']}": column["cells"][one]["failure"]
        for column in columns
        for one in names
        if _cell(column["cells"], one) == "fails"
    }
    if failures:
        yield ""
        yield from (f"- {what}: `{_one_line(words)}`" for what, words in failures.items())


def _one_line(text: str, limit: int = 200) -> str:
    return " ".join(text.replace("`", "'").replace("|", "/").split())[:limit]


def _peers(found: Body) -> Iterator[str]:
    where = found["where"]
    yield from [
        "## Speed",
        "",
        f"Measured {where['date']} on {where['machine']}, {where['system']}, Python {where['python']}. "
        f"Load: {where['load']}. Figures in brackets are multiples of ours. CPU figures are the least of all rounds, wall figures the median; "
        "every contender runs in its own process and environment, in turns with the others, and an answer that is not exactly right does not count.",
        "",
    ]
    if _busy(where["load"]):
        yield from [
            "**The machine was shared with other work while this was measured:** CPU figures are usable, wall figures are not.",
            "",
        ]
    noise = sorted(
        cell["noise"]
        for column in found["columns"]
        if column["figure"] == "cpu"
        for cell in column["cells"].values()
        if cell.get("noise")
    )
    if noise:
        middle, nine = noise[len(noise) // 2], noise[len(noise) * 9 // 10]
        yield f"Noise: the median round took x{middle:.2f} of the least one in the middle cell, x{nine:.2f} in nine of ten cells. "
    server = found["server"]
    yield (
        f"The server ({server['µs a delta']:.2f} µs a delta, prebuilt bytes) is {server['times faster than the fastest']:.1f} times as fast as the fastest contender."
    )
    yield from ["", "*limit*: aiohttp and msgspec, and no more than is needed to have the answer in hand: nothing typed, no error noticed.", ""]  # fmt: skip
    yield from table(["contender", "versions"], ([name, ", ".join(f"{package} {number}" for package, number in told.items())] for name, told in found["versions"].items()))  # fmt: skip
    for name, words in found["not installed"].items():
        yield f"\n{name} could not be installed: `{_one_line(words)}`"
    found_ahead, level = ahead(found["columns"]), ahead(found["columns"], level=True)
    yield from ["", "Where a peer is ahead of us: " + ("; ".join(found_ahead) or "nowhere") + "."]
    if level:
        yield f"Less than {100 * LEVEL:.0f} % apart, which one run cannot tell from noise: {'; '.join(level)}."
    for group in GROUPS:
        columns = [column for column in found["columns"] if column["group"] == group]
        if columns:
            yield from _group(group, columns)
            picture = next((file for one, _, file, _ in PICTURES if one == group and (PAGE / file).exists()), None)  # fmt: skip
            if picture:
                yield from ["", f"![{group}]({picture})"]


def ahead(columns: list[Body], *, level: bool = False) -> list[str]:
    """Every place where a peer is ahead of us; or those where it is so little that it may be noise."""
    return [
        f"{name} in *{column['group']}: {column['title']}*: {shown(cell['value'])} against {shown(ours)} {column['unit']}"
        for column in columns
        if (ours := column["cells"].get("ours", {}).get("value")) is not None
        for name, cell in column["cells"].items()
        if name not in ("ours", "limit")
        and (lead := 1 - cell.get("value", ours) / ours) > 0
        and (lead < LEVEL) == level
    ]


def _busy(load: str) -> bool:
    return any(float(word) > 1 for word in load.replace(",", " ").split() if word[0].isdigit())


def _pictures(found: Body) -> None:
    for group, title, file, headline in PICTURES:
        for column in found["columns"]:
            if (column["group"], column["title"]) == (group, title):
                values = {name: cell["value"] for name, cell in column["cells"].items() if cell.get("value")}  # fmt: skip
                if values:
                    drawn = bars(headline, column["unit"], values)
                    (PAGE / file).write_text(drawn, encoding="utf-8")


def accepted(outcomes: list[Body]) -> float:
    """The share of requests that the provider would take, in percent."""
    return 100 * sum(one["outcome"] == "accepted" for one in outcomes) / len(outcomes)


def _compare(found: Body) -> Iterator[str]:
    labels = [target["label"] for target in found["targets"]]
    outcomes: dict[str, list[Body]] = {name: of for name, of in found["outcomes"].items() if of}
    yield from [
        "## Correctness",
        "",
        f"{len(found['cases'])} conversations (broken, cut, handed over from other providers' models; three are controls), each translated into the "
        "contender's own types, sent over real HTTP, and judged by `multi_llm_chat.testing.validate`. The translation is plain: one turn, one message, "
        "whoever is not user, system or tool is the assistant. The vendors' SDKs promise no repair; their row shows what an application has to do itself.",
        "",
    ]
    head = ["contender", *labels, "accepted", "texts lost", "crashes"]
    rows: list[list[str]] = []
    for name, of in sorted(outcomes.items(), key=lambda item: -accepted(item[1])):
        cells = [
            f"{accepted(part):.0f} %"
            if (part := [one for one in of if one["target"] == label])
            else "-"
            for label in labels
        ]
        lost = sum(len(one["lost"]) for one in of if one["outcome"] != "crashed")
        crashed = sum(one["outcome"] == "crashed" for one in of)
        rows.append([f"**{name}**" if name == "ours" else name, *cells, f"{accepted(of):.1f} %", str(lost), str(crashed)])  # fmt: skip
    yield from table(head, rows)
    yield from ["", "*texts lost*: words of users, speakers and system turns that are nowhere in a request that was sent.", "", "![accepted](accepted.svg)"]  # fmt: skip
    yield from ["", "### What was refused, by rule", "", "Each refusal names its row of [the rules](../rules.md); the provider's words are in `compare.json`.", ""]  # fmt: skip
    yield from table(["contender", "refused for"], ([name, _rules(of)] for name, of in outcomes.items()))  # fmt: skip
    yield from ["", "### Case by case", "", f"Refused (rule), crashed or with lost words, by target in the order {', '.join(labels)}; a dot is accepted with every word, `-` is not offered.", ""]  # fmt: skip
    names = list(outcomes)
    cases = (
        [case["name"], *(_case(outcomes[name], case["name"], labels) for name in names)]
        for case in found["cases"]
    )
    yield from table(["case", *names], cases)


def _rules(outcomes: list[Body]) -> str:
    counts: dict[str, int] = {}
    for one in outcomes:
        if one["outcome"] == "refused":
            counts[one["rule"]] = counts.get(one["rule"], 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{rule} ({count})" for rule, count in ordered) or "nothing"


def _case(outcomes: list[Body], case: str, labels: list[str]) -> str:
    marks: list[str] = []
    for label in labels:
        one = next((one for one in outcomes if (one["case"], one["target"]) == (case, label)), None)
        if one is None:
            marks.append("-")
        elif one["outcome"] == "accepted":
            marks.append("lost" if one["lost"] else "·")
        else:
            marks.append("crash" if one["outcome"] == "crashed" else one["rule"])
    return " ".join(marks)


def _own(found: Body) -> Iterator[str]:
    yield from ["## Ours alone", "", f"`python -m bench`, on {found['where']['machine']}; limits that hold are part of each title.", ""]  # fmt: skip
    for result in found["groups"].values():
        yield from [f"### {result['title']}", ""]
        yield from table(["", "figure"], ([name, " ".join(value.split())] for name, value in result["rows"].items()))  # fmt: skip
        yield from (f"\nOver the limit: {failure}" for failure in result.get("failures", []))
        yield ""


#: The headline: what a row is called, and from which column of which group it is.
_HEADLINE = (
    ("accepted", "", ""),
    ("CPU a streamed delta, µs", "burst", "openai-chat"),
    ("CPU a fragment of a 4,000-piece call, µs", "fragments", "openai-chat, 4,000"),
    ("CPU to the first answer, ms", "cold start", "CPU"),
    ("CPU an agent round of 4 tools, ms", "agent, no-op tools", "openai-chat"),
    ("CPU a request of 1,000 turns, ms", "request", "openai-chat, 1,000 turns"),
    ("memory an open stream, KB", "memory", "openai-chat, traced"),
)
_BEGIN, _END = "<!-- benchmarks: written by bench.page -->", "<!-- end of benchmarks -->"


def _headline(peers: Body, compared: Body) -> list[str]:
    """Contenders in rows; a vendor whose format the column is not about has no figure there."""
    outcomes: dict[str, list[Body]] = {name: of for name, of in compared["outcomes"].items() if of}
    columns = {(column["group"], column["title"]): column["cells"] for column in peers["columns"]}
    names = [name for name in dict.fromkeys([*peers["versions"], *outcomes]) if name != "limit"]
    rows: list[list[str]] = []
    for name in names:
        row = [f"**{name}**" if name == "ours" else name]
        for _, group, title in _HEADLINE:
            cell = columns.get((group, title), {}).get(name, {})
            if not group:
                row.append(f"{accepted(outcomes[name]):.0f} %" if name in outcomes else "-")
            else:
                row.append(shown(cell["value"]) if "value" in cell else "-")
        rows.append(row)
    where = peers["where"]
    told = (
        f"OpenAI Chat format, {where['date']}, {where['machine'].partition(', load')[0]}; "
        "*accepted* is the share of "
        f"{len(compared['cases'])} broken and handed-over conversations whose request each provider would take. "
        "All figures, plots, versions and how to repeat them: [docs/benchmarks](docs/benchmarks/README.md)."
    )
    return [*table(["", *(title for title, _, _ in _HEADLINE)], rows), "", told]


def _write_headline(lines: list[str]) -> None:
    file = PAGE.parents[1] / "README.md"
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if begin and end:
        made = "\n".join([_BEGIN, "", *lines, "", _END])
        file.write_text(f"{before}{made}{after}", encoding="utf-8")


_HEAD = """# Benchmarks

Everything on this page is made by three commands, which write the figures beside it as JSON and then the page itself:

```sh
make bench      # speed: ours, the limit and every peer, each in its own environment below .peers/; then ours alone
make compare    # correctness: the same broken conversations through every contender, judged by the conformance kit
python -m bench --quick   # ratios only, against bench/recorded.json; under two minutes
```

The peers are what a user would pick instead, in the newest versions that install together. The contenders are small scripts in
`bench/peers/contenders`, one for each; each uses its library's cheapest documented way. A group a contender does not offer is `-`.
History repair, search and the web stream have no counterpart among the peers and stand under *ours alone*.

What to know when reading: the vendors' SDKs neither repair nor check what they send, and Anthropic's passes long lists of dicts on nearly
unseen, while ours reads, repairs and writes every turn. litellm and aisuite get `mcp` beside them, for without it they fail when tools are offered.
pydantic-ai is measured by its direct requests; *pydantic-ai (agent)* is the same history through its agent. Anthropic's tool runner runs without threads
kept by the server, and agents on Gemini ask a 2.5 model: the simulator is strict about signatures and ids of later ones. Nothing asks the network."""


def write(folder: Path = PAGE) -> None:
    """Write the page and its pictures."""
    peers, compared, own = (
        _read(PAGE, name) for name in ("peers.json", "compare.json", "own.json")
    )
    lines = _HEAD.splitlines()
    if compared is not None:
        values = {name: accepted(of) for name, of in compared["outcomes"].items() if of}
        drawn = bars("Requests that the provider would accept", "percent", values, log=False)
        (folder / "accepted.svg").write_text(drawn, encoding="utf-8")
        lines += ["", *_compare(compared)]
    if peers is not None:
        _pictures(peers)
        lines += ["", *_peers(peers)]
    if own is not None:
        lines += ["", *_own(own)]
    if folder == PAGE and peers is not None and compared is not None:
        _write_headline(_headline(peers, compared))
    missing = [name for name, found in (("make compare", compared), ("make bench", peers), ("python -m bench --page", own)) if found is None]  # fmt: skip
    lines += [f"\nNot measured yet: `{command}`." for command in missing]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
