"""A company's gateway: another address, extra headers, options of one's own."""

import os

from multi_llm_chat import create_provider

provider = create_provider(
    "openai-chat",
    model="our-model",
    api_key=os.environ["GATEWAY_KEY"],
    base_url=os.environ["GATEWAY_URL"],
    headers={"x-team": "search"},
    options={"temperature": 0.2, "max_tokens": 200, "extra": {"user": "anna"}},
)
with provider:
    reply = provider.complete("Say hello.")
    print(reply.text, reply.usage.output_tokens)
