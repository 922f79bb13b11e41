"""Generate ``docs/benchmarks/README.md`` and its pictures from the three files of figures beside it: two summaries and ``own.json``.

Rules:
1. The page contains only what is in the files, and says which file is missing.
2. A cell without a figure says why: ``-``: the contender does not support this; ``fails``: it returned a wrong answer or an error, quoted below.
3. The same files give the same page.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import summary
from bench.plots import bars, shown
from bench.summary import ACCEPTED, CRASHED, NOT_OFFERED, one_line
from bench.where import PAGE

Body = dict[str, Any]

#: A lead that a single measurement cannot distinguish from noise.
LEVEL = 0.03

#: The groups in the order of the page, with an explanation of each.
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


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a Markdown table with right-aligned figures."""
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
        yield from (f"- {what}: `{one_line(words)}`" for what, words in failures.items())


def _peers(found: Body, folder: Path) -> Iterator[str]:
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
    yield from table(["contender", "versions"], ([name, ", ".join(f"{package} {number}" for package, number in numbers.items())] for name, numbers in found["versions"].items()))  # fmt: skip
    for name, words in found["not installed"].items():
        yield f"\n{name} could not be installed: `{one_line(words)}`"
    found_ahead, level = ahead(found["columns"]), ahead(found["columns"], level=True)
    yield from ["", "Where a peer is ahead of us: " + ("; ".join(found_ahead) or "nowhere") + "."]
    if level:
        yield f"Less than {100 * LEVEL:.0f} % apart, which one run cannot tell from noise: {'; '.join(level)}."
    for group in GROUPS:
        columns = [column for column in found["columns"] if column["group"] == group]
        if columns:
            yield from _group(group, columns)
            picture = next((file for one, _, file, _ in PICTURES if one == group and (folder / file).exists()), None)  # fmt: skip
            if picture:
                yield from ["", f"![{group}]({picture})"]


def ahead(columns: list[Body], *, level: bool = False) -> list[str]:
    """Return every place where a peer is ahead of us; with ``level`` those where the lead is small enough to be noise."""
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


def _pictures(found: Body, folder: Path) -> None:
    for group, title, file, headline in PICTURES:
        for column in found["columns"]:
            if (column["group"], column["title"]) == (group, title):
                values = {name: cell["value"] for name, cell in column["cells"].items() if cell.get("value")}  # fmt: skip
                if values:
                    drawn = bars(headline, column["unit"], values)
                    (folder / file).write_text(drawn, encoding="utf-8")


class Outcomes:
    """The outcomes of one contender's cases, each at every target."""

    def __init__(self, by_case: dict[str, list[str]]) -> None:
        self.by_case = by_case

    def at(self, target: int) -> "Outcomes":
        """Return the outcomes at one target only."""
        return Outcomes({case: [words[target]] for case, words in self.by_case.items()})

    @property
    def sent(self) -> list[tuple[str, int]]:
        """Return the outcome of each request that the contender can make, and how many texts it lost."""
        by_target = zip(*self.by_case.values(), strict=True)
        return [_read_outcome(word) for words in by_target for word in words if word != NOT_OFFERED]

    @property
    def accepted(self) -> float:
        """The percentage of requests that the provider would accept."""
        kinds = [kind for kind, _ in self.sent]
        return 100 * kinds.count(ACCEPTED) / len(kinds)

    @property
    def rules(self) -> str:
        """Return the rules that refused requests violate, the most frequent first."""
        counts: dict[str, int] = {}
        for kind, _ in self.sent:
            if kind not in (ACCEPTED, CRASHED):
                counts[kind] = counts.get(kind, 0) + 1
        ordered = sorted(counts.items(), key=lambda item: -item[1])
        return ", ".join(f"{rule} ({count})" for rule, count in ordered) or "nothing"

    def marks(self, case: str) -> str:
        """Return one case as a cell of the table."""
        return " ".join(map(_mark, self.by_case.get(case, [])))


def outcomes_of(found: Body) -> dict[str, Outcomes]:
    """Return every contender's outcomes."""
    words: dict[str, dict[str, list[str]]] = {}
    for case in found["cases"]:
        for name, outcomes in case["outcomes"].items():
            words.setdefault(name, {})[case["name"]] = outcomes.split()
    return {name: Outcomes(by_case) for name, by_case in words.items()}


def _read_outcome(word: str) -> tuple[str, int]:
    kind, _, lost = word.partition("/")
    return kind, int(lost or 0)


def _mark(word: str) -> str:
    kind, lost = _read_outcome(word)
    if kind == ACCEPTED:
        return "lost" if lost else "·"
    return kind


def _compare(found: Body) -> Iterator[str]:
    labels = [target["label"] for target in found["targets"]]
    outcomes = outcomes_of(found)
    yield from [
        "## Correctness",
        "",
        f"{len(found['cases'])} conversations (broken, cut, handed over from other providers' models; three are controls), each translated into the "
        "contender's own types, sent over real HTTP, and judged by `multi_llm_chat.testing.validate`. The translation is plain: one turn, one message, "
        "any role but user, system and tool is the assistant. The vendors' SDKs promise no repair; their row shows what an application has to do itself.",
        "",
    ]
    head = ["contender", *labels, "accepted", "texts lost", "crashes"]
    rows: list[list[str]] = []
    for name, of in sorted(outcomes.items(), key=lambda item: -item[1].accepted):
        parts = [of.at(target) for target in range(len(labels))]
        cells = [f"{part.accepted:.0f} %" if part.sent else "-" for part in parts]
        lost = sum(lost for _, lost in of.sent)
        crashed = sum(kind == CRASHED for kind, _ in of.sent)
        rows.append([f"**{name}**" if name == "ours" else name, *cells, f"{of.accepted:.1f} %", str(lost), str(crashed)])  # fmt: skip
    yield from table(head, rows)
    yield from ["", "*texts lost*: words of users, speakers and system turns that are nowhere in a request that was sent.", "", "![accepted](accepted.svg)"]  # fmt: skip
    yield from ["", "### What was refused, by rule", "", "Each refusal names its row of [the rules](../rules.md); `compare.json` has an example of the provider's words for each.", ""]  # fmt: skip
    yield from table(["contender", "refused for"], ([name, of.rules] for name, of in outcomes.items()))  # fmt: skip
    yield from ["", "### Case by case", "", f"Refused (rule), crashed or with lost words, by target in the order {', '.join(labels)}; a dot is accepted with every word, `-` is not offered.", ""]  # fmt: skip
    names = list(outcomes)
    cases = (
        [case["name"], *(outcomes[name].marks(case["name"]) for name in names)]
        for case in found["cases"]
    )
    yield from table(["case", *names], cases)


def _own(found: Body) -> Iterator[str]:
    yield from ["## Ours alone", "", f"`python -m bench`, on {found['where']['machine']}; limits that hold are part of each title.", ""]  # fmt: skip
    for result in found["groups"].values():
        yield from [f"### {result['title']}", ""]
        yield from table(["", "figure"], ([name, " ".join(value.split())] for name, value in result["rows"].items()))  # fmt: skip
        yield from (f"\nOver the limit: {failure}" for failure in result.get("failures", []))
        yield ""


#: The headline table: the title of each column, and the group and column of its figures.
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


def _caching(found: Body) -> Iterator[str]:
    """Yield the section about the input cost at the provider's prices."""
    names = list(dict.fromkeys(name for cells in found.values() for name in cells))
    yield from [
        "## Prompt caches",
        "",
        "What the input of a conversation costs with each library's defaults, divided by the least that the same requests can cost (`multi_llm_chat.testing.bill`, `least_bill`): an agent with thirty rounds of one tool, and a chat of twenty exchanges. 1 is everything cached that can be; – is not offered, or did not end within a minute here.",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---:|' * len(names)}",
    ]
    for scenario, cells in found.items():
        figures = [cells.get(name, "") for name in names]
        shown = ["–" if isinstance(each, str) else f"x{each:.2f}" for each in figures]
        yield f"| {scenario} | {' | '.join(shown)} |"


def _headline(peers: Body, compared: Body) -> list[str]:
    """Return the headline table, a row for each contender; a vendor has no figure in a column about another vendor's format."""
    outcomes = outcomes_of(compared)
    columns = {(column["group"], column["title"]): column["cells"] for column in peers["columns"]}
    names = [name for name in dict.fromkeys([*peers["versions"], *outcomes]) if name != "limit"]
    rows: list[list[str]] = []
    for name in names:
        row = [f"**{name}**" if name == "ours" else name]
        for _, group, title in _HEADLINE:
            cell = columns.get((group, title), {}).get(name, {})
            if not group:
                row.append(f"{outcomes[name].accepted:.0f} %" if name in outcomes else "-")
            else:
                row.append(shown(cell["value"]) if "value" in cell else "-")
        rows.append(row)
    where = peers["where"]
    note = (
        f"OpenAI Chat format, {where['date']}, {where['machine'].partition(', load')[0]}; "
        "*accepted* is the share of "
        f"{len(compared['cases'])} broken and handed-over conversations whose request each provider would take. "
        "All figures, plots, versions and how to repeat them: [docs/benchmarks](docs/benchmarks/README.md)."
    )
    return [*table(["", *(title for title, _, _ in _HEADLINE)], rows), "", note]


def _write_headline(lines: list[str]) -> None:
    file = PAGE.parents[1] / "README.md"
    text = file.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if begin and end:
        made = "\n".join([_BEGIN, "", *lines, "", _END])
        file.write_text(f"{before}{made}{after}", encoding="utf-8")


_HEAD = """# Benchmarks

Three commands make everything on this page. They write the figures below `.bench/`, their summaries next to the page, and then the page itself:

```sh
make bench      # speed: ours, the limit and every peer, each in its own environment below .peers/; then ours alone
make compare    # correctness: the same broken conversations through every contender, judged by the conformance kit
python -m bench --quick   # ratios only, against bench/recorded.json; under two minutes
```

The peers are what a user would pick instead, in the newest versions that install together. The contenders are small scripts in
`bench/peers/contenders`, one for each; each uses its library's cheapest documented way. A group a contender does not offer is `-`.
History repair, search and the web stream have no counterpart among the peers and stand under *ours alone*.

What to know when reading: the vendors' SDKs neither repair nor check what they send, and Anthropic's passes long lists of dicts on nearly
unseen, while ours reads, repairs and writes every turn. litellm and aisuite get `mcp` as well: without it they fail when tools are offered.
pydantic-ai is measured by its direct requests; *pydantic-ai (agent)* is the same history through its agent. Anthropic's tool runner runs without threads
kept by the server, and agents on Gemini ask a 2.5 model: the simulator is strict about signatures and ids of later ones. Nothing asks the network."""


def write(folder: Path = PAGE) -> None:
    """Write the page and its pictures."""
    peers, compared, own = (
        summary.read(PAGE / name) for name in ("peers.json", "compare.json", "own.json")
    )
    lines = _HEAD.splitlines()
    if compared is not None:
        values = {name: of.accepted for name, of in outcomes_of(compared).items()}
        drawn = bars("Requests that the provider would accept", "percent", values, log=False)
        (folder / "accepted.svg").write_text(drawn, encoding="utf-8")
        lines += ["", *_compare(compared)]
        if "caching" in compared:
            lines += ["", *_caching(compared["caching"])]
    if peers is not None:
        _pictures(peers, folder)
        lines += ["", *_peers(peers, folder)]
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
