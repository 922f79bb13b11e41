"""Checks of single hosted rows: Cerebras, Fireworks, DeepSeek, xAI, Azure's Mistral and OpenRouter.

At OpenRouter the rules of the provider behind the model apply (ORT-02, ORT-03). The model's prefix names the
provider. Where routing may change between turns, ids must suit all of them: unique over the whole request and
free of other characters than letters, digits, ``_`` and ``-``.
"""

import re
from collections.abc import Iterator

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.function_schema import walk
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_object,
    as_string,
    members,
    objects,
)
from multi_llm_chat.testing.validators.violation import Violation, Wording

#: Names of models that carry Mistral's tokenizer and chat template.
MISTRAL_FAMILY = re.compile(
    r"mistral|mixtral|ministral|devstral|codestral|magistral|pixtral|voxtral", re.IGNORECASE
)


def check_equal_strictness(call: ChatCall) -> Iterator[Violation]:
    """CER-02: the tools of one request are all strict or all not."""
    flags = {members(tool.get("function")).get("strict") is True for _, tool in call.tools()}
    if len(flags) > 1:
        yield from call.say("strict_mixed")


def check_tagged_reasoning(call: ChatCall) -> Iterator[Violation]:
    """ZAI-04: reasoning of GLM stands in the content, not in a field."""
    if "glm" not in call.model.lower():
        return
    for index, message in call.messages():
        if "reasoning" in message:
            yield from call.say("reasoning_field", index=index)


def check_fireworks(call: ChatCall) -> Iterator[Violation]:
    """FWK-02: combinations and keywords that Fireworks refuses."""
    body = call.body
    offers_tools = any(True for _ in call.tools())
    if offers_tools and members(body.get("response_format")).get("type", "text") != "text":
        yield from call.say("tools_with_format")
    if body.get("thinking") is not None and body.get("reasoning_effort") is not None:
        yield from call.say("thinking_with_effort")
    for index, tool in call.tools():
        for _, schema in walk(members(tool.get("function")).get("parameters")):
            if "$defs" in schema or "definitions" in schema:
                yield from call.say("schema_definitions", index=index)


def deepseek_is_thinking(call: ChatCall) -> bool:
    """Whether the request runs in DeepSeek's thinking mode."""
    mode = members(call.body.get("thinking")).get("type")
    if mode is not None:
        return mode != "disabled"
    return bool(re.search(r"reasoner|deepseek-r\d|deepseek-v[4-9]", call.model.lower()))


def check_reasoning_content(call: ChatCall) -> Iterator[Violation]:
    """DSK-01: in thinking mode, a tool loop carries its reasoning back."""
    if not deepseek_is_thinking(call):
        return
    history = list(call.messages())
    last_user = max((i for i, message in history if message.get("role") == "user"), default=-1)
    for index, message in history:
        if message.get("role") != "assistant":
            continue
        in_loop = index > last_user or bool(message.get("tool_calls"))
        if in_loop and not isinstance(message.get("reasoning_content"), str):
            yield from call.say("reasoning_missing", index=index)


def check_forced_choice(call: ChatCall) -> Iterator[Violation]:
    """DSK-08: in thinking mode no tool can be forced."""
    choice = call.body.get("tool_choice")
    if deepseek_is_thinking(call) and (choice == "required" or isinstance(choice, dict)):
        yield from call.say("choice_while_thinking")


def check_reasoner_alternation(call: ChatCall) -> Iterator[Violation]:
    """DSK-05: the legacy reasoner wants user and assistant to take turns."""
    if call.model.lower() != "deepseek-reasoner":
        return
    previous: tuple[int, object] = (-1, None)
    for index, message in call.messages():
        role = message.get("role")
        if role in ("user", "assistant") and previous[1] == role:
            yield from call.say("turns_successive", first=previous[0], second=index)
        previous = (index, role)


def check_xai_content(call: ChatCall) -> Iterator[Violation]:
    """XAI-01: every message has a content element; with calls an empty string or none is accepted.

    Without any: recorded: charmbracelet/fantasy TestOpenAICompatibleCommon/xai-*, 10 requests.
    """
    for index, message in call.messages():
        content = message.get("content")
        beside_calls = message.get("role") == "assistant" and bool(message.get("tool_calls"))
        if content == "" and (beside_calls or message.get("role") == "tool"):
            continue
        if beside_calls and "content" not in message:
            continue
        if content is None or content in ("", []):
            yield from call.say("content_absent", index=index)


def check_xai_model(call: ChatCall) -> Iterator[Violation]:
    """XAI-02, XAI-03: what Grok models refuse."""
    model = call.model.lower()
    if "grok-4" in model:
        for name in ("stop", "frequency_penalty", "presence_penalty"):
            if call.body.get(name) is not None:
                yield from call.say("parameter_refused", name=name)
    if "grok-4.5" in model and call.body.get("reasoning_effort") == "none":
        yield from call.say("effort_refused")


def check_azure_mistral(call: ChatCall) -> Iterator[Violation]:
    """AZR-03: Mistral models on Azure refuse ``max_completion_tokens`` and user after tool."""
    if not MISTRAL_FAMILY.search(call.model):
        return
    if "max_completion_tokens" in call.body:
        yield from call.say("azure_mistral_tokens")
    previous: str | None = None
    for _, message in call.messages():
        role = as_string(message.get("role"))
        if previous == "tool" and role == "user":
            yield from call.say("azure_mistral_order")
        previous = role


# Groq.

_GROQ_TEXT_ONLY = re.compile(r"gpt-oss|compound|llama-3\.[13]-|qwen3-(?!vl|omni)")


def check_groq_model(call: ChatCall) -> Iterator[Violation]:
    """What the named model does not take (recorded, refused: maruel/genai providers/groq)."""
    model = call.model.lower()
    for index, message in call.messages():
        kinds = {part.get("type") for part in objects(message.get("content"))}
        if "image_url" in kinds and _GROQ_TEXT_ONLY.search(model):
            yield from call.say("pictures_unsupported", index=index)
    form = members(call.body.get("response_format"))
    if form.get("type") == "json_schema":
        if "compound" in model:
            yield from call.say("schema_unsupported")
        elif as_object(members(form.get("json_schema")).get("schema")) is None:
            yield from call.say("schema_missing")
    if "compound" in model and call.body.get("tools"):
        yield from call.say("functions_unsupported")


# Hugging Face.

_TEXT_ONLY = re.compile(r"llama-3\.[13]-|qwen3-(?!vl|omni)|deepseek-v\d|gpt-oss")


def check_router_model(call: ChatCall) -> Iterator[Violation]:
    """Pictures to a model of text, whichever server the router chooses (recorded: maruel/genai providers/huggingface)."""
    if not _TEXT_ONLY.search(call.model.lower()):
        return
    for _, message in call.messages():
        if any(part.get("type") == "image_url" for part in objects(message.get("content"))):
            yield from call.say("pictures_unsupported")


# Kimi, Qwen and GLM.

_KIMI_THINKS = re.compile(r"kimi-(?:k2\.[5-9]|k[3-9]|k2-thinking|thinking|latest)")
_FIRST_QWEN3 = re.compile(r"qwen3(?![.\d])")
_GLM_ALWAYS = re.compile(r"glm-5\.3")


def _is_forced(call: ChatCall) -> bool:
    choice = call.body.get("tool_choice")
    return choice == "required" or isinstance(choice, dict)


def check_kimi(call: ChatCall) -> Iterator[Violation]:
    """KMI-01 to KMI-03: reasoning of tool-call turns comes back, no forced tool while it thinks, no effort ``none``."""
    if call.body.get("reasoning_effort") == "none":
        yield from call.say("effort_refused")
    mode = members(call.body.get("thinking")).get("type")
    if mode == "disabled" or (mode is None and not _KIMI_THINKS.search(call.model.lower())):
        return
    if _is_forced(call):
        yield from call.say("choice_while_thinking")
    for index, message in call.messages():
        if calls_of(message) and not isinstance(message.get("reasoning_content"), str):
            yield from call.say("reasoning_missing", index=index)


def check_qwen(call: ChatCall) -> Iterator[Violation]:
    """QWN-01, QWN-02: no forced tool while it thinks, and no thinking outside of streams."""
    thinks = call.body.get("enable_thinking")
    if thinks is True and _is_forced(call):
        yield from call.say("choice_while_thinking")
    # qwen3.5 and later think in whole answers too (recorded: maruel/genai providers/alibaba, 40 requests to qwen3.8-max).
    is_first = _FIRST_QWEN3.search(call.model.lower()) is not None
    if is_first and thinks is not False and call.body.get("stream") is not True:
        yield from call.say("thinking_unstreamed")


def check_glm(call: ChatCall) -> Iterator[Violation]:
    """ZAI-01, ZAI-03: GLM-5.3 always thinks, knows three words, and has a largest limit of tokens."""
    if not _GLM_ALWAYS.search(call.model.lower()):
        return
    effort = call.body.get("reasoning_effort")
    is_off = members(call.body.get("thinking")).get("type") == "disabled"
    if is_off or (effort is not None and effort not in ("low", "high", "max")):
        yield from call.say("thinking_refused")
    limit = call.body.get("max_tokens")
    if isinstance(limit, int) and not 1 <= limit <= 131_072:
        yield from call.say("tokens_range")


# OpenRouter.

_IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")
_MISTRAL_IDENTIFIER = re.compile(r"[a-zA-Z0-9]{9}")

_FORM = Wording(
    "ORT-02",
    "messages.{index}.content.{position}.tool_use.id: String should match pattern "
    "'^[a-zA-Z0-9_-]+$'",
)
_MISTRAL_FORM = Wording(
    "ORT-02",
    "Tool call id was {identifier} but must be a-z, A-Z, 0-9, with a length of 9.",
)
_REUSED = Wording("ORT-02", "messages.{index}.content.{position}: `tool_use` ids must be unique")
_DETAILS = Wording(
    "ORT-03", "messages.{index}.reasoning_details: every block must be an object with a type"
)


def check_upstream(call: ChatCall) -> Iterator[Violation]:
    """Ids that any upstream takes, and reasoning details that are whole."""
    is_mistral = call.model.lower().startswith("mistralai/")
    # Kimi takes the ids that it makes, "functions.add:0" (KMI-04; recorded: charmbracelet/fantasy TestOpenRouterCommon/kimi).
    is_kimi = call.model.lower().startswith("moonshotai/")
    seen: set[str] = set()
    for index, message in call.messages():
        for position, made in enumerate(calls_of(message)):
            identifier = as_string(made.get("id")) or ""
            if is_mistral and not _MISTRAL_IDENTIFIER.fullmatch(identifier):
                yield _MISTRAL_FORM.fill(identifier=identifier)
            elif not is_kimi and not _IDENTIFIER.fullmatch(identifier):
                yield _FORM.fill(index=index, position=position)
            if identifier in seen:
                yield _REUSED.fill(index=index, position=position)
            seen.add(identifier)
        details = message.get("reasoning_details")
        if details is not None and not _are_whole(details):
            yield _DETAILS.fill(index=index)


def _are_whole(details: object) -> bool:
    blocks = as_array(details)
    if not blocks:
        return False
    return all(isinstance((as_object(block) or {}).get("type"), str) for block in blocks)
