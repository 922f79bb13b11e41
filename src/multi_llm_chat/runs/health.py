"""The health of this process: alive, ready, and its metrics.

Rules:
1. ``/healthz``: the process answers. ``/readyz``: it reaches the database. ``/metrics``: Prometheus' text form.
2. No response contains text of a conversation, a user's name or a key.
"""

import asyncio
import contextlib
from typing import Final

from msgspec import Struct

from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.leases import counts
from multi_llm_chat.store import Store, count_runs, list_runs
from multi_llm_chat.store.runs import workers

#: Seconds after which a database that does not answer counts as unreachable.
PATIENCE: Final = 5.0
_LONGEST_REQUEST: Final = 8_192
_STATUSES: Final = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


class Readiness(Struct, frozen=True):
    """Whether this process can work; ``reason`` is one word where it cannot."""

    is_ready: bool
    reason: str = ""


async def readiness(store: Store) -> Readiness:
    """Whether the database answers."""
    try:
        async with asyncio.timeout(PATIENCE):
            await store.arun(count_runs)
    except TimeoutError:
        return Readiness(is_ready=False, reason="slow")
    except StoreError as error:
        return Readiness(is_ready=False, reason=error.reason or "broken")
    return Readiness(is_ready=True)


async def metrics(store: Store) -> str:
    """All metrics in Prometheus' text format."""
    by_status = await store.arun(count_runs)
    running = await store.arun(list_runs, limit=100_000)
    there = await store.arun(workers)
    own = counts()
    lines = [
        *_metric("multi_llm_chat_runs", "gauge", "Runs in the store by status.",
            {f'{{status="{status}"}}': by_status.get(status, 0) for status in ("running", "done", "failed", "cancelled")}),
        *_metric("multi_llm_chat_runs_free", "gauge", "Runs that no process drives.", {"": sum(info.is_free for info in running)}),
        *_metric("multi_llm_chat_runs_held", "gauge", "Runs that this process drives.", {"": own["runs_held"]}),
        *_metric("multi_llm_chat_writer_cpu_seconds_total", "counter", "CPU time of writing events and leases.", {"": own["writer_cpu_seconds"]}),
        *_metric("multi_llm_chat_workers", "gauge", "Workers seen within a minute.", {"": sum(age < 60_000 for age in there.values())}),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, text: str, values: dict[str, float]) -> list[str]:
    samples = [f"{name}{labels} {value:g}" for labels, value in values.items()]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *samples]


async def answer(store: Store, path: str) -> tuple[int, str]:
    """The status and the text for a path."""
    match path:
        case "/healthz":
            return 200, "ok\n"
        case "/readyz":
            found = await readiness(store)
            return (200, "ok\n") if found.is_ready else (503, f"{found.reason}\n")
        case "/metrics":
            try:
                return 200, await metrics(store)
            except StoreError as error:
                return 503, f"{error.reason}\n"
        case _:
            return 404, "not found\n"


async def serve_health(store: Store, port: int, host: str = "0.0.0.0") -> asyncio.Server:  # noqa: S104 probes come from outside; the answers hold no secret
    """Serve the probes over HTTP, for processes without a web server."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(2 * PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                words = head.split(b" ", 2)
                path = (
                    words[1].partition(b"?")[0].decode("ascii", "replace") if len(words) > 1 else ""
                )
                status, text = await answer(store, path)
                body = text.encode()
                writer.write(
                    f"HTTP/1.1 {status} {_STATUSES[status]}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        writer.close()

    return await asyncio.start_server(reply, host, port, limit=_LONGEST_REQUEST)
