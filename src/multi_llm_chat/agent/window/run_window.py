"""Keep the requests of one run inside the model's context window.

Rules:
1. ``agent.window`` decides what is left out; this module keeps the state of one run: its cut, and the ratio between the provider's counts
   and ours.
2. The run's history and the turns that it adds are not changed, only its requests.
3. A cut stays for the whole run. Every cut is reported with a ``HistoryCompressed``.
4. Until the provider has reported the tokens of a request, estimates are raised to be safe; from then on they are scaled by its count.
5. If a summary fails, the run continues: the exchanges are left out without a summary, and the note says why.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.agent.window._compression import summary_room
from multi_llm_chat.agent.window._request_fit import fit, overhead_tokens
from multi_llm_chat.agent.window._summary import INSTRUCTIONS, limited, summary_request
from multi_llm_chat.agent.window.compression_notes import WHOLE, Reason
from multi_llm_chat.errors import ContextTooLong, MultiLLMChatError
from multi_llm_chat.events import CompressionNote, Cut, HistoryCompressed, Usage
from multi_llm_chat.history.values import Turn
from multi_llm_chat.metering.model_windows import Window
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.metering.tokenizers import configured_window, counter_for
from multi_llm_chat.request import ModelRequest, Options, ToolDefinition

if TYPE_CHECKING:
    from multi_llm_chat.agent.provider import LLMProvider

#: The share of a request refused as too long that the next one may have.
_HARDER: Final = 0.85
#: Added to the provider's ratio, because the next request has other text.
_SLACK: Final = 1.05
#: Ratios outside this range are ignored.
_BELIEVABLE: Final = (0.5, 4.0)


class Compression(Struct, frozen=True):
    """How a run keeps its requests inside the model's window.

    ``window`` replaces the table's window for the model, ``windows`` those of several models by name or pattern. ``summarise_with`` writes
    a summary of the exchanges left out; without it, they are dropped. ``cut`` comes from an earlier note, so that a conversation's next run
    continues with the cut of the last one. ``counter`` counts tokens and caches the counts of turns; one counter for each conversation
    saves time.
    """

    window: Window | int | None = None
    windows: Mapping[str, int | Window] = {}
    summarise_with: "LLMProvider | None" = None
    cut: Cut = WHOLE
    counter: Counter | None = None


def provider_window(
    provider: "LLMProvider", windows: Mapping[str, int | Window] | None = None
) -> Window:
    """The window of a provider's model; of a chain, the smallest."""
    found = [configured_window(member.model, member.name, windows) for member in provider.chain]
    return min(found, key=lambda window: window.tokens)


class Fitting:
    """The requests of one run: fits each to the window and learns from the provider's token counts."""

    def __init__(
        self, provider: "LLMProvider", compression: Compression | None, system_prompt: str | None
    ) -> None:
        self._compression = compression
        chosen = compression or Compression()
        given = Window(chosen.window) if isinstance(chosen.window, int) else chosen.window
        self._window = given or provider_window(provider, chosen.windows)
        self._counter = chosen.counter or Counter()
        #: Loading a tokenizer takes time, so it is used only if an estimate is not enough.
        self._exact_model = provider.model if chosen.counter is None else None
        self.summariser = chosen.summarise_with
        self.summary_request: ModelRequest | None = None
        self._windows = chosen.windows
        self._system_prompt = system_prompt
        self._cut = chosen.cut
        self._factor: float | None = None
        self._ceiling: int | None = None
        self._counted = 0
        self._turns: tuple[Turn, ...] = ()
        self._sent: tuple[Turn, ...] = ()
        self._tools: Sequence[ToolDefinition] = ()
        self._options = Options()
        self._note: CompressionNote | None = None
        self._reason: Reason = "window"
        self.notes: list[CompressionNote] = []
        #: The input tokens of the last request, as the provider counted them.
        self.known = 0

    def begin(
        self, turns: tuple[Turn, ...], tools: Sequence[ToolDefinition], options: Options
    ) -> None:
        """Fit a request; afterwards ``summary_request`` is the request for a summary, or None."""
        self._turns, self._tools, self._options = turns, tools, options
        self._reason = "window"
        self._choose_counter()
        self._fit()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns to send."""
        return self._sent

    @property
    def estimate(self) -> int:
        """An estimate of the request's tokens, before the provider counts them."""
        return int(self._count() * self._scale())

    def summarised(self, reply: Reply) -> None:
        """Use the summary; an empty one counts as none."""
        assert self._note is not None
        room = int(self._note.budget / self._scale()) - self._overhead()
        words = limited(reply.text.strip(), summary_room(room), self._counter)
        if not words:
            self._drop("the summary was empty")
            return
        self._apply(msgspec.structs.replace(self._note.cut, summary=words), summarise=True)
        self._note = msgspec.structs.replace(self._note, summary_usage=reply.usage)

    def not_summarised(self, error: MultiLLMChatError) -> None:
        """Continue without a summary."""
        self._drop(f"{type(error).__name__}: {error}"[:200])

    def news(self) -> HistoryCompressed | None:
        """The event for a new cut, if this request needed one; returned once."""
        note, self._counted = self._note, self._count()
        if note is None:
            return None
        is_news = note.cut != self._cut or not note.fits
        self._cut = note.cut
        if not is_news or (self.notes and self.notes[-1].cut == note.cut):
            return None
        self.notes.append(note)
        return HistoryCompressed(note)

    def answered(self, usage: Usage) -> None:
        """Adjust the estimates to the tokens that the provider reported."""
        self.known = usage.input_tokens
        if usage.input_tokens <= 0 or self._counted <= 0:
            return
        least, most = _BELIEVABLE
        factor = usage.input_tokens / self._counted
        if least <= factor <= most:
            self._factor = factor * _SLACK

    def refused(self, error: MultiLLMChatError) -> bool:
        """Fit a request again after a refusal as too long, once for each request; return whether it became shorter."""
        if (
            self._compression is None
            or self._reason == "refused"
            or not isinstance(error, ContextTooLong)
        ):
            return False
        self._reason = "refused"
        self._ceiling = int(self._counted * _HARDER)
        self._exact_model = None  # the ceiling was counted with this counter
        self._fit()
        return self._count() < self._counted

    def _choose_counter(self) -> None:
        if self._exact_model is None:
            return
        estimate = (self._counter.turns(self._turns) + self._overhead()) * self._scale()
        if estimate > self._window.budget(self._options.max_tokens) / 2:
            self._counter = counter_for(self._exact_model)
            self._exact_model = self._factor = None

    def _fit(self) -> None:
        self.summary_request = None
        if self._compression is None or self._fits_whole():
            self._sent, self._note = self._turns, None
            return
        summarise = self.summariser is not None
        self._apply(self._cut, summarise=summarise)
        if summarise and self._note is not None and self._note.cut.gone > self._cut.gone:
            self.summary_request = self._summary_request(self._note)

    def _fits_whole(self) -> bool:
        """Whether nothing is left out now and nothing was before, the usual case."""
        if self._cut != WHOLE or self._ceiling is not None:
            return False
        tokens = self._counter.turns(self._turns) + self._overhead()
        return tokens <= int(self._window.budget(self._options.max_tokens) / self._scale())

    def _apply(self, cut: Cut, *, summarise: bool) -> None:
        scale = self._scale()
        self._sent, self._note = fit(
            self._turns,
            self._window,
            self._system_prompt,
            self._tools,
            self._options,
            self._counter,
            cut=cut,
            factor=scale,
            limit=None if self._ceiling is None else int(self._ceiling * scale),
            summarise=summarise,
            reason=self._reason,
        )

    def _drop(self, trouble: str) -> None:
        """Leave exchanges out without a new summary, starting at the last cut."""
        self._apply(self._cut, summarise=False)
        if self._note is not None:
            self._note = msgspec.structs.replace(self._note, trouble=trouble)

    def _summary_request(self, note: CompressionNote) -> ModelRequest:
        summariser = self.summariser
        assert summariser is not None
        counter = counter_for(summariser.model)
        budget = provider_window(summariser, self._windows).budget(summariser.options.max_tokens)
        room = int(budget / counter.factor(has_tools=False)) - counter.text(INSTRUCTIONS)
        left_out = self._turns[self._cut.gone : note.cut.gone]
        words = summary_request(left_out, self._cut.summary, room, counter)
        asked = [{"role": "user", "content": words}]
        return summariser.request(asked, INSTRUCTIONS, stream=False)

    def _scale(self) -> float:
        return self._factor or self._counter.factor(bool(self._tools))

    def _count(self) -> int:
        return self._counter.turns(self._sent) + self._overhead()

    def _overhead(self) -> int:
        return overhead_tokens(self._system_prompt, self._tools, self._counter)
