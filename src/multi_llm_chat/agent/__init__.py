"""The agentic loop and what fits into a model's window, without input or output."""
