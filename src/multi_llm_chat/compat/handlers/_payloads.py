"""The application's payload, and its continuations: the same request with the rounds since then.

Rules:
1. The application's own values are not changed, unless a rule below says otherwise.
2. A continuation contains the application's messages and all rounds of the run, in order. Messages that are valid are kept unchanged;
   otherwise all of them are repaired and written anew.
3. The last request has no tools; fields that a provider then requires instead are added.
4. A thinking setting is changed only if the run's budget requires it, or if the provider would refuse it. If the application sets no
   thinking, it is replayed as the provider requires.
5. A continuation never changes the given payload.
6. A continuation that exceeds the model's window is compressed as in ``agent.window``: whole exchanges, the newest kept.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from multi_llm_chat.agent.effects import CallModel
from multi_llm_chat.agent.window import CompressionNote, fit
from multi_llm_chat.compat.handlers._forms import FORMS, Form, Thinking, at, put
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import RESERVED_ROLES, JsonObject, Text, Turn
from multi_llm_chat.metering.tokenizers import configured_window, counter_for
from multi_llm_chat.protocol.conversion import turns_from
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.protocol.providers import ProviderRow, provider_row
from multi_llm_chat.protocol.rendered_request import Rendered, render
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools

_DECLARATIONS = ("functionDeclarations", "function_declarations")
_SNAKE = {
    "systemInstruction": "system_instruction",
    "toolConfig": "tool_config",
    "generationConfig": "generation_config",
}


_DISABLED = {"type": "disabled"}

#: The keys with which a body limits the length of its answer.
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Payload(Struct, frozen=True):
    """An application's request to one provider."""

    body: JsonObject
    row: ProviderRow
    model: str

    @property
    def form(self) -> Form:
        """The form of its dialect."""
        return FORMS[self.row.dialect]

    @property
    def thinking(self) -> Thinking:
        """Its thinking setting."""
        return self.form.read_thinking(self.body)

    def turns(self) -> tuple[Turn, ...]:
        """Its messages as turns; empty if they cannot be read."""
        messages = self.body.get(self.form.messages)
        try:
            return turns_from(messages, self.row.dialect, provider=self.row.name, model=self.model)
        except UsageError:
            return ()

    def exchange(
        self,
        added: Sequence[Turn] = (),
        tools: Sequence[ToolDefinition] = (),
        thinking: Thinking = None,
        turns: Sequence[Turn] | None = None,
    ) -> Exchange:
        """The exchange for this payload followed by these rounds; for ``turns`` if given."""
        return Exchange(
            (*self.turns(), *added) if turns is None else turns,
            self.row.name,
            model=self.model,
            system_prompt=self.system_text(),
            tools=tools,
            options=Options(thinking=thinking),
        )

    def instructed(self, prompt: str) -> JsonObject:
        """The changes of the body that add a text to its system prompt."""
        form = self.form
        if not form.system:
            messages = list(as_list(self.body.get(form.messages)) or [])
            first = as_object(messages[0]) if messages else None
            if first is not None and first.get("role") in ("system", "developer"):
                text = "\n\n".join(filter(None, [as_text(first.get("content")), prompt]))
                return {form.messages: [first | {"content": text}, *messages[1:]]}
            return {form.messages: [{"role": "system", "content": prompt}, *messages]}
        text = "\n\n".join(filter(None, [self.system_text(), prompt]))
        if self.row.dialect == "gemini":
            return {form.system: {"parts": [{"text": text}]}}
        return {form.system: text}

    def offering(self, tools: Sequence[ToolDefinition]) -> JsonObject:
        """The changes of the body that offer these tools in addition to its own."""
        known = {tool.name for tool in read_tools(self.body.get("tools")).definitions}
        new = [tool for tool in tools if tool.name not in known]
        if not new:
            return {}
        rendered = self._render((), new, self.thinking).body
        offered = {"tools": joined_tools(as_list(self.body.get("tools")) or [], rendered["tools"])}
        return offered | _thinking_of(self.form, rendered, unless=self.body)

    def fitted(
        self, added: Sequence[Turn], tools: Sequence[ToolDefinition]
    ) -> tuple[tuple[Turn, ...], CompressionNote | None]:
        """The turns that fit into the model's window, and what they leave out."""
        longest = next(
            (self.body[key] for key in _LIMITS if isinstance(self.body.get(key), int)), None
        )
        own = read_tools(self.body.get("tools")).definitions
        return fit(
            (*self.turns(), *added),
            configured_window(self.model, self.row.name),
            self.system_text(),
            {tool.name: tool for tool in (*own, *tools)}.values(),
            Options(max_tokens=longest),
            counter_for(self.model),
        )

    def continued(
        self, asked: CallModel, tools: Sequence[ToolDefinition]
    ) -> tuple[JsonObject, Exchange, CompressionNote | None]:
        """The body that continues with the rounds so far, the exchange that reads its reply, and what it leaves out."""
        form = self.form
        thinking = asked.options.thinking
        offered = tools if asked.offer_tools else ()
        turns, note = self.fitted(asked.history, offered)
        exchange = self.exchange(asked.history, offered, thinking, None if note is None else turns)
        rendered = exchange.rendered
        body = dict(self.body)
        messages = None if note else self._word_for_word(rendered, offered, thinking)
        if messages is None:
            messages = rendered.body[form.messages]
            if form.system in rendered.body:
                body[form.system] = rendered.body[form.system]
                body.pop(_SNAKE.get(form.system, ""), None)
        body[form.messages] = messages
        if not asked.offer_tools:
            for key in form.tools:
                body.pop(key, None)
                body.pop(_SNAKE.get(key, ""), None)
            body |= {key: rendered.body[key] for key in form.tools if key in rendered.body}
        wanted = at(rendered.body, form.thinking)
        given = at(body, form.thinking)
        refused = wanted == _DISABLED
        if wanted != given and (given is None or refused or thinking != self.thinking):
            put(body, form.thinking, wanted)
        return body, exchange, note

    def _word_for_word(
        self, rendered: Rendered, tools: Sequence[ToolDefinition], thinking: Thinking
    ) -> list[Any] | None:
        """The application's own messages followed by the new ones; None if they need repair."""
        key = self.form.messages
        own = as_list(self.body.get(key))
        turns = self.turns()
        if own is None or not turns:
            return None
        if any(_needed(note, turns) for note in rendered.notes):
            return None
        # With the thinking setting of the whole request: how the request ends decides whether thinking blocks are written.
        on = at(rendered.body, self.form.thinking) not in (None, _DISABLED)
        alone = self._render(turns, tools, (thinking or True) if on else False).body[key]
        whole: list[Any] = rendered.body[key]
        kept = whole[: len(alone)] == alone and _shapes(own) == _shapes(alone)
        return [*own, *whole[len(alone) :]] if kept else None

    def _render(
        self, turns: Sequence[Turn], tools: Sequence[ToolDefinition], thinking: Thinking
    ) -> Rendered:
        return render(
            turns,
            self.row.name,
            model=self.model,
            tools=tools,
            options=Options(thinking=thinking),
            system_prompt=self.system_text(),
        )

    def system_text(self) -> str | None:
        """Its system prompt; None if it has none, or if it is among the messages."""
        key = self.form.system
        system = self.body.get(key) or self.body.get(_SNAKE.get(key, ""))
        described = as_object(system)
        parts = as_list(described.get("parts") if described else system)
        if parts is None:
            return as_text(system) or None
        texts = [as_text((as_object(part) or {}).get("text")) for part in parts]
        return "\n\n".join(filter(None, texts)) or None


def _shapes(messages: Sequence[Any]) -> list[tuple[object, object]]:
    """The roles and kinds of parts, without text: equal if reading and writing lost nothing."""
    known = [as_object(message) or {} for message in messages]
    return [(one.get("role"), one.get("type", "message")) for one in known]


def _needed(note: Note, turns: Sequence[Turn]) -> bool:
    """Whether the note reports a change without which the provider would refuse these turns."""
    if note.turn is None or note.turn >= len(turns):
        return False
    # The model's own thinking is harmless in a request without thinking.
    return note.rule != "ANT-14" or turns[note.turn].role in RESERVED_ROLES


def payload_of(body: JsonObject, provider: str, model: str | None = None) -> Payload:
    """The payload for a provider; one with ``input`` is for OpenAI's Responses."""
    row = provider_row(provider)
    if row.name == "openai-chat" and "input" in body and "messages" not in body:
        row = provider_row("openai")
    elif row.name == "openai" and "messages" in body:
        row = provider_row("openai-chat")
    return Payload(body, row, as_text(body.get("model")) or model or row.default_model)


def native_messages(payload: Payload, turn: Turn) -> list[JsonObject]:
    """The turn as the provider's own messages."""
    thinking = True if payload.row.dialect == "anthropic" else None
    opening = Turn("user", (Text("."),))
    rendered = render(
        (opening, turn), payload.row.name, model=payload.model, options=Options(thinking=thinking)
    )
    return rendered.body[payload.form.messages][1:]


def joined_tools(own: list[Any], added: list[Any]) -> list[Any]:
    """All tools in one list; Gemini's declarations in one entry, since it accepts no second one."""
    for key in _DECLARATIONS:
        for place, entry in enumerate(own):
            if key in (as_object(entry) or {}):
                merged = [*entry[key], *added[0]["functionDeclarations"]]
                return [*own[:place], entry | {key: merged}, *own[place + 1 :]]
    return [*own, *added]


def _thinking_of(form: Form, rendered: JsonObject, *, unless: JsonObject) -> JsonObject:
    """The thinking setting that tools need, unless the application has one."""
    needed: JsonObject = {}
    setting = at(rendered, form.thinking)
    if setting is not None and at(unless, form.thinking) is None:
        put(needed, form.thinking, setting)
    return needed
