"""The quick check: ratios only, compared with recorded ones.

Rules:
1. A ratio compares two things measured alternately in one run: ours to the limit, large to small, without ``async`` to with it.
   Seconds of one machine say nothing on another; ratios do.
2. A ratio that is worse than the recorded one by more than 30 % is measured again, twice; only the best of all three counts.
3. Where a ratio compares copying of memory with computing, it differs between kinds of machines by more than that. It is worse only
   if it is also above the limit in ``PROMISED``.
4. ``--record`` records the median of three runs; a new name must be recorded before it can be compared.
"""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench import growth
from bench.measuring import cpu_minima
from bench.peers import groups
from bench.peers.field import Contestant, Measured, field, measure
from bench.replies import EXPECTED, address
from multi_llm_chat import Agent, render
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.reader import read_history

RECORDED = Path(__file__).with_name("recorded.json")
TOLERANCE = 1.30
TRIES = 3
#: The limits that are promised for ratios, by the beginning of their names.
PROMISED = {"append: ": 1.0}
ROUNDS = 9
#: Groups that take only a millisecond or two need more rounds to find the minimum.
ROUNDS_OF_SHORT = 40
_SHORT = ("parallel", "first delta")
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
#: Groups that are slow or depend on the disk are left to the full benchmark.
_LEFT_OUT = ("paced", "agent, 100 ms tools", "first delta, wall")
_TOO_LONG = f"{groups.TURNS[-1]:,} turns"

Measure = Callable[[], float]


@contextmanager
def servers() -> Generator[dict[str, str]]:
    """Run the benchmark's servers in a separate process."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.communicate()


def _against_the_limit(contestants: list[Contestant], column: groups.Column) -> float:
    found = measure(contestants, column.job, ROUNDS_OF_SHORT if column.group in _SHORT else ROUNDS)
    return _value(found["ours"], column.figure) / _value(found["limit"], column.figure)


def _value(one: Measured, figure: str) -> float:
    if one.failure:
        raise RuntimeError(f"{figure}: {one.failure}")
    return {"cpu": one.cpu or 0.0, **one.more}[figure]


def _grown(task: Callable[[Any], object], small: list[Any], large: Any) -> float:
    """Return how many times as much ten times the input costs."""
    tasks = {"small": partial(_each, task, small), "large": partial(task, large)}
    best = cpu_minima(tasks, rounds=5)
    return best["large"] / best["small"] * 10


def _each(task: Callable[[Any], object], inputs: Iterable[Any]) -> None:
    for one in inputs:
        task(one)


def _sync_to_async(base: str) -> float:
    """Compare the same stream read without and with ``async``."""

    def sync() -> None:
        with create_provider("openai-chat", api_key="none", base_url=base) as provider:
            pieces = [event.text for event in provider.stream(HISTORY) if isinstance(event, TextDelta)]  # fmt: skip
        assert "".join(pieces) == EXPECTED["burst"]

    async def read() -> None:
        async with create_provider("openai-chat", api_key="none", base_url=base) as provider:
            pieces = [event.text async for event in provider.astream(HISTORY) if isinstance(event, TextDelta)]  # fmt: skip
        assert "".join(pieces) == EXPECTED["burst"]

    best = cpu_minima({"sync": sync, "async": lambda: asyncio.run(read())}, rounds=ROUNDS)
    return best["sync"] / best["async"]


async def _to_bare_stream(
    provider: LLMProvider, whole: Callable[[], Coroutine[Any, Any, None]]
) -> float:
    """Compare the CPU time of a whole answer with that of its provider's bare stream."""

    async def bare() -> None:
        pieces = [event.text async for event in provider.astream(HISTORY) if isinstance(event, TextDelta)]  # fmt: skip
        assert "".join(pieces) == EXPECTED["burst"]

    best = {"bare": float("inf"), "whole": float("inf")}
    for _ in range(ROUNDS):
        for name, task in (("bare", bare), ("whole", whole)):
            began = time.process_time()
            await task()
            best[name] = min(best[name], time.process_time() - began)
    return best["whole"] / best["bare"]


def _service_to_provider(base: str) -> float:
    """Compare a whole answer through ``ChatService``, with its journal and saved turns, with its provider's bare stream."""

    async def both() -> float:
        async with (
            create_provider("openai-chat", api_key="none", base_url=base) as provider,
            ChatService([provider]) as service,
        ):

            async def whole() -> None:
                await service.aopen()
                events = service.process_message("Tell me a long story.")
                pieces = [event.text async for event in events if isinstance(event, TextDelta)]
                assert "".join(pieces) == EXPECTED["burst"]

            return await _to_bare_stream(provider, whole)

    return asyncio.run(both())


def _agent_to_provider(base: str) -> float:
    """Compare a whole answer of an ``Agent`` without a store with its provider's bare stream."""

    async def both() -> float:
        provider = create_provider("openai-chat", api_key="none", base_url=base)
        async with Agent(provider) as agent:

            async def whole() -> None:
                assert (await agent.run("Tell me a long story.")).text == EXPECTED["burst"]

            return await _to_bare_stream(provider, whole)

    return asyncio.run(both())


_IMPORT = "import time; began = time.process_time(); {}; print(time.process_time() - began)"


def _import_to_asyncio(statement: str, folder: Path) -> float:
    """Compare an import in a fresh process, already compiled, with that of ``asyncio``."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    best = {statement: float("inf"), "import asyncio": float("inf")}
    for _ in range(ROUNDS):
        for one in best:
            done = subprocess.run(
                [sys.executable, "-c", _IMPORT.format(one)],
                env=environment,
                check=True,
                capture_output=True,
            )
            best[one] = min(best[one], float(done.stdout))
    return best[statement] / best["import asyncio"]


def _appended(provider: str, turns: int) -> float:
    """Compare a request that extends an earlier one with the mere encoding of its whole body."""
    request, content = growth.appended(provider, turns)
    body = msgspec.json.decode(content)
    tasks = {"ours": partial(growth.send, request), "raw": partial(msgspec.json.encode, body)}
    best = cpu_minima(tasks, rounds=ROUNDS_OF_SHORT)
    return best["ours"] / best["raw"]


def _looped(provider: str) -> float:
    """Compare a loop with one of half as many rounds."""
    tasks = {
        "half": partial(growth.loop, provider, 100),
        "whole": partial(growth.loop, provider, 200),
    }
    best = cpu_minima(tasks, rounds=5)
    return best["whole"] / best["half"]


def _repair(turns: list[Any], legal: list[Any]) -> float:
    """Compare a history that needs repair with one that needs none."""
    tasks = {
        "broken": partial(render, turns, "openai-chat"),
        "legal": partial(render, legal, "openai-chat"),
    }
    best = cpu_minima(tasks, rounds=5)
    return best["broken"] / best["legal"]


def measures(
    urls: dict[str, str], contestants: list[Contestant], folder: Path
) -> Iterator[tuple[str, Measure]]:
    """Yield every ratio by name."""
    seen: set[str] = set()
    for column in groups.columns(urls, folder):
        name = f"{column.group}: {column.title}"
        if column.group in _LEFT_OUT or name in seen or name.endswith(_TOO_LONG):
            continue
        seen.add(name)
        yield f"{name}, ours to the limit", partial(_against_the_limit, contestants, column)
    turns = growth.history(5000)
    pieces = [turns[at : at + 500] for at in range(0, 5000, 500)]
    read = [read_history(piece) for piece in pieces]
    whole = read_history(turns)
    # Exclude the inputs from garbage collection:
    # otherwise chance decides which measurement pays for scanning them.
    gc.collect()
    gc.freeze()
    for provider in growth.PROVIDERS:
        task = partial(render, provider=provider)
        yield f"growth: render {provider}", partial(_grown, task, pieces, turns)
    for provider in growth.PROVIDERS:
        for count in (1000, 5000):
            name = f"append: {provider}, two turns to {count:,}, to the encoding of the whole"
            yield name, partial(_appended, provider, count)
        yield f"growth: a loop of {provider}, 100 to 200 rounds", partial(_looped, provider)
    calls = [growth.fragments(500)] * 10
    yield "growth: decode one call", partial(_grown, growth.decode, calls, growth.fragments(5000))
    fitting = partial(growth.shortened, counter=growth.Counter)
    yield "growth: count and fit", partial(_grown, fitting, read, whole)
    base = address(urls["fast"], "burst", "openai-chat")
    yield "sync to async, a delta", partial(_sync_to_async, base)
    yield "ChatService to its provider, a delta", partial(_service_to_provider, base)
    yield "Agent to its provider, a delta", partial(_agent_to_provider, base)
    for statement in ("import multi_llm_chat", "from multi_llm_chat import Agent"):
        yield f"{statement}, to asyncio", partial(_import_to_asyncio, statement, folder)
    legal = groups.conversation(len(turns))
    yield "repair: a broken history to a legal one", partial(_repair, turns, legal)


def allowed(name: str, recorded: float) -> float:
    """Return the highest ratio that is not worse than the recorded one."""
    promised = (limit for start, limit in PROMISED.items() if name.startswith(start))
    return max(recorded * TOLERANCE, next(promised, 0.0))


def worse(found: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """Return what got worse, was never recorded, or is no longer measured."""
    problems = [
        f"{name}: x{ratio:.2f}, recorded is x{recorded[name]:.2f}"
        for name, ratio in found.items()
        if name in recorded and ratio > allowed(name, recorded[name])
    ]
    problems += [f"{name} was never recorded: python -m bench --quick --record" for name in found if name not in recorded]  # fmt: skip
    return problems + [f"{name} is recorded and no longer measured" for name in recorded if name not in found]  # fmt: skip


def run(record: bool) -> int:
    """Measure and compare, or measure and record."""
    recorded: dict[str, float] = {}
    if RECORDED.exists():
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found: dict[str, float] = {}
    with (
        servers() as urls,
        field(["ours", "limit"], peers=False) as contestants,
        tempfile.TemporaryDirectory() as folder,
    ):
        for name, take in measures(urls, contestants, Path(folder)):
            if record:
                found[name] = round(statistics.median(take() for _ in range(TRIES)), 3)
            else:
                found[name] = best_of(take, allowed(name, recorded.get(name, float("inf"))))
            known = f"x{recorded[name]:.2f}" if name in recorded else "-"
            print(f"{name:<66} x{found[name]:.2f}, recorded {known}", flush=True)
    if record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    problems = worse(found, recorded)
    for line in problems:
        print(f"worse: {line}", file=sys.stderr)
    return 1 if problems else 0


def best_of(take: Measure, good_enough: float) -> float:
    """Return the first ratio that is good enough, or the best of all tries."""
    best = float("inf")
    for _ in range(TRIES):
        best = min(best, take())
        if best <= good_enough:
            break
    return best
