"""Generate ``docs/rules.md`` from the rules: ``python -m tests.rules.page``."""

from collections.abc import Iterator
from pathlib import Path

from multi_llm_chat.protocol.capabilities import model_table
from multi_llm_chat.protocol.rules import GRADES, Evidence, Rule, all_rules

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"

SECTIONS = {
    "OAI": "OpenAI Chat Completions", "RSP": "OpenAI Responses", "ANT": "Anthropic Messages", "GEM": "Gemini generateContent",
    "GRQ": "Groq", "CER": "Cerebras", "FWK": "Fireworks", "MIS": "Mistral", "DSK": "DeepSeek", "XAI": "xAI",
    "ORT": "OpenRouter", "OLL": "Ollama", "VLL": "vLLM", "LCP": "llama.cpp", "AZR": "Azure OpenAI", "BDR": "AWS Bedrock",
    "VTX": "Google Vertex AI", "KMI": "Moonshot Kimi", "QWN": "Qwen (DashScope)", "ZAI": "Z.AI GLM",
    "OTH": "Other servers", "STR": "Streams",
}  # fmt: skip

HEAD = """\
---
hide: [navigation]
---

# Rules of the providers

What each provider refuses, and what `render` does about it: one row for each rule, with the code that implements it, its tests and its source.
`Rendered.notes` and the retry after a refusal name a rule by its id.

- **Ids.** A note bears the id of the target's own rule. If several providers have the same rule, `protocol/_rule_ids.py` lists the id of each; servers
  of the OpenAI dialect have OpenAI's rules after their own. Ids that end in `-DOC` stand for a requirement of a published API without a row here,
  ids that end in `-JSON` for a requirement of JSON itself.
- **Sources.** The date is the day of the source, or the month in which we read it. "Not at" names a source that shows where the rule does not hold.
  Grades: {grades}.
- **Paths** are below `src/multi_llm_chat/` and `tests/`.
- **Schema keywords** by dialect are in `schema/dialect_rules.py`; `schema/tool_schema.py` applies them and moves what a dialect cannot
  express to the description. What models accept is in `protocol/model_families.json`.
- **Validators.** The validators of the conformance kit (`multi_llm_chat.testing`) share no code and no table with the repair;
  `tests/protocol/test_capabilities.py` compares the two tables of what models accept and lists every difference.
- **This page** is generated from `protocol/rules.json` (`make rules`), which also gives the retry catalogue (`protocol/_rejections.py`) and the advice of
  `mlc doctor`. `tests/meta/test_rules_manifest.py` compares it with code and tests in both directions. A package adds rows with
  `multi_llm_chat.protocol.rules.add_rules`.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    grades = ", ".join(f"{name} {words}" for name, words in GRADES.items())
    yield HEAD.format(grades=grades)
    rules = list(all_rules().values())
    for prefix, title in SECTIONS.items():
        rows = [rule for rule in rules if rule.id.startswith(f"{prefix}-") and rule.code]
        if not rows:
            continue
        yield f"## {title}\n"
        yield "| id | rule | holds for | implemented in | tests | source |"
        yield "|---|---|---|---|---|---|"
        yield from (
            f"| {rule.id} | {_cell(rule.rule)} | {_holds(rule)} | {_paths(rule.code)} | {_paths(rule.tests)} | {_source(rule)} |"
            for rule in rows
        )
        yield ""
    yield from _models()
    yield "## Not implemented\n"
    yield "| id | rule | why not | source |"
    yield "|---|---|---|---|"
    yield from (
        f"| {rule.id} | {_cell(rule.rule)} | {_cell(rule.not_implemented)} | {_source(rule)} |"
        for rule in rules
        if not rule.code
    )


def _models() -> Iterator[str]:
    """Yield the known facts about each family of models."""
    table = model_table()
    yield "## Models\n"
    yield f"State of {table.date}. Letters after a value are its grade: R recorded, D documented, S source of a peer, I issue, O observed,"
    yield "i inferred; ? is unknown and left out of requests. T temperature, P top_p, S stop, F penalties (- refused); input: I image, P PDF,"
    yield "A audio, V video.\n"
    columns = list(table.table[0])
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in table.table:
        yield f"| {' | '.join(_cell(cell) for cell in row.values())} |"
    yield ""


def _holds(rule: Rule) -> str:
    words = [rule.holds_for.models, rule.holds_for.setting]
    return "; ".join(_cell(word) for word in words if word) or "all"


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _source(rule: Rule) -> str:
    return f"{rule.grade}: " + "; ".join(_evidence(each) for each in rule.evidence)


def _evidence(evidence: Evidence) -> str:
    name = _cell(evidence.source.removeprefix("against").lstrip(" :"))
    shown = f"[{name}]({evidence.url})" if evidence.url else name
    date = "" if evidence.date in evidence.source else f", {evidence.date}"
    return ("not at " if evidence.against else "") + shown + date


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "(").replace("]", ")")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
