"""Steps of server tools and citations on a terminal."""

from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.screen import PLAIN
from multi_llm_chat.cli.terminal.view import TerminalAnswer
from multi_llm_chat.events import NativeItem, TextDelta, TurnFinished
from multi_llm_chat.history.values import Extras, Native, Origin, Text, Turn

ORIGIN = Origin("anthropic", "api.anthropic.com", "claude-opus-4-8")


def shown(*events: NativeItem | TextDelta | TurnFinished, columns: int = 60) -> str:
    answer = TerminalAnswer(Renderer(PLAIN), "claude", "", lambda: 0.0)
    for event in events:
        answer.take(event)
    return "\n".join(answer.settled(columns))


def test_a_step_of_a_server_tool_is_one_line() -> None:
    item = Native("server_tool_use", "searched the web for: rain\x1b[31m\nin Tokyo", ORIGIN)
    lines = shown(NativeItem(item), TextDelta("Rain.")).splitlines()
    step = next(line for line in lines if line.startswith("◆"))
    assert "searched the web for: rain" in step
    assert "in Tokyo" in step
    assert "\x1b" not in step


def test_the_pages_that_an_answer_cites_are_listed_once() -> None:
    cited = {"type": "web_search_result_location", "url": "https://w.test/a", "title": "Weather"}
    text = Text("Warm.", Extras(ORIGIN, {"citations": [cited, cited]}))
    turn = Turn("claude", (text, text))
    printed = shown(TextDelta("Warm."), TurnFinished(turn))
    assert printed.count("https://w.test/a") == 1
    assert "[1] Weather" in printed


def test_an_answer_to_the_newest_turns_only_says_so() -> None:
    mark = {"repairs": {"applied": {"newest_turns": ""}}, "compressed": "Only the newest turns."}
    turn = Turn("claude", (Text("Warm."),), meta=mark)
    assert "Only the newest turns." in shown(TextDelta("Warm."), TurnFinished(turn))
    assert "newest" not in shown(TextDelta("Warm."), TurnFinished(Turn("claude", (Text("Warm."),))))
