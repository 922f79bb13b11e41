"""All contenders side by side: each in its own process and environment, measured in turns.

Rules:
1. A round sends the job to every contender once, in order, so that all run under the same load; the first round warms up and does
   not count (with ``rounds=0`` it is the only one and counts).
2. The result is the minimum CPU time and the median wall time of the rounds.
3. A contender that gives one wrong answer, or fails once, has no figure: its error is reported instead.
4. A job that takes longer than a minute is abandoned, and its process killed. A contender whose single round takes longer than ``patience`` gets fewer rounds: at least two.
"""

import json
import os
import select
import statistics
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from bench.peers.environments import LIMIT, OURS, PEERS, Peer, make, python_of

_HERE = Path(__file__).parent
PATIENCE = 1.5
GIVE_UP = 60.0
#: Turns off network access and telemetry.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "ANONYMIZED_TELEMETRY": "false",
    "LANGSMITH_TRACING": "false",
    "NO_PROXY": "127.0.0.1",
}


class Measured(Struct):
    """The result of one contender in one job: figures, or why there are none."""

    cpu: float | None = None
    wall: float | None = None
    more: dict[str, float] = {}
    #: The spread of CPU time over the rounds: the median divided by the minimum.
    noise: float | None = None
    failure: str = ""


class Contestant:
    """A contender's process."""

    def __init__(self, name: str, peer: Peer, module: str | None = None) -> None:
        self.name = name
        self.peer = peer
        script = _HERE / "contenders" / f"{module or peer.contender}.py"
        self._process = subprocess.Popen(
            [python_of(peer), "-P", "-W", "ignore", _HERE / "worker.py", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | ENVIRONMENT,
            cwd=_HERE.parents[1],
        )
        self.broken = "" if self._read().get("ready") else "does not start"

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run one job; return its figures or its error."""
        if self.broken:
            return {"error": self.broken}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.broken = "its process died"
            return {"error": self.broken}
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], GIVE_UP)[0]:
            self._process.kill()
            self.broken = f"gave up after {GIVE_UP:.0f} s"
            return {"error": self.broken}
        line = self._process.stdout.readline()
        if not line:
            self.broken = "its process died"
            return {"error": self.broken}
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


#: Further ways to use a peer: the name, the peer whose environment it uses, and the module.
Variant: TypeAlias = tuple[str, str, str]
HELPERS: tuple[Variant, ...] = (("anthropic (helper)", "anthropic", "anthropic_helper"),)
AGENTS: tuple[Variant, ...] = (("pydantic-ai (agent)", "pydantic-ai", "pydantic_ai_agent"),)


@contextmanager
def field(
    names: list[str] | None = None, *, peers: bool = True, variants: tuple[Variant, ...] = HELPERS
) -> Generator[list[Contestant]]:
    """Start every contender that can be installed; without ``peers`` only ours and the limit."""
    with ExitStack() as stack:
        found: list[Contestant] = []

        def add(name: str, peer: Peer, module: str | None = None) -> None:
            if names is None or name in names:
                contestant = Contestant(name, peer, module)
                stack.callback(contestant.close)
                found.append(contestant)

        add("ours", OURS)
        add("limit", LIMIT)
        installed = {peer.name: peer for peer in PEERS if make(peer) is None} if peers else {}
        for name, peer in installed.items():
            add(name, peer)
        for name, owner, module in variants:
            if owner in installed:
                add(name, installed[owner], module)
        yield found


def measure(
    contestants: list[Contestant], job: dict[str, Any], rounds: int = 5, patience: float = PATIENCE
) -> dict[str, Measured]:
    """Run the job with all contenders in turns."""
    taken: dict[str, list[dict[str, float]]] = {one.name: [] for one in contestants}
    failures: dict[str, str] = {}
    for number in range(rounds + 1):
        for one in contestants:
            past = taken[one.name]
            if one.name in failures or (len(past) >= 2 and past[-1]["wall"] > patience):
                continue
            answer = one.ask(job)
            failure = next((f"{key}: {answer[key]}" for key in ("missing", "wrong", "error") if key in answer), "")  # fmt: skip
            if failure:
                failures[one.name] = failure
            elif number or rounds == 0 or answer["wall"] > patience:
                past.append(answer)
    return {
        one.name: Measured(failure=failures[one.name]) if one.name in failures else _summary(taken[one.name])
        for one in contestants
    }  # fmt: skip


def _summary(taken: list[dict[str, float]]) -> Measured:
    cpu = [one["cpu"] for one in taken]
    keys = set(taken[0]) - {"cpu", "wall"}
    more = {
        key: (min if key.endswith("cpu") else statistics.median)(one[key] for one in taken)
        for key in sorted(keys)
    }
    wall = statistics.median(one["wall"] for one in taken)
    return Measured(min(cpu), wall, more, statistics.median(cpu) / min(cpu))
