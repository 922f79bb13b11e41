"""How well the embedded model chooses tools and fills in their arguments.

    python -m bench.local_tools [NAME-OR-PATH]

Each prompt counts as *routed* when the model chooses the right tool (or none), as *filled* when the
arguments contain the expected values, and as *worded* when the final sentence shows the result's key
figure: the model's own sentence or, if that fails the check, the plain facts. The prompts were
written before they were first measured; routing and filling were not tuned on them.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.local import LocalModel
from multi_llm_chat.request import ToolDefinition


def _tool(name: str, description: str, **properties: str) -> ToolDefinition:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return ToolDefinition(name, description, schema)


WEATHER = _tool("get_weather", "Get the current weather in a city.", city="string")
CALCULATE = _tool(
    "calculate", "Calculate the value of an arithmetic expression.", expression="string"
)
FIVE = (
    _tool("set_timer", "Start a timer that rings after some minutes.", minutes="integer"),
    _tool("search_files", "Search the user's files for a word.", query="string"),
    _tool("send_email", "Send an email to a person.", recipient="string", subject="string"),
    _tool("play_music", "Play a song or an artist.", title="string"),
    _tool("convert_currency", "Convert an amount of money.", amount="number", currency="string"),
)

Judge = Callable[[dict[str, Any]], bool]


def _has(**wanted: Any) -> Judge:
    def judge(arguments: dict[str, Any]) -> bool:
        return all(
            value.lower() in str(arguments.get(key, "")).lower()
            if isinstance(value, str)
            else arguments.get(key) == value
            for key, value in wanted.items()
        )

    return judge


def _worth(number: float) -> Judge:
    def judge(arguments: dict[str, Any]) -> bool:
        expression = str(arguments.get("expression", ""))
        if not expression or set(expression) - set("0123456789.+-*/() "):
            return False
        try:
            return abs(eval(expression, {"__builtins__": {}}) - number) < 1e-6
        except (SyntaxError, ZeroDivisionError, TypeError):
            return False

    return judge


def _nothing(_: dict[str, Any]) -> bool:
    return True


class Case(Struct):
    message: str
    tool: str
    judge: Judge = _nothing
    result: Any = None
    figure: str = ""


def _weather(message: str, city: str, degrees: int, sky: str) -> Case:
    result = {"temperature": f"{degrees} C", "sky": sky}
    return Case(message, "get_weather", _has(city=city), result, str(degrees))


def _sum(message: str, number: float) -> Case:
    return Case(message, "calculate", _worth(number), f"{number:g}", f"{number:g}")


def _talk(message: str) -> Case:
    return Case(message, "none")


TWO_TOOLS = (
    _weather("What is the weather in Paris?", "Paris", 18, "cloudy"),
    _weather("Is it cold in Moscow today?", "Moscow", -4, "snow"),
    _weather("Tell me the temperature in Madrid.", "Madrid", 33, "sunny"),
    _weather("Will I need a coat in London?", "London", 11, "rain"),
    _weather("how's the weather in new york", "new york", 22, "clear"),
    _weather("Is it snowing in Helsinki?", "Helsinki", -9, "snow"),
    _weather("Check the weather for Tokyo, please.", "Tokyo", 26, "humid"),
    _weather("I am travelling to Rome. Is it sunny there?", "Rome", 29, "sunny"),
    _sum("What is 12 times 12?", 144),
    _sum("Calculate 250 / 5", 50),
    _sum("How much is 99 + 101?", 200),
    _sum("What's 7 * 8?", 56),
    _sum("1000 minus 377", 623),
    _sum("Work out 18 / 4 for me", 4.5),
    _sum("Please add 45 and 55", 100),
    _sum("What do you get if you multiply 6 by 9?", 54),
    _talk("Hi!"),
    _talk("What can you do?"),
    _talk("Tell me a fun fact about elephants."),
    _talk("Who painted the Mona Lisa?"),
    _talk("Write a haiku about autumn."),
    _talk("I had a great day with my family."),
    _talk("What does the word 'serendipity' mean?"),
    _talk("Goodbye!"),
)

FIVE_TOOLS = (
    Case("Set a timer for 15 minutes", "set_timer", _has(minutes=15)),
    Case("Ring in 7 minutes", "set_timer", _has(minutes=7)),
    Case("I need a 30 minute timer", "set_timer", _has(minutes=30)),
    Case("Remind me in 20 minutes", "set_timer", _has(minutes=20)),
    Case("Find files that mention contract", "search_files", _has(query="contract")),
    Case("Search my documents for passport", "search_files", _has(query="passport")),
    Case("Where is my file about the holiday?", "search_files", _has(query="holiday")),
    Case("look for recipe in my files", "search_files", _has(query="recipe")),
    Case("Send an email to Bob about lunch", "send_email", _has(recipient="Bob", subject="lunch")),
    Case("Email Maria about the report", "send_email", _has(recipient="Maria", subject="report")),
    Case("Write to Tom about the meeting", "send_email", _has(recipient="Tom", subject="meeting")),
    Case("Mail Anna about the invoice", "send_email", _has(recipient="Anna", subject="invoice")),
    Case("Play Bohemian Rhapsody", "play_music", _has(title="Bohemian Rhapsody")),
    Case("I want to hear the Beatles", "play_music", _has(title="Beatles")),
    Case("Put on some Mozart", "play_music", _has(title="Mozart")),
    Case("play Yesterday", "play_music", _has(title="Yesterday")),
    Case("Convert 50 dollars to euro", "convert_currency", _has(amount=50)),
    Case("How much is 100 yen in pounds?", "convert_currency", _has(amount=100)),
    Case("Change 20 euros to dollars", "convert_currency", _has(amount=20)),
    Case("What are 75 francs in euros?", "convert_currency", _has(amount=75)),
    _talk("Hello there"),
    _talk("What is the tallest mountain?"),
    _talk("Tell me about dinosaurs."),
    _talk("I am bored."),
    _talk("Why is the sky blue?"),
    _talk("Thanks a lot!"),
)


class Score:
    def __init__(self) -> None:
        self.cases = self.routed = self.calls = self.filled = self.results = self.worded = (
            self.own
        ) = 0


def measure(model: LocalModel, tools: tuple[ToolDefinition, ...], cases: tuple[Case, ...]) -> Score:
    score = Score()
    for case in cases:
        asked = Turn("user", (Text(case.message),))
        turn = model.complete(
            [asked], tools=tools, options={"temperature": 0, "max_tokens": 8}
        ).turn
        call = next((part for part in turn.parts if isinstance(part, ToolCall)), None)
        chosen = call.name if call else "none"
        score.cases += 1
        score.routed += chosen == case.tool
        score.calls += case.tool != "none"
        good = call is not None and chosen == case.tool and case.judge(call.arguments)
        score.filled += good
        shown = f"{chosen} {call.arguments if call else ''}"
        if case.figure:
            score.results += 1
            sentence = _sentence(model, asked, case)
            worded = case.figure in sentence
            score.worded += worded
            score.own += worded and not sentence.startswith(f"{case.tool}:")
            shown += f"  {'' if worded else '!'}{sentence!r}"
        wrong = chosen != case.tool or (call is not None and not good)
        print(f"  {'x' if wrong else ' '} {case.message}  ->  {shown}")
    return score


def _sentence(model: LocalModel, asked: Turn, case: Case) -> str:
    call = Turn("local", (ToolCall(case.tool, {}, "call00000"),))
    result = Turn("tool", (ToolResult(case.tool, case.result, "call00000"),))
    turn = model.complete([asked, call, result]).turn
    return "".join(part.content for part in turn.parts if isinstance(part, Text))


def main() -> None:
    model = LocalModel(sys.argv[1] if len(sys.argv) > 1 else None)
    tables = {"two tools": ((WEATHER, CALCULATE), TWO_TOOLS), "five tools": (FIVE, FIVE_TOOLS)}
    for name, (tools, cases) in tables.items():
        began = time.perf_counter()
        score = measure(model, tools, cases)
        print(
            f"{model.row.name}, {name}: routed {score.routed}/{score.cases}, "
            f"filled {score.filled}/{score.calls}, worded {score.worded}/{score.results} "
            f"(in its own words {score.own}), "
            f"{time.perf_counter() - began:.0f} s"
        )


if __name__ == "__main__":
    main()
