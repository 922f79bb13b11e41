"""Our ``Exchange``, fed from the simulator over a plain connection."""

import http.client
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from multi_llm_chat.errors import ConnectionFailed, ProviderError
from multi_llm_chat.events import Event, Finish, Usage
from multi_llm_chat.history.values import Media, Text, Thinking, ToolCall, Turn
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import Simulator

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
QUESTION: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "content": "What is the weather in Rome?"}]}
]


class Outcome(NamedTuple):
    """The result of a reply."""

    events: list[Event]
    turn: Turn
    error: ProviderError | None

    @property
    def text(self) -> str:
        return "".join(part.content for part in self.turn.parts if isinstance(part, Text))

    @property
    def thinking(self) -> str:
        return "".join(part.content for part in self.turn.parts if isinstance(part, Thinking))

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.turn.parts if isinstance(part, ToolCall)]

    @property
    def media(self) -> list[Media]:
        return [part for part in self.turn.parts if isinstance(part, Media)]

    @property
    def usage(self) -> Usage | None:
        return next((event for event in self.events if isinstance(event, Usage)), None)

    @property
    def finish(self) -> Finish | None:
        return next((event for event in self.events if isinstance(event, Finish)), None)


def ask(
    simulator: Simulator,
    provider: str,
    *,
    stream: bool = True,
    history: list[Any] | None = None,
    tools: list[Any] | None = None,
    key: str = "sk-test",
    options: dict[str, Any] | None = None,
) -> Outcome:
    """Send a request to the simulator and read its reply, whatever it is."""
    exchange = Exchange(
        QUESTION if history is None else history,
        provider,
        tools=[WEATHER] if tools is None else tools,
        stream=stream,
        base_url=simulator.base_url(provider),
        api_key=key,
        options=options,
    )
    events: list[Event] = []
    try:
        for piece in _body(exchange):
            events += exchange.receive(piece)
        events += exchange.end()
    except ProviderError as error:
        return Outcome(events, exchange.turn, error)
    return Outcome(events, exchange.turn, None)


def _body(exchange: Exchange) -> Iterator[bytes]:
    request = exchange.request()
    address = urlsplit(request.url)
    path = f"{address.path}?{address.query}" if address.query else address.path
    with closing(
        http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    ) as connection:
        try:
            connection.request(request.method, path, request.body, request.headers)
            with connection.getresponse() as response:
                exchange.begin(response.status, dict(response.getheaders()))
                while piece := response.read1(7):
                    yield piece
        except (http.client.HTTPException, ConnectionError) as error:
            # The driver of an exchange ends it when the connection ends.
            if not isinstance(error, http.client.IncompleteRead):
                raise ConnectionFailed(str(error), before_first_byte=True) from error


ALL_ROWS = sorted(ROWS)
CHAT_ROWS = sorted(row.name for row in ROWS.values() if row.dialect == "openai_chat")
