"""Mistral's own request validator accepts our requests for Mistral."""

from typing import Any

import pytest
from hypothesis import given
from mistral_common.protocol.instruct import request as request_module
from mistral_common.protocol.instruct import validator as oracle
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from tests.protocol.test_never_a_400 import REQUESTS
from tests.strategies.histories import nasty_histories

from multi_llm_chat import RepairPolicy, render

# The library does not parametrise its generics, which a strict type checker cannot follow.
_REQUEST: Any = getattr(request_module, "ChatCompletionRequest")  # noqa: B009
_VALIDATOR: Any = getattr(oracle, "get_validator")  # noqa: B009

#: Members of the hosted API that the library does not model.
_HOSTED = (
    "stream", "stream_options", "stop", "response_format", "metadata", "parallel_tool_calls",
    "prompt_cache_key",  # docs.mistral.ai, prompt caching
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "model"),
    [
        *(
            pytest.param(version, model, marks=pytest.mark.judge)
            for version, model in (
                (TokenizerVersion.v3, "open-mistral-7b"),
                (TokenizerVersion.v7, "mistral-large-2411"),
                (TokenizerVersion.v11, "mistral-large-latest"),
                (TokenizerVersion.v13, "magistral-medium-latest"),
            )
        ),
        (
            TokenizerVersion.v15,
            "mistral-medium-latest",
        ),  # the first model with a reasoning effort (MIS-17)
    ],
)
@pytest.mark.parametrize("foreign", ["label", pytest.param("adopt", marks=pytest.mark.judge)])
@given(history=nasty_histories, request_=REQUESTS)
def test_mistrals_validator_takes_every_request(
    version: TokenizerVersion,
    model: str,
    foreign: Any,
    history: list[Any],
    request_: dict[str, Any],
):
    body = render(
        history, "mistral", model=model, policy=RepairPolicy(foreign=foreign), **request_
    ).body
    asked = {key: value for key, value in body.items() if key not in _HOSTED}
    for message in asked["messages"]:
        if isinstance(message.get("content"), list):
            # The hosted API accepts documents (MIS-14), but the library has no chunk for them.
            message["content"] = [
                {"type": "text", "text": "a document"} if part["type"] == "document_url" else part
                for part in message["content"]
            ]
    if "tool_calls" in asked["messages"][0] and version > TokenizerVersion.v3:
        # The library skips the first message, with its calls; recordings show that the hosted API accepts it (MIS-18).
        asked["messages"].insert(0, {"role": "user", "content": "hi"})
    request = _REQUEST.model_validate(asked)
    _VALIDATOR(version, oracle.ValidationMode.serving).validate_request(request)
