"""Markdown as safe HTML, whole or while it grows."""

from multi_llm_chat.web.rendering.growing import Growing, Grown
from multi_llm_chat.web.rendering.markdown import render_markdown

__all__ = ["Growing", "Grown", "render_markdown"]
