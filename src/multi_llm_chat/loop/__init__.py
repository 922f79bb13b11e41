"""The agentic loop, without input or output."""
