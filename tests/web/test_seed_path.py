"""The first seed system's import line for the web page runs as written."""

from multi_llm_chat.chat.display import logic_history_to_display as real
from multi_llm_chat.webui.handlers import logic_history_to_display


def test_the_seeds_handler_is_the_real_one():
    assert logic_history_to_display is real
    history = [{"role": "user", "content": "hi"}, {"role": "gemini", "content": "hello"}]
    assert logic_history_to_display(history) == [["hi", "hello"]]
