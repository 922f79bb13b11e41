"""The program that runs inside a peer's environment: it reads a job as a line of JSON and writes its measurement as a line.

    python -P bench/peers/worker.py CONTENDER.py

Rules:
1. Only the standard library is used here: the environment contains the peer and nothing of this project.
2. A contender is a module with a class ``Contender(provider, base, model)``. A missing method is reported
   as ``missing``, an exception as ``error``, an answer that differs from the expected one as ``wrong``: none of them has a figure.
3. Messages are translated, clients created and garbage collected before the clock starts.
4. ``cpu`` is the process's CPU time, threads included; ``wall`` is the time that a user waits.
"""

import asyncio
import gc
import importlib.util
import json
import os
import resource
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any


def load(path: str) -> Any:
    """Load a module from a file, under a name that shadows no package."""
    name = f"contender_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class WrongAnswerError(Exception):
    """The contender returned a wrong answer."""


class MissingError(Exception):
    """The contender does not support this job."""


def _same(found: Any, expected: Any) -> None:
    if found != expected:
        raise WrongAnswerError(f"{str(found)[:200]!r} instead of {str(expected)[:200]!r}")


async def _read(contender: Any, expected: Any) -> tuple[float, float]:
    """Read one stream; return CPU and wall time of its first delta."""
    cpu = wall = 0.0
    pieces: list[str] = []
    async for piece in contender.text():
        if not pieces:
            cpu, wall = time.process_time(), time.perf_counter()
        pieces.append(piece)
    _same("".join(pieces), expected)
    return cpu, wall


async def text(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Read one stream, or many that start at the same time."""
    cpu, wall = time.process_time(), time.perf_counter()
    streams = [_read(contender, job["expected"]) for _ in range(job.get("count", 1))]
    firsts = await asyncio.gather(*streams)
    return {
        "first_cpu": statistics.median(first for first, _ in firsts) - cpu,
        "first_wall": statistics.median(first for _, first in firsts) - wall,
    }


async def calls(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Read a streamed reply that calls tools, to every name and all arguments."""
    found = await contender.calls()
    _same([[name, arguments] for name, arguments in found], job["expected"])
    return {}


async def ask(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Get one reply, not streamed, to a translated conversation."""
    _same(await contender.ask(job["native"], job.get("tools", [])), job["expected"])
    return {}


async def agent(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Run a model with tools to its end."""
    _same(await contender.agent(job["tool"], job["seconds"]), job["expected"])
    return {}


async def chat(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Run a conversation, one question after the other."""
    _same(await contender.chat(job["questions"]), job["expected"])
    return {}


async def append(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Append messages to a file, one after the other."""
    _same(await contender.append(job["file"], job["count"]), job["count"])
    return {}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


async def hold(contender: Any, job: dict[str, Any]) -> dict[str, float]:
    """Measure the memory of open streams, each having sent a few words, compared with the first ones.

    Traced memory is that of Python objects. For resident memory more streams are opened first, so that memory which
    was freed after the start is in use again before the measurement begins.
    """
    read, first = (_traced, 4) if job["traced"] else (_resident, 50)
    open_streams: list[Any] = []
    if job["traced"]:
        tracemalloc.start()
    before = 0
    for number in range(-first, job["count"]):
        if number == 0:
            gc.collect()
            before = read()
        stream = contender.text()
        said = ""
        while not said:
            said = await anext(stream)
        _same(job["expected"].startswith(said), True)
        open_streams.append(stream)
    gc.collect()
    held = (read() - before) / job["count"]
    for stream in open_streams:
        await stream.aclose()
    return {"bytes": held}


TASKS = {"text": text, "calls": calls, "ask": ask, "agent": agent, "chat": chat, "append": append, "hold": hold}  # fmt: skip
NEEDS = {"hold": "text"}


class Worker:
    """A contender and its clients."""

    def __init__(self, path: str) -> None:
        self._module = load(path)
        self._made: dict[tuple[str, ...], Any] = {}
        self._native: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run one job."""
        try:
            return self._measured(job)
        except MissingError as error:
            return {"missing": str(error)}
        except WrongAnswerError as error:
            return {"wrong": str(error)}
        except Exception as error:  # noqa: BLE001  any exception of a library is reported, not hidden
            # Some libraries put their traceback, with paths of this machine, into the message.
            words = str(error).partition("\nTraceback")[0]
            return {"error": f"{type(error).__name__}: {words}"[:600]}

    def _measured(self, job: dict[str, Any]) -> dict[str, Any]:
        contender = self._contender(job)
        do: str = job["do"]
        if not hasattr(contender, NEEDS.get(do, do)):
            raise MissingError(f"no {do}")
        job = self._translated(contender, job)
        gc.collect()
        gc.freeze()
        cpu, wall = time.process_time(), time.perf_counter()
        more = self._loop.run_until_complete(TASKS[do](contender, job))
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        gc.unfreeze()
        return spent | more

    def _contender(self, job: dict[str, Any]) -> Any:
        kind = self._module.Contender
        if job["provider"] not in kind.providers:
            raise MissingError(f"does not speak {job['provider']}")
        key = (job["provider"], job["base"], job["model"])
        if key not in self._made:
            self._made[key] = self._loop.run_until_complete(self._make(kind, key))
        return self._made[key]

    async def _make(self, kind: Any, key: tuple[str, ...]) -> Any:
        return kind(*key)

    def _translated(self, contender: Any, job: dict[str, Any]) -> dict[str, Any]:
        file = job.get("history")
        if file is None:
            return job
        key = f"{job['provider']} {file}"
        if key not in self._native:
            history = json.loads(Path(file).read_text(encoding="utf-8"))
            self._native[key] = contender.translate(history)
        return job | {"native": self._native[key]}


def main() -> None:
    """Run jobs until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep a library's output out of the answers
    sys.path.append(
        str(Path(__file__).parent)
    )  # for ``translation``; last, so that it shadows nothing
    worker = Worker(sys.argv[1])
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=out, flush=True)
    os._exit(0)  # do not wait for the libraries' threads


if __name__ == "__main__":
    main()
