"""Providers' refusals, and the errors that they become."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
)
from multi_llm_chat.protocol._failures import MAX_MESSAGE, judge, read_error_details, read_failure
from multi_llm_chat.protocol._rejections import REPAIRS, find_rejection
from multi_llm_chat.protocol.anthropic import decode as anthropic
from multi_llm_chat.protocol.gemini import decode as gemini
from multi_llm_chat.protocol.openai_chat import decode as openai_chat
from multi_llm_chat.protocol.openai_responses import decode as openai_responses


def failure(status: int, body: Any, headers: dict[str, str] | None = None) -> ProviderError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_failure(status, headers or {}, data, provider="acme")


def openai(message: str, type_: str = "invalid_request_error", code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def claude(type_: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": details}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        pytest.param(401, openai("Incorrect API key provided: sk-abc***xyz.", code="invalid_api_key"), AuthError, "invalid_api_key", id="openai-key"),
        pytest.param(429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), AuthError, "insufficient_quota", id="openai-no-money"),
        pytest.param(429, openai("Rate limit reached for gpt-5", "requests", "rate_limit_exceeded"), RateLimited, "rate_limit_exceeded", id="openai-rate"),
        pytest.param(400, openai("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"), ContextTooLong, "context_length_exceeded", id="openai-context"),
        pytest.param(400, openai("The response was filtered due to the prompt", code="content_filter"), Refused, "content_filter", id="azure-filter"),
        pytest.param(500, openai("The server had an error", "server_error"), Overloaded, "server_error", id="openai-500"),
        pytest.param(404, openai("The model `x` does not exist", code="model_not_found"), BadRequest, "model_not_found", id="openai-no-model"),
        pytest.param(401, claude("authentication_error", "invalid x-api-key"), AuthError, "authentication_error", id="anthropic-key"),
        pytest.param(403, claude("permission_error", "not allowed"), AuthError, "permission_error", id="anthropic-permission"),
        pytest.param(400, claude("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), AuthError, "invalid_request_error", id="anthropic-no-money"),
        pytest.param(429, claude("rate_limit_error", "Number of request tokens has exceeded your limit"), RateLimited, "rate_limit_error", id="anthropic-rate"),
        pytest.param(529, claude("overloaded_error", "Overloaded"), Overloaded, "overloaded_error", id="anthropic-overloaded"),
        pytest.param(400, claude("invalid_request_error", "prompt is too long: 200054 tokens > 200000 maximum"), ContextTooLong, "invalid_request_error", id="anthropic-context"),
        pytest.param(413, claude("request_too_large", "Request exceeds the maximum size"), ContextTooLong, "request_too_large", id="anthropic-413"),
        pytest.param(400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}), AuthError, "INVALID_ARGUMENT", id="gemini-key"),
        pytest.param(403, google(403, "PERMISSION_DENIED", "denied"), AuthError, "PERMISSION_DENIED", id="gemini-permission"),
        pytest.param(429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota"), RateLimited, "RESOURCE_EXHAUSTED", id="gemini-rate"),
        pytest.param(503, google(503, "UNAVAILABLE", "The model is overloaded."), Overloaded, "UNAVAILABLE", id="gemini-503"),
        pytest.param(400, google(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), ContextTooLong, "INVALID_ARGUMENT", id="gemini-context"),
        pytest.param(400, [google(400, "INVALID_ARGUMENT", "bad")], BadRequest, "INVALID_ARGUMENT", id="gemini-in-a-list"),
        pytest.param(413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000", "tokens", "rate_limit_exceeded"), ContextTooLong, "rate_limit_exceeded", id="groq-too-large"),
        pytest.param(402, {"error": {"code": 402, "message": "Insufficient credits"}}, AuthError, None, id="openrouter-no-money"),
        pytest.param(403, {"error": {"code": 403, "message": "Input was flagged by moderation", "metadata": {"reasons": ["violence"]}}}, Refused, None, id="openrouter-moderation"),
        pytest.param(429, {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "x is temporarily rate-limited upstream"}}}, RateLimited, None, id="openrouter-rate"),
        pytest.param(500, {"error": {"code": 500, "message": "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]", "type": "server_error"}}, BadRequest, "server_error", id="LCP-01-a-500-that-is-permanent"),
        pytest.param(400, {"error": {"code": 400, "message": "request (9000 tokens) exceeds the available context size (4096 tokens)", "type": "exceed_context_size_error"}}, ContextTooLong, "exceed_context_size_error", id="llamacpp-context"),
        pytest.param(400, {"error": "registry.ollama.ai/library/gemma does not support tools"}, BadRequest, None, id="ollama-string"),
        pytest.param(400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***23."}, AuthError, "Client specified an invalid argument", id="xai-key"),
        pytest.param(401, {"detail": "Unauthorized"}, AuthError, None, id="mistral-key"),
        pytest.param(422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 1], "msg": "Extra inputs are not permitted"}]}, "type": "invalid_request_error", "code": None}, BadRequest, "invalid_request_error", id="mistral-422"),
        pytest.param(400, openai("The supported API model names are deepseek-v4-pro or deepseek-v4-flash, but you passed x.", "invalid_request_error", "invalid_request_error"), BadRequest, "invalid_request_error", id="DSK-12-model-name"),
        pytest.param(400, {"code": "invalid-argument", "error": "Model not found: x"}, BadRequest, "invalid-argument", id="XAI-08-flat"),
        pytest.param(400, openai("prompt too long; exceeded max context length by 1119046 tokens (ref: 9)", "invalid_request_error"), ContextTooLong, "invalid_request_error", id="OLL-11-context"),
        pytest.param(400, {"error": {"code": 400, "message": "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it", "n_ctx": 512, "type": "exceed_context_size_error"}}, ContextTooLong, "exceed_context_size_error", id="LCP-13-context"),
        pytest.param(400, {"message": "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}, ContextTooLong, None, id="BDR-12-context"),
        pytest.param(400, google(400, "INVALID_ARGUMENT", "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."), ContextTooLong, "INVALID_ARGUMENT", id="VTX-05-context"),
        pytest.param(400, openai("The total length of all messages is too long.", "too_many_prompt_tokens"), ContextTooLong, "too_many_prompt_tokens", id="OTH-01-context"),
        pytest.param(400, {"error": {"message": "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens.", "code": 400}}, ContextTooLong, None, id="OTH-02-context"),
        pytest.param(502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", Overloaded, None, id="html"),
        pytest.param(500, b"", Overloaded, None, id="nothing"),
        pytest.param(418, b"\xff\xfe", BadRequest, None, id="garbage"),
        pytest.param(301, b"moved", BadRequest, None, id="redirect"),
    ],
)  # fmt: skip
def test_a_refusal_becomes_the_error_that_fits(
    status: int, body: Any, kind: type[ProviderError], code: str | None
) -> None:
    error = failure(status, body)
    assert type(error) is kind
    assert error.code == code
    assert error.status == status
    assert error.provider == "acme"
    assert "acme" in str(error)


@pytest.mark.parametrize(
    ("rule", "text", "repair"),
    [
        ("OAI-01", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", "flatten_tools"),
        ("OAI-02", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", "flatten_tools"),
        ("OAI-07", "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40", "shorten_ids"),
        ("OAI-08", "Invalid 'messages[9].tool_calls[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", "rename_tools"),
        ("OAI-11", "Invalid value: 'think'. Supported values are: 'text', 'image_url'", "drop_thinking"),
        ("OAI-12", "Unknown parameter: 'zzz_unknown'.", "drop_options"),
        ("OAI-13", "Invalid 'tools': array too long. Expected an array with maximum length 128", "drop_tools"),
        ("OAI-14", "Invalid schema for function 'x': In context=(), object schema missing properties.", "plain_schemas"),
        ("OAI-16", "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions.", "reasoning_none"),
        ("OAI-19", "Unsupported parameter: 'max_tokens' is not supported with this model.", "drop_options"),
        ("RSP-01", "No tool output found for function call call_1", "flatten_tools"),
        ("RSP-02", "No tool call found for function call output with call_id call_1", "flatten_tools"),
        ("RSP-03", "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "drop_thinking"),
        ("RSP-04", "Item 'msg_1' was provided without its required 'reasoning' item: 'rs_1'.", "drop_thinking"),
        ("RSP-05", "The encrypted content gAAA...DQ== could not be verified.", "drop_thinking"),
        ("ANT-01", "messages.48.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1.", "flatten_tools"),
        ("ANT-02", "messages.6: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.", "flatten_tools"),
        ("ANT-04", "messages.1.content.1: `tool_use` ids must be unique", "shorten_ids"),
        ("ANT-05", "messages.1.content.2.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "shorten_ids"),
        ("ANT-08", "This model does not support assistant message prefill. The conversation must end with a user message.", "alternate"),
        ("ANT-10", "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", "disable_thinking"),
        ("ANT-11", "messages.1.content.0: Invalid `signature` in `thinking` block", "drop_thinking"),
        ("ANT-12", "messages.3.content.11: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", "drop_thinking"),
        ("ANT-13", "messages.1.content.0.thinking.signature: Field required", "drop_thinking"),
        ("ANT-15", "Thinking may not be enabled when tool_choice forces tool use.", "drop_options"),
        ("ANT-17", "tools.7.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", "rename_tools"),
        ("OAI-14", "tools.5.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", "plain_schemas"),
        ("GEM-01", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.", "alternate"),
        ("GEM-02", "Please ensure that function response turn comes immediately after a function call turn.", "flatten_tools"),
        ("GEM-03", "Please ensure that the number of function response parts is equal to the number of function call parts", "flatten_tools"),
        ("GEM-04", "Function call is missing a thought_signature in functionCall parts.", "drop_thinking"),
        ("GEM-06", "Corrupted thought signature.", "drop_thinking"),
        ("GEM-09", "Please ensure that single turn requests end with a user role or the role field is empty.", "alternate"),
        ("GEM-11", "Invalid function name. Must start with a letter or an underscore.", "rename_tools"),
        ("GEM-13", "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].function_declarations[5].parameters': Cannot find field.", "plain_schemas"),
        ("GRQ-01", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]", "drop_thinking"),
        ("GRQ-02", "property 'store' is unsupported, did you mean 'stop'?", "drop_options"),
        ("GRQ-04", "Failed to call a function. Please adjust your prompt.", "resend"),
        ("CER-02", "Tools with mixed values for 'strict' are not allowed.", "plain_schemas"),
        ("GRQ-01", "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported", "drop_thinking"),
        ("MIS-01", "Tool call id was call_abc123 but must be a-z, A-Z, 0-9, with a length of 9.", "shorten_ids"),
        ("MIS-02", "Not the same number of function calls and responses", "flatten_tools"),
        ("MIS-04", "Unexpected role 'tool' after role 'user'", "flatten_tools"),
        ("MIS-06", "Unexpected role 'user' after role 'tool'", "alternate"),
        ("MIS-09", "Function name was fs.read but must be a-z, A-Z, 0-9, or contain underscores and dashes", "rename_tools"),
        ("DSK-01", "The `reasoning_content` in the thinking mode must be passed back to the API.", "disable_thinking"),
        ("VLL-06", "Conversation roles must alternate user/assistant/user/assistant/...", "alternate"),
        ("VLL-01", "Unterminated string starting at: line 1 column 1121 (char 1120)", "flatten_tools"),
        ("VLL-04", "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set", "drop_tools"),
        ("LCP-04", "Cannot have 2 or more assistant messages at the end of the list.", "alternate"),
        ("LCP-05", "tools param requires --jinja flag", "drop_tools"),
        ("LCP-08", "image input is not supported - hint: provide the mmproj", "drop_media"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_known_rejection_names_its_repair(rule: str, text: str, repair: str) -> None:
    rejection = find_rejection(text)
    assert rejection is not None
    assert (rejection.rule, rejection.repair) == (rule, repair)
    error = failure(400, openai(text))
    assert type(error) is BadRequest
    assert error.repair == repair
    assert repair in REPAIRS


def test_ort_01_the_upstream_text_is_what_counts() -> None:
    raw = json.dumps(
        {"type": "error", "error": {"message": "messages.1: `tool_use` ids must be unique"}}
    )
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    error = failure(400, body)
    assert type(error) is BadRequest
    assert error.repair == "shorten_ids"
    assert "must be unique" in str(error)


def test_grq_04_the_failed_generation_is_kept() -> None:
    body = openai("Failed to call a function.", code="tool_use_failed")
    body["error"]["failed_generation"] = "<function=f>{}"
    error = failure(400, body)
    assert (error.code, error.repair) == ("tool_use_failed", "resend")
    assert error.partial.meta == {"failed_generation": "<function=f>{}"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Service temporarily unavailable", Overloaded),
        ("The model has crashed without additional information. (Exit code: 6)", Overloaded),
        ("Internal server error", Overloaded),
        ("Rate limit reached for requests", RateLimited),
        ("Something odd", ProviderError),
    ],
)
def test_str_09_an_error_that_is_only_words_is_judged_by_them(
    said: str, kind: type[ProviderError]
) -> None:
    assert type(judge(read_error_details({"error": said}), provider="lmstudio")) is kind
    assert type(failure(400, {"error": said})) is BadRequest


def test_an_unknown_rejection_has_no_repair() -> None:
    assert failure(400, openai("No.")).repair is None


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        pytest.param({"Retry-After": "7"}, {}, 7.0, id="seconds"),
        pytest.param({"retry-after": "2", "retry-after-ms": "1500"}, {}, 1.5, id="milliseconds"),
        pytest.param({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None, id="a-date"),
        pytest.param({}, openai("Please try again in 6.5s. Visit"), 6.5, id="said"),
        pytest.param({}, openai("Please try again in 20ms."), 0.02, id="said-in-milliseconds"),
        pytest.param({}, openai("Please try again in 1m30.5s."), 90.5, id="said-in-minutes"),
        pytest.param({}, openai("Please try again in ..s"), None, id="said-badly"),
        pytest.param(
            {},
            google(429, "RESOURCE_EXHAUSTED", "quota", {"@type": "x"}, {"retryDelay": "13s"}),
            13.0,
            id="gemini-retry-info",
        ),
        pytest.param({}, {}, None, id="not-said"),
    ],
)
def test_the_waiting_time_is_read(
    headers: dict[str, str], body: dict[str, Any], seconds: float | None
) -> None:
    error = failure(429, body, headers)
    assert type(error) is RateLimited
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop",
        "gsk_abcdefghijklmnop",
        "AIzaSyA1234567890abcdef",
        "sk-ant-api03-xx_yy-zz",
    ],
)
def test_no_error_text_contains_a_key(secret: str) -> None:
    error = failure(
        401, openai(f"Incorrect API key provided: {secret}."), {"authorization": secret}
    )
    assert secret not in str(error)
    assert secret not in repr(error)


def test_long_bodies_are_trimmed() -> None:
    assert len(str(failure(400, openai("x" * 100_000)))) < MAX_MESSAGE + 200


def test_all_dialects_read_failures_alike() -> None:
    modules = (anthropic, gemini, openai_chat, openai_responses)
    assert {module.read_failure for module in modules} == {read_failure}


@given(
    st.integers(300, 599),
    st.binary(max_size=80)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "details", "metadata", "raw", "detail", "loc", "msg", "retryDelay", "failed_generation"]),
            inner,
            max_size=4,
        ),
        max_leaves=9,
    ),
    st.dictionaries(st.sampled_from(["retry-after", "Retry-After-Ms", "x"]), st.text(max_size=9)),
)  # fmt: skip
def test_any_body_becomes_an_error(status: int, body: Any, headers: dict[str, str]) -> None:
    error = failure(status, body, headers)
    assert error.status == status
    assert len(str(error)) < MAX_MESSAGE + 200
