"""The memory cost of hostile peers: peak memory of a fresh process above its idle memory, with the default limits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.processes import SLOW

from multi_llm_chat.testing.hostile_files import HOSTILE_FILES
from multi_llm_chat.testing.hostile_provider import BEHAVIOURS, HostileProvider

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc"),
]

ROOT = Path(__file__).parents[2]
MEGABYTE = 2**20

#: Behaviours that only a timeout ends are left out: they send almost nothing, for two minutes.
SILENT = {"silence before the head", "slow head", "silence after the head", "slow pings", "slow letters"}  # fmt: skip
#: Peers that flood a client until a timeout ends it: the timeout is shortened here, since only the memory matters.
PROGRAM = """
import asyncio, gc, json, sys
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.archive.importer import read_conversations
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.http import Timeouts
from multi_llm_chat.protocol.retry import ONCE

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

def ask(url, dialect, kind):
    times = Timeouts(first_event=5, read=5, total=30)
    provider = create_provider(dialect, base_url=url, api_key="k", retry=ONCE, timeouts=times)
    if kind == "sync":
        with provider, provider.stream("Hello") as stream:
            for _ in stream: pass
        return
    async def run():
        async with provider, provider.astream("Hello") as stream:
            async for _ in stream: pass
    asyncio.run(run())

ask_first, *rest = json.loads(sys.stdin.readline())
try: ask(*ask_first)  # everything that a call loads is loaded
except MultiLLMChatError: pass
gc.collect()
idle = status("VmRSS")
peaks = {}
for name, *wanted in rest:
    with open("/proc/self/clear_refs", "w") as file: file.write("5")  # forget the peak (proc(5))
    try: read_conversations(open(wanted[0], "rb").read()) if len(wanted) == 1 else ask(*wanted)
    except MultiLLMChatError: pass
    peaks[name] = status("VmHWM") - idle
    gc.collect()
print(json.dumps(peaks))
"""


def peaks_of(first: tuple[str, str, str], cases: list[tuple[str, ...]]) -> dict[str, int]:
    """Return the peak memory of each case above the idle memory, in bytes."""
    given = json.dumps([first, *cases])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=given + "\n", capture_output=True, text=True,
        check=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [
        ("anthropic", "sync"),
        *(
            pytest.param(
                dialect, kind, marks=pytest.mark.skipif(not SLOW, reason="takes long: make faults")
            )
            for dialect in ("openai-chat", "openai", "anthropic", "gemini")
            for kind in ("sync", "async")
            if (dialect, kind) != ("anthropic", "sync")
        ),
    ],
)
def test_a_hostile_provider_costs_bounded_memory(dialect: str, kind: str):
    with HostileProvider() as server:
        names = [name for name in BEHAVIOURS if name not in SILENT]
        cases = [(name, server.url(name), dialect, kind) for name in names]
        found = peaks_of((server.url("byte by byte"), dialect, kind), cases)
    assert {name: peak // MEGABYTE for name, peak in found.items() if peak > 150 * MEGABYTE} == {}


def test_hostile_files_cost_bounded_memory(tmp_path: Path):
    cases: list[tuple[str, ...]] = []
    for number, (name, make) in enumerate(HOSTILE_FILES.items()):
        (tmp_path / str(number)).write_bytes(make())
        cases.append((name, str(tmp_path / str(number))))
    with HostileProvider() as server:
        found = peaks_of((server.url("byte by byte"), "openai", "sync"), cases)
    assert {name: peak // MEGABYTE for name, peak in found.items() if peak > 150 * MEGABYTE} == {}
