"""The plan of a message: which speakers answer, and the ``RunSpec`` of each.

Rules:
1. A plan takes the history and the settings and returns values; it reads and writes nothing.
2. A conversation's own settings override a speaker's, a speaker's override the general ones.
3. Mentions are not sent to the models; the text as typed is kept in the turn's ``meta["typed"]``.
"""

import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.window.compression_notes import WHOLE
from multi_llm_chat.agent.window.run_window import Compression
from multi_llm_chat.chat.branch import new_id
from multi_llm_chat.chat.council import CHAIR, COUNCIL_PREFIX
from multi_llm_chat.chat.mentions import Addressed, read_mentions
from multi_llm_chat.chat.tool_scope import tools_for
from multi_llm_chat.config.settings import PriceSettings, Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import Cut
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject, Media, Part, Text, Turn
from multi_llm_chat.metering.prices import Price
from multi_llm_chat.protocol.request_settings import read_options
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.runs.spec import RunSpec
from multi_llm_chat.runs.transcripts import Transcripts
from multi_llm_chat.store.rates import RateLimit
from multi_llm_chat.tools.tool_runner import ToolRunner

if TYPE_CHECKING:
    from multi_llm_chat.chat.speakers import Speaker, Speakers


class Message(Struct, frozen=True):
    """The user's turn, the speakers that answer it, and the chair of the council if it addresses one."""

    turn: Turn
    addressed: tuple[str, ...]
    chair: str | None = None


class Planner:
    """Makes plans from settings, speakers and tools."""

    def __init__(
        self,
        settings: Settings,
        speakers: "Speakers",
        tools: ToolRunner,
        *,
        limits: LoopLimits | None = None,
        hooks: RunHooks | None = None,
    ) -> None:
        self._settings = settings
        self._speakers = speakers
        self._tools = tools
        self._run_limits = limits or LoopLimits(iterations=settings.tools.max_iterations)
        self._hooks = hooks
        self._transcripts = Transcripts()
        #: The rate limits of providers, by name.
        self.limits = {
            name: RateLimit(each.requests, each.tokens, each.burst)
            for name, each in settings.rates.items()
        }
        self._prices = configured_prices(settings)

    def names(self, own: JsonObject) -> tuple[str, ...]:
        """The speakers that take part in a conversation with these settings of its ``own``."""
        chosen = as_list(own.get("speakers"))
        if not chosen:
            return tuple(self._speakers)
        names = [name for name in self._speakers if name in chosen]
        others = (name for name in chosen if name in self._speakers or name in self.councils)
        return tuple(dict.fromkeys([*names, *others]))

    def message(
        self, text: str, media: Sequence[Media], own: JsonObject, to: Sequence[str] | None
    ) -> Message:
        """Read a message as the user typed it.

        Args:
            text: The text.
            media: Pictures and files of the message.
            own: The conversation's settings.
            to: The speakers that answer; None takes those that the text mentions.

        Raises:
            UsageError: The message is empty, or ``to`` names a speaker that does not exist.
        """
        addressed = self.address(text, own)
        names, chair = self._members(
            addressed.speakers if to is None else tuple(map(self.known, to))
        )
        words = addressed.text
        parts: list[Part] = [Text(words)] if words.strip() else []
        parts += media
        if not parts and text.strip():
            raise UsageError(
                f"There is nothing to answer: write something behind @{addressed.speakers[0]}"
            )
        if not parts:
            raise UsageError("The message is empty")
        meta: JsonObject = {"addressed": list(names)} if names else {"memo": True}
        if chair is not None:
            meta[CHAIR] = chair
        if words != text:
            meta["typed"] = text
        turn = Turn("user", tuple(parts), new_id(), time.time_ns() // 1_000_000, meta=meta)
        return Message(turn, names, chair)

    def address(self, text: str, own: JsonObject) -> Addressed:
        """The speakers that a text addresses, and the text without mentions."""
        names = self.names(own)
        found = self.mentions(text, own)
        if found.speakers:
            return found
        default: Any = own.get("default_speaker") or self._settings.default_speaker
        if default:
            return Addressed((self.known(str(default)),), text)
        return Addressed(names if len(names) == 1 else (), text)

    def mentions(self, text: str, own: JsonObject) -> Addressed:
        """The speakers that a text mentions, and the text without mentions."""
        names = self.names(own)
        groups = {
            group: [name for name in members if name in names or name in self._speakers.further]
            for group, members in self._settings.groups.items()
        }
        return read_mentions(text, names, groups, (*self._speakers.further, *self.councils))

    @property
    def councils(self) -> tuple[str, ...]:
        """The names under which councils are addressed."""
        return tuple(f"{COUNCIL_PREFIX}{name}" for name in self._settings.councils)

    def _members(self, names: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
        """The speakers behind the names, and the chair of the last council among them."""
        found: list[str] = []
        chair: str | None = None
        for name in names:
            if name not in self.councils:
                found.append(name)
                continue
            panel = self._settings.councils[name.removeprefix(COUNCIL_PREFIX)]
            found += map(self._speakers.known, panel.members)
            chair = self._speakers.known(panel.chair or panel.members[0])
        return tuple(dict.fromkeys(found)), chair

    def has(self, name: str) -> bool:
        """Whether there is a speaker with exactly this name."""
        return name in self._speakers

    def known(self, name: str) -> str:
        """The configured spelling of a speaker's or council's name, whatever its case; raises ``UsageError`` if there is none."""
        council = next((each for each in self.councils if each.lower() == name.lower()), None)
        return council or self._speakers.known(name)

    def council(self, wanted: str | bool | None, addressed: Sequence[str]) -> str | None:
        """The speaker that evaluates the answers: the requested one, or the configured one if several answer; else None."""
        if wanted is False or (wanted is None and len(addressed) < 2):
            return None
        name = wanted if isinstance(wanted, str) else self._settings.council.speaker
        if name is None:
            if wanted:
                raise UsageError(
                    "Name the speaker who is to weigh the answers, or set [council] speaker"
                )
            return None
        return self.known(name)

    def council_turn(self) -> Turn:
        """The turn that asks a speaker to evaluate the answers; it is not saved."""
        return Turn("user", (Text(self._settings.council.prompt),))

    def spec(
        self,
        name: str,
        history: tuple[Turn, ...],
        own: JsonObject,
        *,
        conversation: str,
        run: str,
        base: str | None,
        cut: Cut = WHOLE,
        meta: JsonObject | None = None,
        schema: JsonObject | None = None,
    ) -> RunSpec:
        """The run of a speaker: from this history, in a conversation with these settings of its ``own``."""
        speaker = self._speakers[name]
        foreign: Any = own.get("foreign") or own.get("others")  # its former name
        return RunSpec(
            self._provider(speaker, own),
            history,
            tools_for(self._tools, speaker.settings.tools),
            speaker.name,
            run,
            conversation,
            base,
            system_prompt=self._prompt(speaker, own),
            policy=RepairPolicy(foreign=foreign) if foreign else None,
            options=self._options(speaker, own),
            limits=self._run_limits,
            compression=self._compression(speaker, own, cut),
            schema=schema,
            prices=self._prices,
            rates=self.limits,
            meta=meta or {},
            hooks=self._hooks,
            transcripts=self._transcripts,
            budget=self._settings.budget,
        )

    def _provider(self, speaker: "Speaker", own: JsonObject) -> LLMProvider:
        """The speaker's provider, with the model that the conversation has chosen for it."""
        model: Any = (as_object(own.get("models")) or {}).get(speaker.name)
        return speaker.provider.with_model(model) if model else speaker.provider

    def _options(self, speaker: "Speaker", own: JsonObject) -> Options | None:
        """The speaker's options, changed by those of the conversation."""
        changes = dict(as_object(own.get("options")) or {})
        server_tools: Any = own.get("server_tools")
        if server_tools:
            changes["server_tools"] = server_tools
        if not changes:
            return None
        read = read_options(changes)
        return replace(speaker.provider.options, **{name: getattr(read, name) for name in changes})

    def _prompt(self, speaker: "Speaker", own: JsonObject) -> str | None:
        prompt: Any = own.get("system_prompt")
        return prompt or speaker.settings.system_prompt or self._settings.system_prompt

    def _compression(self, speaker: "Speaker", own: JsonObject, cut: Cut) -> Compression | None:
        context = self._settings.context
        if not own.get("compress", context.compress):
            return None
        summariser = context.summarise_with
        return Compression(
            window=speaker.settings.window,
            windows=context.windows,
            summarise_with=self._speakers[self.known(summariser)].provider if summariser else None,
            cut=cut,
        )


def configured_prices(settings: Settings) -> dict[str, Price]:
    """The prices that the user's settings name, by model."""
    return {model: _price(each) for model, each in settings.prices.items()}


def _price(settings: PriceSettings) -> Price:
    optional: Mapping[str, float | None] = {
        "cache_read": settings.cache_read,
        "cache_write": settings.cache_write,
    }
    return Price(
        Decimal(str(settings.input)),
        Decimal(str(settings.output)),
        **{
            name: None if value is None else Decimal(str(value)) for name, value in optional.items()
        },
    )
