"""Which tests cover each heading and each row of the five seeds, and where SPEC overrides a seed.

``rows.txt`` has a line for every row of the documents (list items, table rows, code blocks, sentences), in their order: the hash of
its words, a label, and the tests that fail when the feature breaks; ``= …`` names a deviation, ``-…`` says that the row is
no feature (a caption, a file, work to do, a reference, the state before). It contains none of the documents' text.

``SEEDS_FOLDER=… pytest tests/seeds/test_manifest.py`` also compares headings and rows with the documents themselves.
"""

import ast
import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]

S000 = "seeds/test_seed_000_chatgpt_tools.py"
S000T = "seeds/test_seed_000_token_info.py"
S001 = "seeds/test_seed_001_message_normalizer.py"
S002 = "seeds/test_seed_002_structured_content.py"
S003 = "seeds/test_seed_003_gpt_tools.py"
S004 = "seeds/test_seed_004_events.py"
NAMES = "seeds/test_seed_names.py"
HOOKS = "compat/test_hooks.py"
PLUGINS = "agent/test_plugins.py"

#: The test files by their names in ``rows.txt``.
FILES = {
    "S000": S000,
    "S000T": S000T,
    "S001": S001,
    "S002": S002,
    "S003": S003,
    "S004": S004,
    "NAMES": NAMES,
    "HOOKS": HOOKS,
    "PLUGINS": PLUGINS,
    "ACCESS": "agent/test_provider_access.py",
    "ASSEMBLERS": "compat/test_assemblers.py",
    "CHAT": "chat/test_chat_service.py",
    "CONTINUATIONS": "compat/test_continuations.py",
    "EVENTS": "compat/test_event_system.py",
    "EXPORTS": "meta/test_exports.py",
    "FAILING": "compat/test_failing_tools.py",
    "HANDLERS": "compat/test_handlers.py",
    "NORMALIZER": "compat/test_message_normalizer.py",
    "RESPONSES": "compat/test_responses.py",
    "TEXTS": "compat/test_history_text.py",
    "TOKENS": "metering/test_tokenizers.py",
    "WEBUI": "web/test_seed_path.py",
}

#: The reasons why a row is not a feature.
NO_FEATURE = {"-caption", "-file", "-work", "-reference", "-before"}


class Row(NamedTuple):
    """A line of ``rows.txt``."""

    digest: str
    label: str
    tests: tuple[str, ...]
    deviations: tuple[str, ...]
    reason: str


def read_rows(text: str) -> dict[str, list[Row]]:
    """Read the rows by seed."""
    rows: dict[str, list[Row]] = {}
    seed = ""
    for line in text.splitlines():
        if line.startswith("# "):
            seed = line[2:]
            rows[seed] = []
            continue
        head, *found = line.split(" | ")
        digest, _, label = head.partition(" ")
        deviations = tuple(each[2:] for each in found if each.startswith("= "))
        reasons = [each for each in found if each.startswith("-")]
        named = [each for each in found if each[:1] not in ("=", "-")]
        tests = tuple(f"{FILES[file]}::{name}" for file, _, name in (each.partition("::") for each in named))  # fmt: skip
        rows[seed].append(Row(digest, label, tests, deviations, "".join(reasons)))
    return rows


ROWS = read_rows((TESTS / "seeds/rows.txt").read_text(encoding="utf-8"))

#: The headings of each seed, with the tests that cover the text below; none if it only describes work, files or effort.
MANIFEST: dict[str, dict[str, tuple[str, ...]]] = {
    "000": {
        "Issue #80: ChatGPTProviderにおけるtoolsパラメータのマッピング実装": (f"{S000}::test_chatgpt_provider_call_api_with_tools",),
        "概要": (f"{S000}::test_mcp_to_openai_tool_conversion",),
        "設計方針": (f"{S000}::test_chatgpt_response_with_tool_call",),
        "1. Geminiとの設計統一性": (f"{S002}::test_geminis_mapping", f"{S002}::test_chatgpts_mapping"),
        "2. OpenAI Tools API 仕様": (f"{S000}::test_chatgpt_provider_call_api_with_tools",),
        "ツール定義形式（リクエスト）": (f"{S000}::test_mcp_to_openai_tool_conversion", f"{NAMES}::test_tool_choice_may_be_an_object"),
        "ツール呼び出し形式（レスポンス）": (f"{S000}::test_parse_openai_tool_call", f"{S000}::test_chatgpt_streaming_tool_arguments"),
        "3. MCP形式との変換": (f"{S000}::test_mcp_to_openai_tool_conversion",),
        "MCP → OpenAI変換": (f"{S000}::test_mcp_to_openai_tool_conversion", f"{S000}::test_mcp_to_openai_with_empty_tools"),
        "OpenAI → 共通形式への変換": (f"{S000}::test_parse_openai_tool_call",),
        "実装計画": (),
        "Phase 1: 変換関数の実装（TDD）": (f"{S000}::test_mcp_to_openai_with_empty_tools", f"{S000}::test_parse_openai_tool_call_with_invalid_json"),
        "Phase 2: ChatGPTProviderの拡張（TDD）": (f"{S000}::test_chatgpt_response_with_tool_call",),
        "A. ストリーミング中のツール呼び出し組み立て": ("compat/test_assemblers.py::test_calls_come_out_in_the_order_of_their_index", "compat/test_assemblers.py::test_pending_calls_are_chunks_and_an_assembler_can_be_used_again"),
        "B. call_api()の修正": ("agent/test_provider_access.py::test_a_missing_key_is_an_error_of_access_and_of_the_caller", f"{NAMES}::test_the_text_of_a_chunk", f"{PLUGINS}::test_every_way_of_asking_uses_the_code"),
        "C. format_history()の更新": (f"{PLUGINS}::test_format_history_belongs_to_the_class_too", f"{S002}::test_chatgpts_mapping"),
        "Phase 3: トークン計算の更新": (f"{S000T}::test_the_buffer_factor_is_larger_with_tools", "metering/test_tokenizers.py::test_the_first_systems_variables_are_read"),
        "Phase 4: エラーハンドリングとロバスト性": (f"{S000}::test_invalid_tool_arguments_json", f"{S000}::test_missing_tool_call_id", f"{S000}::test_tool_call_without_name", f"{S000}::test_an_interrupted_stream_leaves_the_words_and_no_half_call"),
        "テスト戦略": (),
        "ユニットテスト（tests/test_chatgpt_tools.py）": (f"{S000}::test_chatgpt_parallel_tool_calls",),
        "統合テスト（tests/test_llm_provider.py）": (f"{S002}::test_one_models_turns_are_told_to_the_other",),
        "マイグレーション考慮事項": (),
        "後方互換性": (f"{S000}::test_mcp_to_openai_with_empty_tools",),
        "履歴フォーマット": (f"{S002}::test_legacy_strings_are_normalised",),
        "実装順序（TDD）": (),
        "完了条件": (),
        "参考資料": (),
        "リスクと制限事項": (),
        "リスク": (f"{S000}::test_chatgpt_streaming_tool_arguments", "compat/test_assemblers.py::test_calls_come_out_in_the_order_of_their_index"),
        "制限事項": (f"{NAMES}::test_tool_choice_may_be_an_object",),
        "次のステップ（Issue #80完了後）": (f"{S003}::test_multi_iteration",),
    },
    "001": {
        "OpenAI Tool Call Pairing Validation Fix": (f"{S001}::test_should_preserve_valid_tool_call_tool_response_pairs",),
        "작업의 목적": (f"{S001}::test_should_remove_orphaned_tool_messages", f"{S001}::test_should_handle_partial_tool_calls_matching"),
        "현재의 상태 / 문제점": (),
        "문제 상황": ("compat/test_message_normalizer.py::test_what_comes_back_is_accepted_by_chat_completions",),
        "근본 원인": (f"{S001}::test_legacy_tool_use_is_converted_before_pairing",),
        "현재 코드 흐름 (Birdeye View)": (),
        "Provider별 현재 상태": (f"{S001}::test_should_not_affect_anthropic_provider_behavior", f"{S001}::test_should_apply_to_groq_provider"),
        "주요 코드 위치": (),
        "변경 이후의 상태 / 해결 판정 기준": (),
        "목표 상태": ("compat/test_message_normalizer.py::test_flat_messages_come_back_legal_and_complete",),
        "성공 판정 기준": (),
        "기능 검증": (f"{S001}::test_should_remove_orphaned_tool_messages", f"{S001}::test_should_handle_partial_tool_calls_matching"),
        "코드 품질": (),
        "안전성": (f"{S001}::test_a_malformed_message_spoils_no_other", "compat/test_message_normalizer.py::test_what_the_repair_does_is_logged_as_the_seed_asks", f"{S001}::test_thinking_does_not_go_out_and_unknown_keys_stay", "compat/test_message_normalizer.py::test_ids_and_unknown_keys_are_kept"),
        "수정이 필요한 코드 및 수정 부분": (),
        "1. MessageNormalizer에 OpenAI-family 검증 추가": (f"{S001}::test_should_apply_to_groq_provider",),
        "새 함수 추가: `ensureToolCallPairing`": (f"{S001}::test_should_remove_all_tool_calls_when_none_match", f"{S001}::test_should_remove_tool_messages_from_conversation_start"),
        "`sanitizeMessagesForProvider` 수정": (f"{NAMES}::test_the_providers_of_seed_001_are_an_enumeration",),
        "2. 변경하지 않는 파일들": (f"{S001}::test_should_preserve_non_tool_messages",),
        "재사용 가능한 연관 코드": (),
        "참조 구현: Anthropic Tool Chain Fixer": (f"{S001}::test_should_not_affect_anthropic_provider_behavior",),
        "타입 정의": (f"{NAMES}::test_the_providers_of_seed_001_are_an_enumeration",),
        "Logger 사용 패턴": ("compat/test_message_normalizer.py::test_what_the_repair_does_is_logged_as_the_seed_asks",),
        "Test Code 추가 가이드": (),
        "단위 테스트 파일 생성": (f"{S001}::test_should_preserve_valid_tool_call_tool_response_pairs", f"{S001}::test_should_preserve_non_tool_messages"),
        "테스트 실행 및 검증": (),
        "추가 분석 과제": (),
        "1. Ollama Provider 검증": (f"{NAMES}::test_the_providers_of_seed_001_are_an_enumeration",),
        "2. Groq/Cerebras/Fireworks 실제 동작 검증": (f"{S001}::test_should_apply_to_groq_provider", "compat/test_message_normalizer.py::test_flat_messages_come_back_legal_and_complete"),
        "3. Edge Case: Out-of-Order Tool Messages": (f"{S001}::test_the_seeds_algorithm_ignores_order_ours_does_not", f"{S001}::test_removing_a_leading_result_does_not_unpair_its_call"),
        "작업 순서 (High-Level)": (),
        "Rollback Plan": (),
    },
    "002": {
        "構造化コンテンツ形式仕様書": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "概要": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "構造化コンテンツ形式": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "基本構造": (f"{S002}::test_legacy_strings_are_normalised", f"{S002}::test_a_users_words_alone_are_a_history"),
        "コンテンツパートの型": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "1. テキストパート": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "2. ツール呼び出しパート": (f"{S002}::test_the_examples_are_in_their_strict_form_already",),
        "3. ツール結果パート": (f"{S002}::test_the_examples_are_in_their_strict_form_already", "compat/test_history_text.py::test_the_validator_takes_what_is_right"),
        "各プロバイダでのマッピング": (f"{S002}::test_one_models_turns_are_told_to_the_other",),
        "GeminiProvider": (f"{S002}::test_geminis_mapping",),
        "入力（アプリケーション→Gemini API）": (f"{S002}::test_geminis_mapping",),
        "出力（Gemini API→アプリケーション）": (f"{S002}::test_a_name_and_its_arguments_may_come_apart", f"{S002}::test_a_call_without_arguments_is_a_call"),
        "ChatGPTProvider": (f"{S002}::test_chatgpts_mapping",),
        "入力（アプリケーション→OpenAI API）": (f"{S002}::test_chatgpts_mapping",),
        "出力（OpenAI API→アプリケーション）": (f"{S000}::test_chatgpt_response_with_tool_call",),
        "後方互換性": (f"{S002}::test_legacy_strings_are_normalised",),
        "レガシー文字列形式": (f"{S002}::test_legacy_strings_are_normalised",),
        "履歴の正規化": (f"{S002}::test_legacy_strings_are_normalised", "compat/test_history_text.py::test_an_unreadable_entry_is_named_by_its_index"),
        "ユーティリティ関数": (f"{S002}::test_content_to_text_to_the_letter",),
        "content_to_text": (f"{S002}::test_content_to_text_to_the_letter",),
        "UI表示の処理": ("chat/test_chat_service.py::test_calls_and_results_are_kept_turn_by_turn_and_shown",),
        "ストリーミング中の表示": ("chat/test_chat_service.py::test_calls_and_results_are_kept_turn_by_turn_and_shown",),
        "履歴ロード時の表示": ("web/test_seed_path.py::test_the_seeds_handler_is_the_real_one",),
        "エラーハンドリング": (f"{S002}::test_content_of_another_type_is_an_error",),
        "無効なコンテンツ型": (f"{S002}::test_content_of_another_type_is_an_error", "compat/test_history_text.py::test_the_validator_is_strict"),
        "ツール結果のJSON解析": (f"{S002}::test_tool_results_become_objects_for_gemini",),
        "テストパターン": (f"{PLUGINS}::test_an_object_with_call_api_will_do_and_so_will_a_replaced_method",),
        "構造化コンテンツのモック": (f"{S002}::test_a_mock_whose_call_api_returns_chunks_is_a_provider", f"{PLUGINS}::test_an_object_with_call_api_will_do_and_so_will_a_replaced_method"),
        "Gemini APIレスポンスのモック": (f"{NAMES}::test_the_text_of_a_chunk",),
        "関連ファイル": ("meta/test_exports.py::test_the_seeds_import_lines_run_as_written",),
    },
    "003": {
        "ROADMAP - Completare Tool Use Support per GPT": (f"{S003}::test_single_tool_call",),
        "STATO ATTUALE": ("compat/test_responses.py::test_gpts_calls_have_the_seeds_form", "compat/test_responses.py::test_a_processor_reads_on_its_own", f"{HOOKS}::test_a_foreign_bus_carries_tools_and_their_events"),
        "STEP 1 - Abilitare Tool Use Base": (f"{S004}::test_prepare_payload",),
        "1.1 Modificare `supports_tools()`": ("compat/test_handlers.py::test_what_a_handler_can_do",),
        "1.2 Modificare `prepare_payload()`": (f"{HOOKS}::test_tools_and_their_prompt_may_be_given_as_in_seed_003",),
        "1.3 Aggiungere `_convert_tool_definition()`": (f"{S004}::test_tool_definition_conversion", f"{HOOKS}::test_a_replaced_conversion_is_called_with_the_definition_in_anthropics_form"),
        "STEP 2 - Implementare Tool Execution": (f"{S003}::test_single_tool_call", f"{S003}::test_the_rounds_of_a_run_are_logged"),
        "2.1 Modificare `process_stream()` per check tool calls": (f"{HOOKS}::test_a_replaced_handling_of_calls_is_called_and_may_use_ours",),
        "2.2 Implementare `_handle_tool_calls()`": (f"{S004}::test_tool_execution", f"{HOOKS}::test_a_registry_of_the_context_runs_the_calls", f"{NAMES}::test_a_registry_executes_a_tool_by_name"),
        "2.3 Implementare `_build_continuation_payload()`": (f"{HOOKS}::test_a_replaced_continuation_is_sent",),
        "STEP 3 - Multi-call Loop (Opzionale)": (f"{S003}::test_five_rounds_at_most_and_then_an_answer", f"{HOOKS}::test_the_seeds_private_names_work"),
        "TESTING PLAN": (),
        "Test 1 - Single Tool Call": (f"{S003}::test_single_tool_call", f"{S003}::test_the_seeds_own_payload_with_its_own_tools"),
        "Test 2 - Multiple Tool Calls": (f"{S003}::test_multiple_tool_calls",),
        "Test 3 - Multi-iteration": (f"{S003}::test_multi_iteration",),
        "FILE DA MODIFICARE": (),
        "SFORZO STIMATO": (),
        "COMPATIBILITÀ": (f"{S004}::test_without_tools_nothing_changes",),
        "QUANDO COMPLETARE": (),
    },
    "004": {
        "GPT HANDLER - GAP COMPLETATO": (f"{S004}::test_tool_execution",),
        "OBIETTIVO RAGGIUNTO": (f"{S004}::test_tool_execution",),
        "FEATURES IMPLEMENTATE": (),
        "1. Tool Definition Conversion": (f"{S004}::test_tool_definition_conversion",),
        "2. Tool Execution via Events": ("compat/test_event_system.py::test_a_request_is_answered_under_its_own_id", "compat/test_failing_tools.py::test_a_handler_that_never_answers_is_a_timeout_result", f"{S004}::test_a_request_waits_thirty_seconds_unless_another_time_is_given"),
        "3. Continuation Payload": ("compat/test_continuations.py::test_the_applications_messages_stay_word_for_word",),
        "4. Multi-call Support": (f"{S003}::test_multi_iteration",),
        "MODIFICHE ESEGUITE": (),
        "agent_streaming_handler.py - GptHandler": (),
        "1. __init__": (f"{HOOKS}::test_a_foreign_bus_carries_tools_and_their_events",),
        "2. Event Handlers": (f"{HOOKS}::test_the_seeds_private_names_work",),
        "3. prepare_payload()": (f"{S004}::test_prepare_payload",),
        "4. _convert_tool_definition()": (f"{S004}::test_tool_definition_conversion", f"{HOOKS}::test_the_seeds_private_names_work"),
        "5. process_stream() - Tool Check": (f"{HOOKS}::test_a_replaced_handling_of_calls_is_called_and_may_use_ours",),
        "6. _handle_tool_calls()": (f"{S004}::test_tool_execution",),
        "7. _build_continuation_payload()": (f"{HOOKS}::test_a_replaced_continuation_is_sent",),
        "8. supports_tools()": ("compat/test_handlers.py::test_what_a_handler_can_do",),
        "TOOL REGISTRY EVENTS": (f"{S004}::test_the_seeds_own_snippet_answers_the_requests",),
        "Snippet Aggiornato": (f"{S004}::test_the_seeds_own_snippet_answers_the_requests", f"{HOOKS}::test_the_seeds_snippet_answers_on_a_foreign_bus_without_ids"),
        "FORMATO OPENAI vs ANTHROPIC": (f"{S004}::test_tool_definition_conversion",),
        "Request Tools": (f"{S004}::test_tool_definition_conversion",),
        "Response Tool Calls": (f"{S000}::test_parse_openai_tool_call",),
        "Continuation Messages": (f"{S003}::test_the_seeds_own_payload_with_its_own_tools",),
        "ARCHITETTURA ALLINEATA": (),
        "ClaudeHandler": ("compat/test_continuations.py::test_the_thinking_budget_holds_over_the_calls_of_a_run", "compat/test_handlers.py::test_results_can_be_edited_and_tools_run_again_before_the_model_receives_them", f"{HOOKS}::test_a_continuation_fits_the_models_window"),
        "GptHandler": (f"{S003}::test_multi_iteration", f"{HOOKS}::test_a_continuation_fits_the_models_window"),
        "DIFFERENZE ARCHITETTURALI (OK)": ("compat/test_continuations.py::test_claudes_thinking_goes_back_with_its_signature",),
        "TESTING": (),
        "Test 1 - Tool Definition Conversion": (f"{S004}::test_tool_definition_conversion",),
        "Test 2 - prepare_payload": (f"{S004}::test_prepare_payload",),
        "Test 3 - Tool Execution": (f"{S004}::test_tool_execution",),
        "VERIFICHE": (f"{HOOKS}::test_the_seeds_private_names_work",),
        "FILES MODIFICATI": (),
        "BREAKING CHANGES": (f"{S004}::test_without_tools_nothing_changes",),
        "MULTI-CALL LOOP (Futuro - Se Necessario)": (f"{S003}::test_five_rounds_at_most_and_then_an_answer",),
        "CONCLUSIONE": (),
    },
}  # fmt: skip

#: Where the product deviates from a seed: the test that says so, and the section and sentence of SPEC.
DEVIATIONS: dict[str, tuple[str, str, str]] = {
    "call_api asks over Responses, not Chat Completions": (f"{S000}::test_chatgpt_provider_call_api_with_tools", "3", "`openai` (speaker `chatgpt`) | OpenAI Responses"),
    "arguments that are no JSON are not run as an empty object": (f"{S000}::test_invalid_tool_arguments_json", "1", "such a call is **never executed**; its result is an error the model can read"),
    "a parsed call names its tool `name`, as everywhere": (f"{S000}::test_parse_openai_tool_call", "1", '{"type": "tool_call",   "content": {"name": str, "arguments": dict, "tool_call_id": str}}'),
    "a call without an id gets one": (f"{S000}::test_missing_tool_call_id", "1", "Every call has an id; where a provider sends none, one is derived from position"),
    "a tool without a schema has an object's": (f"{S000}::test_mcp_to_openai_tool_conversion", "2", "Tool schemas are projected per dialect"),
    "other models' words are not left out": (f"{S002}::test_one_models_turns_are_told_to_the_other", "2", "foreign speakers `label` (default), `adopt` or `drop`"),
    "a Gemini call without arguments is a call": (f"{S002}::test_a_call_without_arguments_is_a_call", "1", "`null` or empty arguments of a tool without required parameters are `{}`"),
    "Gemini's results are the user's, not a function's": (f"{S002}::test_geminis_mapping", "2", "first turn and alternation as the dialect wants"),
    "an empty result is said in words": (f"{S002}::test_tool_results_become_objects_for_gemini", "2", "No empty text, no null, no `[]`"),
    "results move behind their calls": (f"{S001}::test_the_seeds_algorithm_ignores_order_ours_does_not", "2", "Late or early results move behind their call, in call order"),
    "an early result is paired, not removed": (f"{S001}::test_removing_a_leading_result_does_not_unpair_its_call", "2", "Late or early results move behind their call, in call order"),
    "no empty assistant message remains": (f"{S001}::test_an_empty_assistant_message_does_not_remain", "2", "No empty text, no null, no `[]`"),
    "duplicates and reused ids are told apart": (f"{S001}::test_duplicate_results_and_reused_ids_do_not_pass", "2", "Duplicates: the last real one wins"),
    "at the limit the model answers once more": (f"{S003}::test_five_rounds_at_most_and_then_an_answer", "4", "At the iteration or token limit the model is asked once more"),
    "a failing continuation is an error": (f"{S003}::test_a_failing_continuation_is_told", "4", "an error never looks like an empty answer"),
    "every continuation has all rounds": (f"{S003}::test_multi_iteration", "4", "Loop: model → tools → model until text"),
    "a message without words has no content": (f"{S004}::test_a_continuation_has_the_call_and_its_result", "2", "No empty text, no null, no `[]`"),
    "content that is a dict is an error in format_history": (f"{S000}::test_the_seeds_dict_forms_are_read", "1", "for content that is neither string nor list"),
    "answers carry the id of their request": (f"{S004}::test_tool_execution", "4", "each with `request_id`; late or duplicate answers discarded"),
}  # fmt: skip


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def named() -> Iterator[str]:
    for headings in MANIFEST.values():
        for tests in headings.values():
            yield from tests
    for test, _, _ in DEVIATIONS.values():
        yield test
    for rows in ROWS.values():
        for row in rows:
            yield from row.tests


def test_every_named_test_exists():
    pairs = {test: test.split("::") for test in set(named())}
    assert [test for test, (path, name) in pairs.items() if name not in functions(path)] == []


def test_every_test_of_the_seeds_shows_a_heading_a_row_or_a_deviation():
    shown = set(named())
    files = [S000, S000T, S001, S002, S003, S004, NAMES]
    missing = [f"{path}::{name}" for path in files for name in functions(path) if name.startswith("test_") and f"{path}::{name}" not in shown]  # fmt: skip
    assert missing == []


def test_most_headings_have_tests():
    rows = [tests for headings in MANIFEST.values() for tests in headings.values()]
    assert len(rows) == 148
    assert sum(bool(tests) for tests in rows) >= 110


@pytest.mark.skipif(
    "SEEDS_FOLDER" not in os.environ, reason="the documents are not part of this repository"
)
@pytest.mark.parametrize("seed", MANIFEST)
def test_no_heading_is_missing(seed: str):
    folder = Path(os.environ["SEEDS_FOLDER"])
    [path] = folder.glob(f"{seed}_*")
    text = re.sub(
        r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found = [_plain(line) for line in re.findall(r"^#{1,4} (.*)$", text, re.MULTILINE)]
    assert found == list(MANIFEST[seed])


@pytest.mark.parametrize("seed", ROWS)
def test_a_row_has_tests_or_is_no_feature(seed: str):
    for row in ROWS[seed]:
        assert bool(row.tests) != (row.reason in NO_FEATURE), row
        assert set(row.deviations) <= set(DEVIATIONS), row
        assert row.tests or not row.deviations, row


def test_every_deviation_belongs_to_a_row():
    found = {each for rows in ROWS.values() for row in rows for each in row.deviations}
    assert found == set(DEVIATIONS)


def test_most_rows_are_features():
    rows = [row for rows in ROWS.values() for row in rows]
    assert len(rows) == 443
    assert sum(bool(row.tests) for row in rows) >= 320


@pytest.mark.skipif(
    "SEEDS_FOLDER" not in os.environ, reason="the documents are not part of this repository"
)
@pytest.mark.parametrize("seed", MANIFEST)
def test_no_row_is_missing(seed: str):
    [path] = Path(os.environ["SEEDS_FOLDER"]).glob(f"{seed}_*")
    found = [digest(row) for row in rows_of(path.read_text(encoding="utf-8"))]
    assert found == [row.digest for row in ROWS[seed]]


def rows_of(text: str) -> Iterator[str]:
    """Return a document's rows: whole code blocks, other lines one by one; without headings, rules and table headers."""
    block: list[str] | None = None
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        words = line.strip()
        if words.startswith("```"):
            if block is not None:
                yield "\n".join(block)
            block = [words] if block is None else None
        elif block is not None:
            block.append(words)
        elif words and not re.fullmatch(r"#{1,6} .*|[|\s:-]+", words) and not _is_head(words, following):  # fmt: skip
            yield words


def _is_head(line: str, following: str) -> bool:
    return line.startswith("|") and re.fullmatch(r"[|\s:-]+", following.strip()) is not None


def digest(row: str) -> str:
    """Return the first characters of the hash of a row's words."""
    return hashlib.sha256(re.sub(r"\s+", " ", row).encode()).hexdigest()[:8]


def _plain(heading: str) -> str:
    """Return the text without the characters that one of the documents lost to a wrong encoding."""
    return heading.replace("\u201a\u00fa\u00d6", "").strip()


@pytest.mark.skipif("SEEDS_FOLDER" not in os.environ, reason="SPEC is not part of this repository")
@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_a_deviation_names_a_sentence_of_spec(deviation: str):
    _, section, sentence = DEVIATIONS[deviation]
    spec = (Path(os.environ["SEEDS_FOLDER"]).parent / "SPEC.md").read_text(encoding="utf-8")
    part = spec.partition(f"\n## {section}. ")[2].partition("\n## ")[0]
    assert re.sub(r"\s+", " ", sentence) in re.sub(r"\s+", " ", part)
