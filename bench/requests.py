"""Building a request from a long history, with repair and encoding, compared with the vendors' clients on legal messages.

The clients receive messages that need no repair, and send them to a transport that answers at once.
"""

import json
from typing import Any

import httpx2
import msgspec
import openai

from bench.growth import appended, history, send
from bench.measuring import Result, cpu_minima
from multi_llm_chat import render

TURNS = 4000
#: The required speed relative to the openai SDK: for a first request,
#: and for one that adds two turns to an earlier request.
LEAST_RATIO = 20.0
LEAST_APPENDED = 100.0
APPENDED = (1000, 5000)

_ANSWER = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4.1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
}  # fmt: skip


class _Answers(httpx2.BaseTransport):
    def handle_request(self, request: Any) -> Any:
        request.read()
        return httpx2.Response(200, json=_ANSWER)


def run() -> Result:
    """Measure how fast a request is built."""
    turns = history(TURNS)
    legal = render(turns, "openai-chat").body["messages"]
    client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=_Answers()))
    best = cpu_minima(
        {
            "ours, in need of repair": lambda: msgspec.json.encode(
                render(turns, "openai-chat").body
            ),
            "openai SDK, already legal": lambda: client.chat.completions.create(
                model="gpt-4.1", messages=legal
            ),
            "json.dumps alone (limit)": lambda: json.dumps(legal),
        },
        rounds=5,
    )
    ratio = best["openai SDK, already legal"] / best["ours, in need of repair"]
    rows = {name: f"{value * 1e3:7.1f} ms" for name, value in best.items()}
    rows["ours is faster by"] = f"x{ratio:.1f} (at least x{LEAST_RATIO:.0f} wanted)"
    figures = best | {"ratio": ratio}
    failures: list[str] = []
    if ratio < LEAST_RATIO:
        failures.append(f"a long request is only {ratio:.1f} times as fast as the openai SDK")
    for turns_before in APPENDED:
        name = f"two turns behind {turns_before:,}"
        figures[name] = times = _appended(client, turns_before)
        rows[name] = (
            f"x{times:.0f} as fast as the openai SDK (at least x{LEAST_APPENDED:.0f} wanted)"
        )
        if times < LEAST_APPENDED:
            failures.append(f"{name}: only {times:.0f} times as fast as the openai SDK")
    client.close()
    title = f"A request from {TURNS:,} turns, {len(legal):,} messages"
    return Result(title, rows, figures, failures)


def _appended(client: openai.OpenAI, turns: int) -> float:
    """Return how many times as fast as the openai SDK a request with two new turns is built."""
    request, content = appended("openai-chat", turns)
    messages = msgspec.json.decode(content)["messages"]
    best = cpu_minima(
        {
            "ours": lambda: send(request),
            "openai SDK": lambda: client.chat.completions.create(
                model="gpt-4.1", messages=messages
            ),
        },
        rounds=5,
    )
    return best["openai SDK"] / best["ours"]
