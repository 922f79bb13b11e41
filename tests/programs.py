"""Programs that a test starts as a user would: a simulator replaces their providers, over real HTTP."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from multi_llm_chat.testing.simulator import Simulator

#: Providers whose keys and addresses a program finds in its environment.
PROVIDERS = ("anthropic", "openai", "openai-chat", "gemini", "groq", "mistral", "ollama")


@contextmanager
def simulated_providers(script: Any) -> Generator[tuple[dict[str, str], Simulator]]:
    """Return the environment of a program whose providers are a simulator."""
    with Simulator(script) as simulator:
        environment = dict(os.environ)
        for name in PROVIDERS:
            variable = name.upper().replace("-", "_")
            environment[f"{variable}_API_KEY"] = "none"
            environment[f"{variable}_BASE_URL"] = simulator.base_url(name)
        # As the vendors' own SDKs read them.
        environment["ANTHROPIC_BASE_URL"] = simulator.base_url("anthropic").removesuffix("/v1")
        environment["GOOGLE_GEMINI_BASE_URL"] = simulator.base_url("gemini").removesuffix("/v1beta")
        environment["GATEWAY_URL"] = simulator.base_url("openai-chat")
        environment["GATEWAY_KEY"] = "none"
        yield environment, simulator
