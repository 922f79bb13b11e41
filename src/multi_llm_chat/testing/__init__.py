"""Public aids for testing: conformance judges of provider requests."""

from multi_llm_chat.testing.validators import PROVIDERS, Violation, error_body, validate

__all__ = ["PROVIDERS", "Violation", "error_body", "validate"]
