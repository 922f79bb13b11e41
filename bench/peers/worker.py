"""What runs inside a peer's environment: one line of JSON in, one measured line out.

    python -P bench/peers/worker.py CONTENDER.py

Rules:
1. Only the standard library is used here: the environment holds the peer and nothing of ours.
2. A contender is a module with a class ``Contender(provider, base, model)``. A method it does not have is told as
   ``missing``, an exception as ``error``, an answer that differs from the expected one as ``wrong``: none of them counts.
3. Messages are translated, clients made and rubbish collected before the clock starts.
4. ``cpu`` is the process's own time, threads included; ``wall`` is what a user waits.
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
    """A module from a file, under a name that hides no package."""
    name = f"contender_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class WrongAnswerError(Exception):
    """The contender finished and had the wrong answer in hand."""


class MissingError(Exception):
    """The contender cannot do this at all."""


def _same(found: Any, expected: Any) -> None:
    if found != expected:
        raise WrongAnswerError(f"{str(found)[:200]!r} instead of {str(expected)[:200]!r}")


async def _read(contender: Any, expected: Any) -> tuple[float, float]:
    """Read one stream; CPU and wall time of its first delta."""
    cpu = wall = 0.0
    pieces: list[str] = []
    async for piece in contender.text():
        if not pieces:
            cpu, wall = time.process_time(), time.perf_counter()
        pieces.append(piece)
    _same("".join(pieces), expected)
    return cpu, wall


async def text(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """Streams that begin at once: one, or many."""
    cpu, wall = time.process_time(), time.perf_counter()
    streams = [_read(contender, told["expected"]) for _ in range(told.get("count", 1))]
    firsts = await asyncio.gather(*streams)
    return {
        "first_cpu": statistics.median(first for first, _ in firsts) - cpu,
        "first_wall": statistics.median(first for _, first in firsts) - wall,
    }


async def calls(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """A streamed reply that calls tools: every name and all arguments in hand at the end."""
    found = await contender.calls()
    _same([[name, arguments] for name, arguments in found], told["expected"])
    return {}


async def ask(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """One reply, not streamed, to a conversation that was translated before."""
    _same(await contender.ask(told["native"], told.get("tools", [])), told["expected"])
    return {}


async def agent(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """A model with tools, run to its end."""
    _same(await contender.agent(told["tool"], told["seconds"]), told["expected"])
    return {}


async def chat(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """A conversation, one question after the other."""
    _same(await contender.chat(told["questions"]), told["expected"])
    return {}


async def append(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """Save one message after the other in a file."""
    _same(await contender.append(told["file"], told["count"]), told["count"])
    return {}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


async def hold(contender: Any, told: dict[str, Any]) -> dict[str, float]:
    """The memory of open streams, each having said a few words, over the first ones.

    What Python objects take is traced; for what the system gave (resident) more of them come first, so that memory which
    was freed after the start is in use again before anything counts.
    """
    read, first = (_traced, 4) if told["traced"] else (_resident, 50)
    open_streams: list[Any] = []
    if told["traced"]:
        tracemalloc.start()
    before = 0
    for number in range(-first, told["count"]):
        if number == 0:
            gc.collect()
            before = read()
        stream = contender.text()
        said = ""
        while not said:
            said = await anext(stream)
        _same(told["expected"].startswith(said), True)
        open_streams.append(stream)
    gc.collect()
    held = (read() - before) / told["count"]
    for stream in open_streams:
        await stream.aclose()
    return {"bytes": held}


TASKS = {"text": text, "calls": calls, "ask": ask, "agent": agent, "chat": chat, "append": append, "hold": hold}  # fmt: skip
NEEDS = {"hold": "text"}


class Worker:
    """A contender and the clients it has made."""

    def __init__(self, path: str) -> None:
        self._module = load(path)
        self._made: dict[tuple[str, ...], Any] = {}
        self._native: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        """Do one task."""
        try:
            return self._measured(told)
        except MissingError as error:
            return {"missing": str(error)}
        except WrongAnswerError as error:
            return {"wrong": str(error)}
        except Exception as error:  # noqa: BLE001  whatever a library raises is told, not hidden
            # Some libraries put their traceback, with paths of this machine, into the message.
            words = str(error).partition("\nTraceback")[0]
            return {"error": f"{type(error).__name__}: {words}"[:600]}

    def _measured(self, told: dict[str, Any]) -> dict[str, Any]:
        contender = self._contender(told)
        do: str = told["do"]
        if not hasattr(contender, NEEDS.get(do, do)):
            raise MissingError(f"no {do}")
        told = self._translated(contender, told)
        gc.collect()
        gc.freeze()
        cpu, wall = time.process_time(), time.perf_counter()
        more = self._loop.run_until_complete(TASKS[do](contender, told))
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        gc.unfreeze()
        return spent | more

    def _contender(self, told: dict[str, Any]) -> Any:
        kind = self._module.Contender
        if told["provider"] not in kind.providers:
            raise MissingError(f"does not speak {told['provider']}")
        key = (told["provider"], told["base"], told["model"])
        if key not in self._made:
            self._made[key] = self._loop.run_until_complete(self._make(kind, key))
        return self._made[key]

    async def _make(self, kind: Any, key: tuple[str, ...]) -> Any:
        return kind(*key)

    def _translated(self, contender: Any, told: dict[str, Any]) -> dict[str, Any]:
        file = told.get("history")
        if file is None:
            return told
        key = f"{told['provider']} {file}"
        if key not in self._native:
            history = json.loads(Path(file).read_text(encoding="utf-8"))
            self._native[key] = contender.translate(history)
        return told | {"native": self._native[key]}


def main() -> None:
    """Answer until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    sys.path.append(
        str(Path(__file__).parent)
    )  # for the translations; last, so that it hides nothing
    worker = Worker(sys.argv[1])
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=out, flush=True)
    os._exit(0)  # some libraries wait for threads of theirs


if __name__ == "__main__":
    main()
