"""``provider="simulated"``: scripted answers over real HTTP (seed 004's simulation mode).

``pyproject.toml`` offers it under that name, in the entry points ``multi_llm_chat.providers``.
"""

from typing import Unpack

from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.provider_access import ProviderSettings
from multi_llm_chat.testing.simulator import Rule, Simulator
from multi_llm_chat.testing.simulator.demonstration import demo


class SimulatedProvider(LLMProvider):
    """A provider with its own simulator, which runs until the provider is closed.

    Args:
        acts_as: The provider that is simulated, down to its bytes and what it refuses.
        rule: What is answered to a request.
        settings: The further arguments of ``LLMProvider``; key and address are the simulator's.
    """

    def __init__(
        self,
        *,
        acts_as: str = "openai-chat",
        rule: Rule = demo,
        **settings: Unpack[ProviderSettings],
    ) -> None:
        """Start the simulator."""
        self._simulator = Simulator(rule).start()
        settings.setdefault("speaker", "simulated")
        settings["api_key"] = "simulated"
        settings["base_url"] = self._simulator.base_url(acts_as)
        super().__init__(acts_as, **settings)

    @property
    def notice(self) -> str:
        """The line to show wherever this model speaks."""
        return "This is a simulation: the answers are scripted and mean nothing."

    @property
    def priced_as(self) -> str:
        """A simulation costs nothing, whomever it acts as."""
        return "simulated"

    def close(self) -> None:
        """Close the connections and stop the simulator."""
        super().close()
        self._simulator.stop()
