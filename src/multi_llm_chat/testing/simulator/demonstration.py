"""A model for demonstrations and lessons: it needs no key, and says the same thing every time.

Rules:
1. The answer depends on the request alone: who is asked, what the user said, which tools are
   offered and what they gave.
2. Two providers give answers that can be distinguished.
3. A tool is called where one is offered whose name, description or parameters fit the question;
   once its result is there, the result is put into words and no tool is called again.
4. A parameter is filled from the question as far as its name and type show how.
5. As the model of a coding agent (``agent``) it writes a note with the agent's shell, reads it, and says what it read: two rounds of
   tools, then words. Requests without a shell (titles, topics) get words.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.received_conversation import OfferedTool, ReceivedConversation
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.testing.simulator.says import Call, Say
from multi_llm_chat.testing.validators.typed_views import as_array, members


class _Manner(Struct, frozen=True):
    """How a speaker words things."""

    greeting: str
    opening: str
    result: str
    closing: str


_MANNERS: dict[str, _Manner] = {
    "chatgpt": _Manner("Hi! How can I help?", "Sure!", "Here you go:", "Anything else?"),
    "claude": _Manner(
        "Hello. It is good to hear from you.",
        "Let me think about that.",
        "The tool tells me:",
        "I hope that is useful.",
    ),
    "gemini": _Manner("Hey there!", "Great question.", "I found this:", "Want to know more?"),
}
_PLAIN = _Manner("Hello.", "All right.", "The result is:", "That is all.")


class _Skill(Struct, frozen=True):
    """A kind of tool: what the question says, and what the tool is called."""

    asked: re.Pattern[str]
    offered: re.Pattern[str]


def _skill(asked: str, offered: str) -> _Skill:
    return _Skill(re.compile(asked, re.IGNORECASE), re.compile(offered, re.IGNORECASE))


_SKILLS = (
    _skill(r"weather|forecast|temperature|rain|天気|날씨|tempo fa", r"weather|forecast|天気|날씨"),
    _skill(r"\d\s*[-+*/×÷^]\s*\d|calculat|\bsum\b|計算|계산", r"calc|math|eval|arithmetic|sum|add"),
    _skill(r"\btime\b|\bclock\b|\bdate\b|\btoday\b|何時|몇 시|che ore", r"time|clock|date|now"),
    _skill(r"search|look up|find|検索|검색", r"search|find|lookup|query"),
)

_PLACE = re.compile(r"\b(?:in|at|for|of)\s+((?:[A-ZÀ-Ý][\w'’-]*)(?:\s+[A-ZÀ-Ý][\w'’-]*)*)")
_PLACE_BEFORE = re.compile(r"([\w一-龯ぁ-んァ-ヶ가-힣]+?)(?:の天気|の날씨| 날씨)")
_SUM = re.compile(r"[-+(]*\d[\d\s.,+*/×÷^()-]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLACES = ("city", "location", "place", "town", "where", "region", "timezone")
_SUMS = ("expression", "formula", "calculation", "equation", "sum")


def demo(request: RecordedRequest) -> Say:
    """The rule set of the demonstration."""
    talk = request.conversation
    speaker = ROWS[request.provider].speaker
    manner = _MANNERS.get(speaker, _PLAIN)
    if talk.results:
        results = "; ".join(talk.results)
        return Say(f"{manner.result} {results} {manner.closing}")
    tool = fitting_tool(talk)
    if tool is not None:
        call = Call(tool.name, arguments_for(tool.schema, talk.question))
        return Say(manner.opening, thinking=f"I should use {tool.name}.", calls=[call])
    return Say(_answer(talk, manner, speaker))


def _answer(talk: ReceivedConversation, manner: _Manner, speaker: str) -> str:
    for pattern, word in _ANSWERS:
        if pattern.search(talk.question):
            return word(talk, manner, speaker)
    quoted = " ".join(talk.question.split())
    shown = quoted if len(quoted) <= 200 else f"{quoted[:200]}…"
    return f"{manner.opening} You said: “{shown}” {manner.closing}"


def _greet(_talk: ReceivedConversation, manner: _Manner, speaker: str) -> str:
    return f"{manner.greeting} I am {speaker}, simulated."


def _introduce(_talk: ReceivedConversation, manner: _Manner, speaker: str) -> str:
    return f"{manner.opening} I am {speaker}: a simulated model that always answers alike."


def _list_tools(talk: ReceivedConversation, manner: _Manner, _speaker: str) -> str:
    names = ", ".join(tool.name for tool in talk.tools) or "none"
    return f"{manner.opening} The tools I was offered: {names}. {manner.closing}"


def _count(_talk: ReceivedConversation, manner: _Manner, _speaker: str) -> str:
    return f"{manner.opening} One, two, three, four, five. {manner.closing}"


_ANSWERS: tuple[
    tuple[re.Pattern[str], Callable[[ReceivedConversation, _Manner, str], str]], ...
] = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"^\W*(hi|hello|hey|good (morning|evening)|こんにちは|안녕|ciao)\b", _greet),
        (r"who are you|your name|誰|누구|chi sei", _introduce),
        (r"(which|what|list).{0,20}tools", _list_tools),
        (r"count to (five|5)", _count),
    )
)


def fitting_tool(talk: ReceivedConversation) -> OfferedTool | None:
    """The first tool on offer that fits the question."""
    for skill in _SKILLS:
        if skill.asked.search(talk.question):
            for tool in talk.tools:
                if skill.offered.search(f"{tool.name} {tool.description}"):
                    return tool
    named = (tool for tool in talk.tools if tool.name and tool.name in talk.question)
    return next(named, None)


def arguments_for(schema: JsonObject, question: str) -> JsonObject:
    """Arguments that the schema demands, taken from the question."""
    properties = members(schema.get("properties"))
    required = as_array(schema.get("required")) or list(properties)[:1]
    numbers = [float(number) for number in _NUMBER.findall(question)]
    return {
        name: _argument(name, members(properties.get(name)), question, numbers)
        for name in required
        if isinstance(name, str)
    }


def _argument(name: str, schema: JsonObject, question: str, numbers: list[float]) -> object:
    choices = as_array(schema.get("enum"))
    if choices:
        chosen = (choice for choice in choices if str(choice).lower() in question.lower())
        return next(chosen, choices[0])
    match schema.get("type"):
        case "integer" | "number" as kind:
            number = numbers.pop(0) if numbers else 0.0
            return int(number) if kind == "integer" else number
        case "boolean":
            return True
        case "array":
            return [_argument(name, members(schema.get("items")), question, numbers)]
        case "object":
            return arguments_for(schema, question)
        case _:
            return _words_for(name.lower(), question)


def _words_for(name: str, question: str) -> str:
    if any(word in name for word in _PLACES):
        found = _PLACE.search(question) or _PLACE_BEFORE.search(question)
        return found[1] if found else "Rome"
    if any(word in name for word in _SUMS):
        found = _SUM.search(question)
        return found[0].strip(" .,") if found else "1 + 1"
    return question


# The model of a coding agent.

_SHELL = re.compile(r"^(?:bash|shell|exec_command|run_shell_command|shell_command|container\.exec)$", re.IGNORECASE)  # fmt: skip
_STEPS = ("echo forty-two > note.txt", "cat note.txt")


def agent(request: RecordedRequest) -> Say:
    """Write a note, read it, and say what it says (rule 5)."""
    conversation = request.conversation
    shell = next((tool for tool in conversation.tools if _SHELL.match(tool.name)), None)
    if shell is None:
        return Say("All right.")
    done = len(conversation.all_results)
    if done < len(_STEPS):
        return Say("", calls=[Call(shell.name, _command(shell, _STEPS[done]))])
    return Say(f"The note says: {conversation.all_results[-1].strip()[:200]}")


def _command(shell: OfferedTool, line: str) -> JsonObject:
    """The arguments of a shell for one line, as its schema asks for them."""
    properties = members(shell.schema.get("properties"))
    wanted = {str(name) for name in as_array(shell.schema.get("required")) or ()}
    filled: JsonObject = {}
    for name in ("command", "cmd"):
        if name in properties:
            is_list = members(properties[name]).get("type") in ("array", "ARRAY")
            filled[name] = ["bash", "-lc", line] if is_list else line
            break
    for name in sorted(wanted - filled.keys()):
        kind = members(properties.get(name)).get("type")
        filled[name] = {"boolean": False, "number": 60_000, "integer": 60_000}.get(
            str(kind).lower(), "runs a command"
        )
    return filled
