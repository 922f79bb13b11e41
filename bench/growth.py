"""Cost must grow with the input and no faster: ten times as much may cost twelve times as much."""

import json
from functools import partial
from typing import Any

from bench.measuring import cpu_minima, show
from multi_llm_chat import Exchange, render

LIMIT = 12.0
PROVIDERS = ("openai", "openai-chat", "anthropic", "gemini", "mistral")


def history(turns: int) -> list[dict[str, Any]]:
    """A tool-using conversation of several speakers, a third of it in need of repair."""
    made: list[dict[str, Any]] = []
    while len(made) < turns:
        number = len(made)
        speaker = ("chatgpt", "claude", "gemini", "mistral")[number % 4]
        calls = [
            {"type": "tool_call", "content": {"name": "get_weather", "arguments": {"city": f"c{number}"}, "tool_call_id": f"call_{slot}"}}
            for slot in range(2)
        ]  # fmt: skip
        results = [
            {"type": "tool_result", "name": "get_weather", "content": "25°C and sunny", "tool_call_id": f"call_{slot}"}
            for slot in (1, 0)
        ]  # fmt: skip
        made += [
            {"role": "user", "content": f"What is the weather in city {number}?"},
            {"role": speaker, "content": [{"type": "text", "content": "Let me look."}, *calls]},
            {"role": "tool", "content": results},
            {"role": speaker, "content": "It is sunny, 25°C."},
        ]
    return made[:turns]


def fragments(count: int) -> bytes:
    """A streamed call whose arguments come in so many pieces."""
    text = json.dumps({"text": "x{}" * (count * 4 // 3)})
    size = -(-len(text) // count)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    deltas: list[dict[str, Any]] = [
        {"index": 0, "id": "call_1", "function": {"name": "write", "arguments": ""}},
        *({"index": 0, "function": {"arguments": piece}} for piece in pieces),
    ]
    lines = [
        json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]})
        for delta in deltas
    ]
    lines.append(
        json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    )
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def decode(stream: bytes) -> None:
    """Read a stream as it comes from a socket."""
    exchange = Exchange([], "openai-chat")
    for at in range(0, len(stream), 16384):
        exchange.receive(stream[at : at + 16384])
    exchange.end()


def run() -> list[str]:
    """Print the growth of both paths; returns what was over the limit."""
    failures: list[str] = []
    rows: dict[str, str] = {}
    small, large = history(500), history(5000)
    for provider in PROVIDERS:
        best = cpu_minima(
            {"small": partial(render, small, provider), "large": partial(render, large, provider)},
            rounds=5,
        )
        ratio = best["large"] / best["small"]
        rows[f"render {provider}"] = (
            f"500 turns {best['small'] * 1e3:6.1f} ms, 5,000 turns {best['large'] * 1e3:6.1f} ms: x{ratio:.1f}"
        )
        if ratio > LIMIT:
            failures.append(f"render {provider} grew {ratio:.1f} times")
    few, many = fragments(500), fragments(5000)
    best = cpu_minima({"small": lambda: decode(few), "large": lambda: decode(many)})
    ratio = best["large"] / best["small"]
    rows["decode one call"] = (
        f"500 fragments {best['small'] * 1e3:6.1f} ms, 5,000 fragments {best['large'] * 1e3:6.1f} ms: x{ratio:.1f}"
    )
    if ratio > LIMIT:
        failures.append(f"decoding a call grew {ratio:.1f} times")
    show(f"Growth (ten times the input; limit x{LIMIT:.0f})", rows)
    return failures
