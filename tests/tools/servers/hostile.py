"""A server of the older protocol that acts, mostly badly, as its first argument says.

It is plain Python, so that it starts quickly and can send what no library would.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
READS = {"readOnlyHint": True}
MANNER = sys.argv[1]


def tool(name: str, schema: Any = OBJECT) -> dict[str, Any]:
    return {"name": name, "description": "", "inputSchema": schema, "annotations": READS}


LISTS: dict[str, list[dict[str, Any]]] = {
    "bad-schema": [
        tool("elsewhere", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/"}}}),
        tool("nonsense", {"type": "object", "properties": {"a": {"type": 5, "minimum": "x"}}}),
        tool("endless", {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}),
        tool("regex", {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}),
        tool("answer"),
    ],
    "markup": [
        tool("<img src=x onerror=alert(1)>"),
        tool("answer"),
        tool("answer"),
        tool(""),
        tool("x" * 1000),
    ],
}
CALLS: list[Any] = []
PAGE = {
    "mode": "url",
    "message": "Pay here.",
    "url": "https://pay.example/1",
    "elicitationId": "1",
}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "asks-model": ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
    "asks-url": ("elicitation/create", PAGE),
    "asks-script": ("elicitation/create", PAGE | {"url": "javascript:alert(1)"}),
    "asks-roots": ("roots/list", {}),
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def answer(identifier: Any, result: dict[str, Any]) -> None:
    send({"id": identifier, "result": result})


def words(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def hang() -> None:
    while sys.stdin.readline():
        pass
    os._exit(0)


def initialize(identifier: Any) -> None:
    if MANNER == "hang":
        hang()
    if MANNER == "flood":
        while True:
            sys.stdout.write("I am a log line\n" * 1000)
    if MANNER == "unfinished":
        while True:
            sys.stdout.write("x" * 1_000_000)
    capabilities = {"tools": {"listChanged": True}}
    answer(
        identifier,
        {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": {"name": MANNER, "version": "0"},
        },
    )


def list_tools(identifier: Any, params: dict[str, Any]) -> None:
    tools = LISTS.get(MANNER, [tool("answer")])
    cursor = params.get("cursor")
    if MANNER == "endless":
        number = int(cursor or 0)
        answer(identifier, {"tools": [tool(f"tool{number}")], "nextCursor": str(number + 1)})
    elif MANNER == "circle":
        answer(identifier, {"tools": tools, "nextCursor": "again"})
    elif MANNER == "many":
        answer(identifier, {"tools": [tool(f"tool{number}") for number in range(5_000)]})
    elif MANNER == "no-list":
        answer(identifier, {"tools": [{"name": 5}]})
    else:
        answer(identifier, {"tools": tools})


def answer_others(identifier: Any) -> None:
    answer(identifier + 1000, words("not for you"))
    answer("who", words("not for you either"))


def die(identifier: Any) -> None:
    sys.stderr.write("I am dying\n")
    sys.stderr.flush()
    os._exit(7)


def demand_a_visit(identifier: Any) -> None:
    CALLS.append(identifier)
    if len(CALLS) > 1:
        answer(identifier, words("visit answers"))
        return
    data = {"elicitations": [PAGE]}
    send({"id": identifier, "error": {"code": -32042, "message": "visit first", "data": data}})


def change(identifier: Any) -> None:
    LISTS["changes"] = [tool("answer"), tool("late")]
    send({"method": "notifications/tools/list_changed"})
    answer(identifier, words("changed"))


def ask(identifier: Any) -> None:
    method, params = QUESTIONS[MANNER]
    send({"id": "question", "method": method, "params": params})
    reply = json.loads(sys.stdin.readline())
    answer(identifier, words(json.dumps(reply.get("error") or reply.get("result"))))


DAMAGED = {"type": "image", "mimeType": "image/png", "data": "<svg onload=alert(1)>"}
RESULTS: dict[str, dict[str, Any]] = {
    "shapeless": {"content": "not a list"},
    "damaged": {"content": [DAMAGED]},
    "structured": {"content": [], "structuredContent": {"a": 1}},
}
LENGTHS = {"huge": 50_000_000, "large": 5_000_000}
ACTS: dict[str, Callable[[Any], None]] = {
    "other-id": answer_others,
    "dies": die,
    "visit": demand_a_visit,
    "changes": change,
    **dict.fromkeys(QUESTIONS, ask),
}


def call_tool(identifier: Any) -> None:
    if MANNER in ACTS:
        ACTS[MANNER](identifier)
    elif MANNER in LENGTHS:
        answer(identifier, words("x" * LENGTHS[MANNER]))
    else:
        answer(identifier, RESULTS.get(MANNER) or words(f"{MANNER} answers"))


def handle(message: dict[str, Any]) -> None:
    identifier = message.get("id")
    method = message.get("method")
    if MANNER == "garbage":
        sys.stdout.write('Loading…\n{"half": \n[]\n\n')
    if method == "initialize":
        initialize(identifier)
    elif method == "tools/list":
        list_tools(identifier, message.get("params") or {})
    elif method == "tools/call":
        call_tool(identifier)
    elif identifier is not None and method is not None:
        send({"id": identifier, "error": {"code": -32601, "message": "unknown method"}})


while line := sys.stdin.readline():
    handle(json.loads(line))
