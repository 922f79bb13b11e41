"""The keys that each strict row knows, at every level of a request.

Taken from the published SDK types of each provider. A row that is missing here ignores keys that
it does not know.
"""

from collections.abc import Mapping

_COMMON = frozenset(
    {
        "model",
        "messages",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    }
)

OPENAI_REQUEST = _COMMON | {
    "audio",
    "function_call",
    "functions",
    "metadata",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
    "verbosity",
    "web_search_options",
}
AZURE_REQUEST = OPENAI_REQUEST | {"data_sources", "user_security_context"}
GROQ_REQUEST = _COMMON | {
    "citation_options",
    "compound_custom",
    "disable_tool_validation",
    "documents",
    "exclude_domains",
    "function_call",
    "functions",
    "include_domains",
    "include_reasoning",
    "metadata",
    "reasoning_format",
    "search_settings",
}
CEREBRAS_REQUEST = _COMMON | {
    "clear_thinking",
    "disable_reasoning",
    "min_completion_tokens",
    "min_tokens",
    "prediction",
    "prompt_cache_key",
    "reasoning_format",
}
FIREWORKS_REQUEST = _COMMON | {
    "context_length_exceeded_behavior",
    "echo",
    "ignore_eos",
    "metadata",
    "min_p",
    "mirostat_lr",
    "mirostat_target",
    "perf_metrics_in_response",
    "prediction",
    "prompt_cache_isolation_key",
    "prompt_cache_key",
    "prompt_truncate_len",
    "raw_output",
    "reasoning_history",
    "repetition_penalty",
    "return_token_ids",
    "safe_tokenization",
    "speculation",
    "thinking",
    "top_k",
    "typical_p",
}
MISTRAL_REQUEST = frozenset(
    {
        "model",
        "messages",
        "frequency_penalty",
        "guardrails",
        "max_tokens",
        "metadata",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_mode",
        "random_seed",
        "reasoning_effort",
        "response_format",
        "safe_prompt",
        "stop",
        "stream",
        "stream_options",  # recorded: docker/cagent e2e/testdata/cassettes/TestExec_Mistral.yaml
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
    }
)

_PLAIN = frozenset({"role", "content", "name"})
_RESULT = frozenset({"role", "content", "name", "tool_call_id"})


def _messages(assistant: set[str], plain: frozenset[str] = _PLAIN) -> Mapping[str, frozenset[str]]:
    return {
        "system": plain,
        "developer": plain,
        "user": plain,
        "function": _PLAIN,
        "assistant": frozenset({"role", "content", "tool_calls"} | assistant),
        "tool": _RESULT,
    }


GROQ_MESSAGES = _messages({"name", "function_call", "reasoning"})
CEREBRAS_MESSAGES = _messages({"name", "reasoning"})
FIREWORKS_MESSAGES = _messages({"name", "function_call", "reasoning_content"})
MISTRAL_MESSAGES = _messages({"prefix"}, frozenset({"role", "content"}))

PARTS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text"}),
    "image_url": frozenset({"type", "image_url"}),
    "thinking": frozenset({"type", "thinking", "closed", "signature"}),
}
CALL = frozenset({"id", "type", "function"})
MISTRAL_CALL = frozenset({"id", "type", "function", "index"})
TOOL = frozenset({"type", "function"})
FUNCTION = frozenset({"name", "description", "parameters", "strict"})
FUNCTION_WITHOUT_STRICT = frozenset({"name", "description", "parameters"})
