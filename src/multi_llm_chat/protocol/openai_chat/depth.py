"""Writes the thinking settings for models on servers of the OpenAI dialect.

Rules:
1. Thinking is written as the model's family accepts it (``protocol.capabilities``): an effort, a switch, or both. An unsupported
   effort becomes the nearest lower one, with a note (OAI-30, GRQ-09, MIS-17, DSK-11, XAI-03, KMI-03, ZAI-01).
2. If a model's thinking cannot be turned off, it gets its lowest effort.
3. If a tool is forced and the model cannot think with a forced tool, thinking is off for that request (DSK-08, KMI-02, QWN-01).
4. Qwen 3 thinks only in streamed requests: in others thinking is turned off (QWN-02).
"""

from msgspec.structs import replace

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.capabilities import (
    ChatFamily,
    OpenAICapabilities,
    chat_family,
    nearest_effort,
)
from multi_llm_chat.protocol.providers import ChatQuirks
from multi_llm_chat.protocol.request_draft import RequestDraft, effort_of


def settle_forced_choice(draft: RequestDraft, quirks: ChatQuirks) -> ChatQuirks:
    """Turn thinking off if a tool is forced and the model does not accept both."""
    named = any(tool.name == draft.tool_choice for tool in draft.tools)
    is_forced = named or (draft.tool_choice == "required" and bool(draft.tools))
    if quirks.forced_thinking or not is_forced or draft.options.thinking in (False, 0, "none"):
        return quirks
    if quirks.effort == "family" and _family(draft) is None:
        return quirks
    draft.note("DSK-08", "no tool can be forced while the model thinks: turned thinking off")
    draft.options = replace(draft.options, thinking=False)
    return replace(quirks, thinking_field=None, thinking_always=False)


def most_tokens(draft: RequestDraft) -> int | None:
    """The maximum number of tokens, at most the model's own limit (ZAI-03)."""
    wanted, family = draft.options.max_tokens, _family(draft)
    if (
        wanted is None
        or family is None
        or family.most_tokens is None
        or wanted <= family.most_tokens
    ):
        return wanted
    draft.note("ZAI-03", f"max_tokens is {family.most_tokens} at most here: lowered it")
    return family.most_tokens


def write_depth(
    draft: RequestDraft, quirks: ChatQuirks, model: OpenAICapabilities | None
) -> JsonObject:
    """The request's fields with the thinking settings."""
    wanted = draft.options.thinking
    if model is not None and model.thinks_at_all:
        return _write_effort(draft, model)
    family = _family(draft) if model is None else None
    if family is not None:
        return _write_family(draft, family)
    if wanted is None:
        return {}
    if quirks.effort == "thinking":
        return {"thinking": {"type": "enabled" if wanted else "disabled"}}
    if quirks.effort == "reasoning_effort" and model is None:
        effort = effort_of(wanted)
        return {"reasoning_effort": effort} if effort else {}
    draft.note("OAI-12", f"{draft.model} has no setting for thinking here: left it out")
    return {}


def _family(draft: RequestDraft) -> ChatFamily | None:
    return None if draft.target is None else chat_family(draft.target.origin.provider, draft.model)


def _write_effort(draft: RequestDraft, model: OpenAICapabilities) -> JsonObject:
    wanted = draft.options.thinking
    effort = model.effort(wanted, effort_of(wanted))
    if draft.tools and not model.chat_tools and model.is_reasoning(effort):
        draft.note(
            "OAI-16", f"{draft.model} takes tools here only without reasoning: turned it off"
        )
        return {"reasoning_effort": "none"}
    if isinstance(wanted, str) and effort != wanted:
        draft.note("OAI-30", f"{draft.model} does not know the effort {wanted!r}: sent {effort!r}")
    return {"reasoning_effort": effort} if effort else {}


def _write_family(draft: RequestDraft, family: ChatFamily) -> JsonObject:
    wanted = draft.options.thinking
    if family.switch == "enable_thinking" and not draft.stream and "qwen3" in draft.model.lower():
        if wanted:
            draft.note("QWN-02", "the model thinks only in streamed requests: turned it off")
        return {"enable_thinking": False}
    if wanted is None:
        return {}
    if wanted is False or wanted in (0, "none"):
        return _write_off(draft, family)
    written = _switch(family, is_on=True)
    if wanted is True or not family.efforts:
        return written
    word = effort_of(wanted) or "high"
    effort = nearest_effort(word, family.efforts)
    if isinstance(wanted, str) and effort != wanted:
        draft.note("OAI-30", f"{draft.model} does not know the effort {wanted!r}: sent {effort!r}")
    return written | {"reasoning_effort": effort}


def _write_off(draft: RequestDraft, family: ChatFamily) -> JsonObject:
    if family.switch and family.thinks != "always":
        return _switch(family, is_on=False)
    if "none" in family.efforts:
        return {"reasoning_effort": "none"}
    if family.thinks != "always":
        return {}
    draft.note("OAI-30", f"{draft.model} always thinks: asked for the lowest effort")
    return {"reasoning_effort": family.efforts[0]} if family.efforts else {}


def _switch(family: ChatFamily, *, is_on: bool) -> JsonObject:
    if family.switch == "enable_thinking":
        return {"enable_thinking": is_on}
    if family.switch != "thinking":
        return {}
    # ZAI-02: GLM reads its earlier reasoning only if the request asks for that.
    keeps = {"clear_thinking": False} if is_on and "zai" in family.providers else {}
    return {"thinking": {"type": "enabled" if is_on else "disabled"} | keeps}
