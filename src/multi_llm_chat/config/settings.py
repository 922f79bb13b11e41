"""The settings as values, with the names they have in ``config.toml``.

Rules:
1. Every setting has a default; an empty file is a working configuration.
2. An unknown name is an error, so that a typo is not silently ignored.
3. No setting is a secret: keys are stored by ``config.secrets``.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

#: What happens to the other speakers' turns in a speaker's requests, see ``RepairPolicy``.
Foreign: TypeAlias = Literal["label", "adopt", "drop"]

Approval: TypeAlias = Literal["always", "ask", "never"]


class SpeakerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one speaker.

    Attributes:
        provider: Its provider, or several: if one fails, the next one answers.
        model: The model; the provider's default if not given.
        base_url: The address, if it is not the provider's own.
        key: The environment variable with its key, if it is not the provider's usual one.
        system_prompt: Its system prompt, in place of the general one.
        options: Settings of each request, such as ``temperature``.
        foreign: What happens to the other speakers' turns in its requests, see ``RepairPolicy``.
        tools: Whether it is offered tools, or which.
        window: The tokens of its context window, for models that are not in the table.
    """

    provider: str | tuple[str, ...]
    model: str | None = None
    base_url: str | None = None
    key: str | None = None
    system_prompt: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    foreign: Foreign | None = None
    tools: bool | tuple[str, ...] = True
    window: int | None = None


class PersonaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A variant of a speaker with its own name, instructions, options and tools.

    Attributes:
        speaker: The speaker (or provider) whose provider, key and address it uses.
        model: Its model, if it is not the speaker's.
        system_prompt: Its instructions.
        options: Settings of each request, which override those of the speaker.
        tools: Whether it is offered tools, or which; as for the speaker if not given.
    """

    speaker: str
    model: str | None = None
    system_prompt: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    tools: bool | tuple[str, ...] | None = None


class PriceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a million tokens of a model in US dollars."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class RateSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The rate limit of a provider's key, for all workers together.

    ``requests`` and ``tokens`` are per minute; ``burst`` is how many seconds' worth of them may be used at once.
    """

    requests: float | None = None
    tokens: float | None = None
    burst: float = 10.0


class BudgetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The most that may be spent on one answer, on a conversation, by a user, and by a user on one day.

    Money in US dollars, and tokens of input and output together. A request that would exceed it is not sent.
    """

    run: float | None = None
    conversation: float | None = None
    user: float | None = None
    day: float | None = None
    run_tokens: int | None = None
    conversation_tokens: int | None = None
    user_tokens: int | None = None
    day_tokens: int | None = None


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How tools are used.

    ``approval`` is the rule for tools that have none of their own under ``rules``; without it, each tool's own
    hints decide. ``folders`` may be read by the built-in filesystem server; without any it is not started.
    """

    approval: Approval | None = None
    rules: dict[str, Approval] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    max_iterations: int = 10
    timeout: float = 30.0
    folders: tuple[str, ...] = ()


class ContextSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens when a conversation outgrows a model's window.

    ``summarise_with`` names the speaker that summarises the turns left out; without it, a note only says what is left out.
    """

    compress: bool = True
    summarise_with: str | None = None
    windows: dict[str, int] = field(default_factory=dict)


class CouncilSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The speaker that writes the verdict after several speakers have answered, and its instruction."""

    speaker: str | None = None
    prompt: str = (
        "Several models have answered the question above. Weigh their answers, say where they differ "
        "and who is right, and give the best answer."
    )


class PanelSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A council that is addressed as one speaker: ``@council:NAME``.

    ``members`` answer, ``chair`` writes the verdict about their answers; the first member if not given.
    """

    members: tuple[str, ...]
    chair: str | None = None


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``config.toml``."""

    default_speaker: str | None = None
    system_prompt: str | None = None
    foreign: Foreign = "label"
    store: str | None = None
    speakers: dict[str, SpeakerSettings] = field(default_factory=dict)
    personas: dict[str, PersonaSettings] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tools: ToolSettings = ToolSettings()
    context: ContextSettings = ContextSettings()
    council: CouncilSettings = CouncilSettings()
    councils: dict[str, PanelSettings] = field(default_factory=dict)
    prices: dict[str, PriceSettings] = field(default_factory=dict)
    rates: dict[str, RateSettings] = field(default_factory=dict)
    budget: BudgetSettings = BudgetSettings()
