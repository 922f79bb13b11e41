"""Markdown as safe HTML, whole or while it grows."""

from multi_llm_chat.web.markup.incremental import Growing, Grown
from multi_llm_chat.web.markup.markdown import render_markdown

__all__ = ["Growing", "Grown", "render_markdown"]
