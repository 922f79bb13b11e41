"""The description of a run: provider, history, tools, limits and prices."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.window.run_window import Compression
from multi_llm_chat.config.settings import BudgetSettings
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.metering.prices import Price
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.runs.transcripts import Transcripts
from multi_llm_chat.store.rates import RateLimit
from multi_llm_chat.tools.tool_runner import ToolRunner

#: The version of ``recorded_spec``. A run that was recorded in another version is not resumed.
VERSION: Final = 1


class RunSpec(Struct, frozen=True):
    """The description of one run.

    ``base`` is the id of the turn it answers, ``meta`` goes into the ``meta`` of its turns, ``schema`` is the JSON Schema of the answer,
    ``rates`` are the rate limits of providers by name, ``hooks`` are called around model calls, ``transcripts`` record what the models of
    the conversation were sent, ``budget`` limits the spending. A run without a journal has no id in ``run``.
    """

    provider: LLMProvider
    history: tuple[Turn, ...]
    tools: ToolRunner
    speaker: str = ""
    run: str = ""
    conversation: str | None = None
    base: str | None = None
    system_prompt: str | None = None
    policy: RepairPolicy | None = None
    options: Options | None = None
    limits: LoopLimits = LoopLimits()
    compression: Compression | None = Compression()
    schema: JsonObject | None = None
    prices: Mapping[str, Price] = {}
    rates: Mapping[str, RateLimit] = {}
    meta: JsonObject = {}
    hooks: RunHooks | None = None
    transcripts: Transcripts | None = None
    budget: BudgetSettings | None = None

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.provider.model or ""

    @property
    def purpose(self) -> str:
        """The purpose of a run that is not an ordinary answer: ``verdict``."""
        return "verdict" if self.meta.get("verdict") else ""

    @property
    def request_options(self) -> Options:
        """The options of each request."""
        options = self.options or self.provider.options
        return options if self.schema is None else replace(options, schema=self.schema)

    @property
    def labels(self) -> Mapping[str, str]:
        """The names of the run in telemetry."""
        return {
            "run": self.run,
            "conversation": self.conversation or "",
            "agent": self.speaker or self.provider.speaker,
            "provider": self.provider.name,
            "model": self.model,
        }

    def recorded(self) -> JsonObject:
        """The part that the store keeps; a resolver finds the rest in the conversation and the workspace."""
        return recorded_spec(self.meta, self.schema)


def recorded_spec(meta: JsonObject, schema: JsonObject | None) -> JsonObject:
    """The part of a run's description that the store keeps."""
    kept: JsonObject = {"version": VERSION}
    if meta:
        kept["meta"] = meta
    if schema is not None:
        kept["schema"] = schema
    return kept
