"""A request from a long history, repaired and encoded, against the vendors' clients on legal messages.

The clients are given messages that need no repair, and send them to a transport that answers at once.
"""

import json
from typing import Any

import httpx2
import msgspec
import openai

from bench.growth import history
from bench.measuring import Result, cpu_minima
from multi_llm_chat import render

TURNS = 4000
LEAST_RATIO = 20.0

_ANSWER = {
    "id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4.1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
}  # fmt: skip


class _Answers(httpx2.BaseTransport):
    def handle_request(self, request: Any) -> Any:
        request.read()
        return httpx2.Response(200, json=_ANSWER)


def run() -> Result:
    """Measure the building of a request."""
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
    client.close()
    ratio = best["openai SDK, already legal"] / best["ours, in need of repair"]
    rows = {name: f"{value * 1e3:7.1f} ms" for name, value in best.items()}
    rows["ours is faster by"] = f"x{ratio:.1f} (at least x{LEAST_RATIO:.0f} wanted)"
    return Result(
        f"A request from {TURNS:,} turns, {len(legal):,} messages",
        rows,
        best | {"ratio": ratio},
        []
        if ratio >= LEAST_RATIO
        else [f"a long request is only {ratio:.1f} times as fast as the openai SDK"],
    )
