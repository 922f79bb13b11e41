"""Cost must grow linearly with the input: ten times the input may cost at most twelve times as much.

The small inputs are measured ten in a row, so that both measurements take equally long on a busy machine.
"""

import gc
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace

from bench.measuring import Result, cpu_minima
from multi_llm_chat import Exchange, render
from multi_llm_chat.agent.window import Counter, fit
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.metering import counter_for
from multi_llm_chat.request import ModelRequest

LIMIT = 12.0
PROVIDERS = ("openai", "openai-chat", "anthropic", "gemini", "mistral")


def history(turns: int) -> list[dict[str, Any]]:
    """Return a tool-using conversation that needs repair: every turn reuses the ids, and results are out of order.

    Its speaker is OpenAI's model; for every other provider it is a foreign speaker whose texts must be labelled.
    """
    made: list[dict[str, Any]] = []
    while len(made) < turns:
        number = len(made)
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
            {"role": "chatgpt", "content": [{"type": "text", "content": "Let me look."}, *calls]},
            {"role": "tool", "content": results},
            {"role": "chatgpt", "content": "It is sunny, 25°C."},
        ]
    return made[:turns]


def appended(provider: str, turns: int) -> tuple[ModelRequest, bytes]:
    """Return a request with two new turns after ``turns`` that were already sent, and its whole body."""
    made = [
        turn if turn.role != "chatgpt" else replace(turn, role="assistant")
        for turn in read_history(history(turns))
    ]
    sent = render(ModelRequest(tuple(made), provider))
    new = read_history(
        [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]
    )
    request = ModelRequest((*made, *new), provider, previous=sent.transcript)
    return request, render(request).content


def send(request: ModelRequest) -> bytes:
    """Return the bytes of a request."""
    return Exchange(request).request().body


def loop(provider: str, rounds: int) -> None:
    """Build the requests of a loop of so many rounds, each extending the one before it."""
    turns = read_history([{"role": "user", "content": "Look around."}])
    request = ModelRequest(turns, provider)
    for number in range(rounds):
        sent = Exchange(request)
        sent.request()
        call = ToolCall("look", {"at": number}, f"c{number}")
        result = ToolResult("look", "seen", call.tool_call_id)
        turns = (*turns, Turn("assistant", (call,)), Turn("tool", (result,)))
        request = ModelRequest(turns, provider, previous=sent.rendered.transcript)


def fragments(count: int) -> bytes:
    """Return a streamed call whose arguments arrive in so many pieces."""
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
    """Decode a stream as it arrives from a socket."""
    exchange = Exchange([], "openai-chat")
    for at in range(0, len(stream), 16384):
        exchange.receive(stream[at : at + 16384])
    exchange.end()


def shortened(turns: Any, counter: Callable[[], Counter]) -> None:
    """Count a history's tokens and shorten it to half of them."""
    half = Counter().turns(turns) // 2
    _, note = fit(turns, half, "", (), counter=counter(), limit=half)
    assert note is not None


def _each(task: Callable[[Any], object], inputs: Iterable[Any]) -> None:
    for one in inputs:
        task(one)


def run() -> Result:
    """Measure the growth of both paths."""
    turns = history(5000)
    pieces = [turns[at : at + 500] for at in range(0, 5000, 500)]
    tasks: dict[str, tuple[Callable[[Any], object], list[Any], Any]] = {
        f"render {name}, 500 and 5,000 turns": (partial(render, provider=name), pieces, turns)
        for name in PROVIDERS
    }
    calls = [fragments(500)] * 10
    tasks["decode one call, 500 and 5,000 fragments"] = (decode, calls, fragments(5000))
    read = [read_history(piece) for piece in pieces]
    counters = {"an estimate": Counter, "a tokenizer": partial(counter_for, "gpt-5")}
    for name, counter in counters.items():
        fitting = partial(shortened, counter=counter)
        tasks[f"count and fit by {name}, 500 and 5,000 turns"] = (
            fitting,
            read,
            read_history(turns),
        )
    # Exclude the inputs from garbage collection:
    # otherwise chance decides which measurement pays for scanning them.
    gc.collect()
    gc.freeze()
    result = Result(f"Growth (ten times the input; limit x{LIMIT:.0f})", {}, {})
    for name, (task, small, large) in tasks.items():
        best = cpu_minima(
            {"small": partial(_each, task, small), "large": partial(task, large)}, rounds=20
        )
        one, ten = best["small"] / 10, best["large"]
        result.rows[name] = f"{one * 1e3:6.1f} ms, {ten * 1e3:6.1f} ms: x{ten / one:.1f}"
        result.figures[name] = {"small": one, "large": ten, "ratio": ten / one}
        if ten / one > LIMIT:
            result.failures.append(f"{name} grew {ten / one:.1f} times")
    return result
