"""Send the same conversations through every contender and validate the resulting requests with the conformance kit.

    python -m bench.compare [--contenders NAME …]

Rules:
1. Every contender translates a case into its own types and sends it to a real HTTP server on the loopback: the strict simulator, which
   validates the body with ``multi_llm_chat.testing.validate`` and answers as the provider would. Only the first request counts; retries do not.
2. ``accepted``: the provider would accept the request. ``refused``: it would not, with the violated rule and the error message. ``crashed``:
   the contender raised before it sent anything. ``lost``: texts that are missing from the request.
3. A refusal is counted only if its rule is a row of docs/rules.md, or a requirement of the published format (``-DOC``, ``-JSON``).
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench import page, summary
from bench.compare import caching
from bench.compare.cases import CASES, Case
from bench.peers.environments import OURS, PEERS, make, versions
from bench.peers.field import AGENTS, Contestant, field
from bench.where import PAGE, machine
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import RecordedRequest, Say, Simulator, always

REPLY = "All right."
_ROOT = Path(__file__).parents[2]
_MANIFEST = (_ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
KNOWN = frozenset(re.findall(r"^\| ([A-Z]{3}-\d\d) \|", _MANIFEST, re.MULTILINE))


class Target(Struct, frozen=True):
    """A provider and a model."""

    label: str
    provider: str
    model: str


TARGETS = (
    Target("OpenAI Chat", "openai-chat", ROWS["openai-chat"].default_model),
    Target("OpenAI Responses", "openai", ROWS["openai"].default_model),
    Target("Anthropic", "anthropic", ROWS["anthropic"].default_model),
    # Two generations: only the newer one requires signatures on calls (GEM-04).
    Target("Gemini 2.5", "gemini", "gemini-2.5-pro"),
    Target("Gemini 3", "gemini", ROWS["gemini"].default_model),
)


class Outcome(Struct):
    """The outcome of one case."""

    case: str
    target: str
    outcome: str
    rule: str = ""
    words: str = ""
    lost: list[str] = []


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value."""
    if isinstance(value, str):
        yield value
    for item in (as_object(value) or {}).values():
        yield from strings(item)
    for item in as_list(value) or []:
        yield from strings(item)


def judge(
    case: Case, target: Target, answer: dict[str, Any], sent: RecordedRequest | None
) -> Outcome:
    """Classify what the server received and what the contender reported."""
    if sent is None:
        return Outcome(case.name, target.label, "crashed", "", str(answer.get("error", answer))[:300], list(case.texts))  # fmt: skip
    said = "\n".join(strings(sent.body)) if sent.body else sent.content.decode(errors="replace")
    lost = [text for text in case.texts if text not in said]
    refusal = next((one for one in sent.violations if one.status >= 400), None)
    if refusal is not None:
        return Outcome(case.name, target.label, "refused", refusal.rule, refusal.message[:300], lost)  # fmt: skip
    if sent.status >= 400:
        prefix = {"openai-chat": "OAI", "openai": "RSP", "anthropic": "ANT", "gemini": "GEM"}
        return Outcome(case.name, target.label, "refused", f"{prefix[target.provider]}-JSON", "the body is not valid JSON", lost)  # fmt: skip
    return Outcome(case.name, target.label, "accepted", lost=lost)


def send(
    contestant: Contestant, simulator: Simulator, case: Case, target: Target, folder: Path
) -> Outcome | None:
    """Send one case to one target; return None if the contender does not support the target."""
    file = folder / f"{CASES.index(case)}.json"
    if not file.exists():
        file.write_text(json.dumps(case.history), encoding="utf-8")
    job = {
        "do": "ask",
        "provider": target.provider,
        "base": simulator.sdk_url(target.provider),
        "model": target.model,
        "history": str(file),
        "tools": case.tools,
        "expected": REPLY,
    }
    simulator.requests.clear()
    answer = contestant.ask(job)
    if "missing" in answer:
        return None
    requests = list(simulator.requests)
    outcome = judge(case, target, answer, requests[0] if requests else None)
    # A contender passes if it returns the answer or the server's refusal; any other error is a crash.
    if outcome.outcome == "accepted" and "error" in answer:
        outcome.outcome, outcome.words = "crashed", str(answer["error"])[:300]
    return outcome


def main() -> int:
    """Compare all; fail if a request of ours would be refused, or if a refusal names an unknown rule."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--contenders", nargs="+", metavar="NAME")
    options = parser.parse_args()
    names = options.contenders or ["ours", *(peer.name for peer in PEERS), *(name for name, _, _ in AGENTS)]  # fmt: skip
    failures = {peer.name: error for peer in PEERS if (error := make(peer)) is not None}
    outcomes: dict[str, list[Outcome]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Simulator(always(Say(REPLY))) as simulator,
        field(names, variants=AGENTS) as contestants,
    ):
        for contestant in contestants:
            found = [
                outcome
                for target in TARGETS
                for case in CASES
                if (outcome := send(contestant, simulator, case, target, Path(folder))) is not None
            ]
            outcomes[contestant.name] = found
            accepted = sum(one.outcome == "accepted" for one in found)
            print(f"{contestant.name}: {accepted} of {len(found)} accepted", flush=True)
    unknown = sorted({
        one.rule
        for found in outcomes.values()
        for one in found
        if one.rule and one.rule not in KNOWN and not one.rule.endswith(("-DOC", "-JSON"))
    })  # fmt: skip
    written = {
        "where": machine() | {"date": time.strftime("%Y-%m-%d", time.gmtime())},
        "versions": {peer.name: versions(peer) for peer in (OURS, *PEERS) if peer.name not in failures},
        "not installed": failures,
        "targets": TARGETS,
        "cases": [{"name": case.name, "rules": case.rules} for case in CASES],
        "outcomes": outcomes,
    }  # fmt: skip
    raw: dict[str, Any] = msgspec.to_builtins(written)
    summary.write_raw("compare.json", raw)
    file = PAGE / "compare.json"
    before = summary.read(file) if options.contenders else None  # the others stay as they were
    summary.write(file, summary.of_comparison(raw, before))
    page.write()
    costly = caching.main() if not options.contenders else 0
    ours = [one for one in outcomes.get("ours", []) if one.outcome != "accepted" or one.lost]
    for one in ours:
        print(f"ours: {one}", file=sys.stderr)
    if unknown:
        print(f"rules that docs/rules.md does not know: {unknown}", file=sys.stderr)
    return 1 if ours or unknown or costly else 0


if __name__ == "__main__":
    sys.exit(main())
