"""Several providers as one: if one fails, the next one gets the request.

Rules:
1. The members get the request in order; the next one only if no event of a reply was emitted.
2. A refusal counts as an answer. An error in the request itself is raised, not sent to the next member.
3. Every member reads the others' turns as its own (``adopt``), so that the first member can continue an answer of the second. With
   ``label`` they stay turns of other speakers.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

from multi_llm_chat.agent._reply_stream import Inquiry
from multi_llm_chat.agent.embeddings import Embeddings
from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.errors import UsageError, check_type
from multi_llm_chat.protocol.providers import ProviderRow
from multi_llm_chat.protocol.retry import handed_over
from multi_llm_chat.repair.policy import RepairPolicy
from multi_llm_chat.request import ModelRequest


class FallbackProvider(LLMProvider):
    """A chain of providers: if one fails, the next one answers.

    Name, model and message format are those of the first member. ``foreign`` says how a member reads the turns of the others, as in
    ``RepairPolicy``.
    """

    def __init__(
        self,
        members: Iterable[LLMProvider],
        *,
        foreign: Literal["adopt", "label", "drop"] = "adopt",
        policy: RepairPolicy | None = None,
    ) -> None:
        self.members = tuple(members)
        if not self.members:
            raise UsageError("A chain needs at least one provider")
        for member in self.members:
            example = "providers; create_provider(['claude', 'gemini']) makes a chain from names"
            check_type(member, LLMProvider, "FallbackProvider", example)
        first = self.members[0]
        super().__init__(
            first.name,
            model=first.model,
            policy=handed_over(policy, foreign),
            options=first.options,
            speaker=first.speaker,
        )

    def with_speaker(self, name: str) -> Self:
        """The same chain under another speaker name."""
        twin = super().with_speaker(name)
        twin.members = tuple(member.with_speaker(name) for member in self.members)
        return twin

    def with_model(self, model: str) -> Self:
        """The same chain, whose first member has another model."""
        twin = super().with_model(model)
        twin.members = (self.members[0].with_model(model), *self.members[1:])
        return twin

    def __repr__(self) -> str:
        return f"FallbackProvider({', '.join(member.name for member in self.members)})"

    @property
    def chain(self) -> Sequence[LLMProvider]:
        """The providers in the order in which they get the request; a nested chain is replaced by its members."""
        if self._answers_itself():
            return (self,)
        return tuple(asked for member in self.members for asked in member.chain)

    def _find_row(self, name: str | None) -> ProviderRow:
        del name  # a plug-in has no row in the table
        return self.members[0].row

    def _inquire_network(self, request: ModelRequest) -> Inquiry:
        return self.members[0].chain[0].inquire(request)

    def _addressed(self, request: ModelRequest) -> ModelRequest:
        """The request unchanged: each member sets its own address and model."""
        return request

    def list_models(self) -> list[ModelInfo]:
        """The models of the first member."""
        return self.members[0].list_models()

    async def alist_models(self) -> list[ModelInfo]:
        """Like ``list_models``, to be awaited."""
        return await self.members[0].alist_models()

    def embed(self, texts: str | Iterable[str], **settings: Any) -> Embeddings:
        """Embeddings of the first member: those of different models cannot be compared."""
        return self.members[0].embed(texts, **settings)

    async def aembed(self, texts: str | Iterable[str], **settings: Any) -> Embeddings:
        """Like ``embed``, to be awaited."""
        return await self.members[0].aembed(texts, **settings)

    def close(self) -> None:
        """Close the members' connections."""
        for member in self.members:
            member.close()

    async def aclose(self) -> None:
        """Close the members' connections."""
        for member in self.members:
            await member.aclose()
