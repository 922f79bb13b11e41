"""A real llama.cpp server validates our requests on its three routes: Chat Completions, Messages and Responses (LCP-01 to LCP-14).

The runtime of the ``local`` extra listens on HTTP. Every case of ``tests/corpus`` is a turn of the history.
"""

import http.client
import json
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.protocol.corpus import cases, run
from tests.strategies.histories import nasty_histories
from tests.strategies.schemas import tool_definitions

from multi_llm_chat import Rendered, render
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.errors import ContextTooLong
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.local import DEFAULT_MODEL

pytestmark = pytest.mark.judge

#: The provider that sends its requests to each route.
ROUTES = {"chat": "llamacpp", "messages": "anthropic", "responses": "openai"}
TOOLS: list[Any] = [{"name": "get_weather", "inputSchema": {"type": "object", "properties": {}}}]
QUESTION = {"role": "user", "content": "hi"}
PICTURE = {"type": "media", "mime": "image/png", "data": "iVBORw0KGgo=", "name": "map.png"}


@pytest.fixture(scope="module")
def server(models: Path) -> Generator[str]:
    """Run the server, and return its address."""
    runtime: Any = import_module("xllamacpp")
    wanted = runtime.CommonParams()
    wanted.model.path = str(models / f"{DEFAULT_MODEL}.gguf")
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    wanted.n_ctx, wanted.n_parallel = 8192, 1
    wanted.warmup, wanted.verbosity, wanted.ui = False, -1, False
    for processors in (wanted.cpuparams, wanted.cpuparams_batch):
        processors.n_threads = 1
    running = runtime.Server(wanted)
    yield running.listening_address
    del running


def written(history: Any, route: str, server: str, **more: Any) -> Rendered:
    options = {"max_tokens": 1} if route != "responses" else {"extra": {"max_output_tokens": 1}}
    return render(
        history,
        ROUTES[route],
        model="default",
        base_url=f"{server}/v1",
        options=options,
        **more,
    )


def judge(server: str, rendered: Rendered) -> tuple[int, str]:
    """Return the server's status, and its message if it refuses the request."""
    address = urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        body = json.dumps(rendered.body).encode()
        connection.request(
            "POST", f"/v1{rendered.path}", body, {"Content-Type": "application/json"}
        )
        reply = connection.getresponse()
        said = reply.read()
    finally:
        connection.close()
    return reply.status, "" if reply.status == 200 else said.decode(errors="replace")[:500]


def accepts(server: str, history: Any, route: str, **more: Any) -> None:
    rendered = written(history, route, server, **more)
    status, said = judge(server, rendered)
    if "image input is not supported" in said:
        # LCP-08: a request cannot know whether the server has a projector; a client learns it from the refusal.
        provider = create_provider(
            ROUTES[route], model="default", base_url=f"{server}/v1", api_key="k"
        )
        with provider:
            reply = provider.complete(history, options={"max_tokens": 16})
        assert [note.message for note in reply.notes][-1] == "asked again with drop_media"
        return
    assert (status, said) == (200, ""), rendered.body


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", cases(), ids=[case.id for case in cases()])
def test_every_case_of_the_corpus_is_accepted(server: str, case: Any, route: str) -> None:
    parts = run(case.dialect, [case.stream]).parts
    answers = [
        ToolResult(part.name, "21 degrees", part.tool_call_id)
        for part in parts
        if isinstance(part, ToolCall)
    ]
    history: list[Any] = [QUESTION, Turn("assistant", tuple(parts))]
    if answers:
        history.append(Turn("tool", tuple(answers)))
    accepts(server, history, route, tools=TOOLS)
    others = [replace(turn, role="gemini") if turn is history[1] else turn for turn in history]
    accepts(server, [*others, QUESTION], route, system_prompt="Be brief.")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "history",
    [
        [],
        [{"role": "assistant", "content": "Hello"}, QUESTION],
        [QUESTION, {"role": "assistant", "content": "Sure"}],
        [QUESTION, {"role": "system", "content": "Be brief."}],
        [QUESTION, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"role": "system", "content": "Be brief."}],
        [
            {"role": "user", "content": ["look", PICTURE]}
        ],  # LCP-08: no projector, so the picture is replaced by a description
    ],
)
def test_every_outer_shape_is_accepted(server: str, route: str, history: list[Any]) -> None:
    accepts(server, history, route)


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    history=nasty_histories, tools=st.none() | tool_definitions(), route=st.sampled_from([*ROUTES])
)
def test_any_history_is_accepted(server: str, history: list[Any], tools: Any, route: str) -> None:
    rendered = written(history, route, server, tools=tools)
    status, said = judge(server, rendered)
    # LCP-13 and LCP-08 do not concern the request's form, but the window, and a projector for pictures.
    if "exceeds the available context size" in said or "image input is not supported" in said:
        return
    assert (status, said) == (200, ""), rendered.body


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("chat", {"messages": [{"role": "user"}], "max_tokens": 1}, "content"),  # LCP-02
        ("responses", {"input": [{"role": "assistant", "content": "x"}]}, "type"),  # LCP-14
    ],
)
def test_the_judge_refuses_what_it_should(
    server: str, route: str, body: dict[str, Any], words: str
) -> None:
    rendered = written([QUESTION], route, server)
    status, said = judge(server, Rendered("", "", rendered.path, body, (), {}, {}, {}))
    assert status >= 400
    assert words in said


@pytest.mark.parametrize("route", ROUTES)
def test_lcp_13_a_request_that_is_too_long_is_called_so(server: str, route: str) -> None:
    words: list[Any] = [{"role": "user", "content": "rain and snow " * 5000}]
    provider = create_provider(ROUTES[route], model="default", base_url=f"{server}/v1", api_key="k")
    with provider, pytest.raises(ContextTooLong):
        provider.complete(words)
