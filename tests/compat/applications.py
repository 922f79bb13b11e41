"""An application that sends its own requests: ``http.client``, payloads as dicts, and a handler."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from multi_llm_chat.compat.handlers import (
    ClaudeHandler,
    GeminiHandler,
    GptHandler,
    StreamContext,
    StreamHandler,
    StreamingRequest,
    StreamResult,
)
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.testing.simulator import Simulator

DIALECTS = ["openai-chat", "openai", "anthropic", "gemini"]
HANDLERS: dict[str, type[StreamHandler]] = {
    "openai-chat": GptHandler,
    "openai": GptHandler,
    "anthropic": ClaudeHandler,
    "gemini": GeminiHandler,
}
PATHS = {
    "openai-chat": "/chat/completions",
    "openai": "/responses",
    "anthropic": "/messages",
    "gemini": "/models/{model}:streamGenerateContent?alt=sse",
}


def payload_for(provider: str, question: str) -> dict[str, Any]:
    """Return the payload that an application would send for this question, with some of its own keys."""
    message = {"role": "user", "content": question}
    model = model_of(provider)
    return {
        "openai-chat": {"model": model, "stream": True, "messages": [message], "user": "u-1"},
        "openai": {"model": model, "stream": True, "input": question, "user": "u-1"},
        "anthropic": {
            "model": model,
            "stream": True,
            "max_tokens": 4000,
            "messages": [message],
            "metadata": {"user_id": "u-1"},
        },
        "gemini": {
            "contents": [{"role": "user", "parts": [{"text": question}]}],
            "generationConfig": {"candidateCount": 1},
        },
    }[provider]


def model_of(provider: str) -> str:
    # The default model of this row accepts tools only without reasoning; an older one has no such rule.
    return "gpt-4.1" if provider == "openai-chat" else provider_row(provider).default_model


class Application:
    """Sends payloads to the simulator and records what it received."""

    def __init__(self, simulator: Simulator, provider: str, handler: StreamHandler) -> None:
        self.provider = provider
        self.handler = handler
        self.output: list[dict[str, Any]] = []
        self.requests: list[StreamingRequest] = []
        self._base = urlsplit(simulator.base_url(provider))

    def send(self, payload: dict[str, Any]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._base.netloc, timeout=30)
        path = self._base.path + PATHS[self.provider].format(model=model_of(self.provider))
        headers = {"Content-Type": "application/json", "Connection": "close"}
        headers |= provider_row(self.provider).headers
        connection.request("POST", path, json.dumps(payload), headers)
        response = connection.getresponse()
        connection.close()  # the response holds the socket from here on
        return response

    def make_request(self, request: StreamingRequest) -> http.client.HTTPResponse:
        self.requests.append(request)
        return self.send(request.payload)

    def context(self, **settings: Any) -> StreamContext:
        usual: dict[str, Any] = {
            "make_request": self.make_request,
            "model": model_of(self.provider),
            "emit_stream_output": self.output.extend,
        }
        return StreamContext(**usual | settings)

    def ask(self, question: str, **settings: Any) -> StreamResult:
        """Prepare and send a payload, and let the handler process the reply."""
        payload = payload_for(self.provider, question)
        self.handler.prepare_payload(payload, model=model_of(self.provider))
        return self.follow(payload, **settings)

    def follow(self, payload: dict[str, Any], **settings: Any) -> StreamResult:
        request = StreamingRequest("request", payload)
        return self.handler.process_stream(
            self.send(payload), request, {}, self.context(**settings)
        )
