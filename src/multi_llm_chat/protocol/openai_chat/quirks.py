"""Where servers that speak Chat Completions differ, as data."""

from typing import Literal

from msgspec import Struct

from multi_llm_chat.schema.dialect_rules import OPENAI, SchemaRules


class ChatQuirks(Struct, frozen=True):
    """One server's dialect of the dialect; the defaults are OpenAI's own.

    ``alternates``: merge neighbours of one role and all system texts (chat templates demand it).
    ``answers_after_tools``: a word of the model must stand between results and the user.
    ``content``: when content is a list of parts: for any user turn of several parts, only where
    media are among them (templates often take plain strings only), or never; ``media`` lists
    the kinds it may hold.
    ``bare_calls``: what a call turn without words has for content.
    ``words_beside_calls``: one message may hold words and calls.
    ``thinking_field``: the key under which the server wants its own reasoning back;
    ``thinking_always``: it wants the key in every assistant turn, empty if need be.
    ``thinking_details``: it takes its own reasoning blocks back verbatim.
    ``required``: the word for "some tool must be called"; ``named_choice``: one may be named.
    ``effort``: how the depth of thinking is said, if at all.
    ``output_schema``: how structured output is asked for.
    """

    alternates: bool = False
    answers_after_tools: bool = False
    content: Literal["parts", "media", "string"] = "media"
    media: frozenset[str] = frozenset()
    bare_calls: Literal["omit", "empty"] = "omit"
    words_beside_calls: bool = True
    thinking_field: Literal["reasoning_content", "reasoning"] | None = None
    thinking_always: bool = False
    thinking_details: bool = False
    result_names: bool = False
    required: str = "required"
    named_choice: bool = True
    most_tools: int = 128
    schema_rules: SchemaRules = OPENAI
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    effort: Literal["reasoning_effort", "thinking", "none"] = "none"
    output_schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    schema_beside_tools: bool = True
    stop: bool = True
    reasoning_models: bool = False
