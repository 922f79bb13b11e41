"""Forty user stories of the web app, as data: what a user does, and what the user then sees.

A step is a tuple. ``type`` writes into the field that has the focus, ``press`` presses keys, ``click`` clicks a control by its role and
name (a third word is the selector of its container), ``see`` and ``gone`` wait for text in a place, ``count`` for so many elements, ``at``
for an address, ``focus`` for the focused element. A keyboard story has no click. With ``STORY_SHOTS=folder`` each story ends with a picture.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from msgspec import Struct, field
from playwright.sync_api import Locator, Page, expect
from tests.web.conftest import Visitor
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.testing.simulator import Call, Say, Status

Step: TypeAlias = tuple[Any, ...]

CONFIG = '[personas.sceptic]\nspeaker = "claude"\nsystem_prompt = "Doubt."\n\n[groups]\nreview = ["chatgpt", "claude"]\n\n[councils.main]\nmembers = ["gemini", "claude"]\n\n'
MODELS = {"anthropic": ["claude-sonnet-5", "claude-haiku-4-5"], "openai": ["gpt-5.6-terra"]}
SVG = f'<svg xmlns="http://www.w3.org/2000/svg"><title>A circle</title><circle r="40"/><desc>{"x" * 120}</desc></svg>'
VERDICT = '{"answer": "Tea wins.", "claims": [{"claim": "Tea.", "agree": ["gemini:1"], "contradict": ["claude:1"]}]}'
TABLE = "name,price\nTea,2.50\nCake,4.00\n"


class Story(Struct, frozen=True):
    """One story: where it begins, what the models answer, and the steps."""

    name: str
    steps: Sequence[Step]
    replies: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    device: Literal["desk", "phone", "keyboard"] = "desk"
    path: str = "/"


ASK = (("type", "hello"), ("press", "Enter"), ("see", ".answer:not(.live) .body", "Hi there."))
HELLO = {"gemini": [Say("Hi there."), Say("Again."), Say("Third.")]}


def desk(name: str, *steps: Step, path: str = "/", **replies: Sequence[Any]) -> Story:
    return Story(name, steps, replies or HELLO, path=path)


def phone(name: str, *steps: Step, path: str = "/", **replies: Sequence[Any]) -> Story:
    return Story(name, steps, replies or HELLO, "phone", path)


def keyboard(name: str, *steps: Step, path: str = "/", **replies: Sequence[Any]) -> Story:
    return Story(name, steps, replies or HELLO, "keyboard", path)


STORIES = (
    desk("a newcomer tries an example", ("click", "button", "Explain a hard idea simply"), ("press", "Enter"), ("see", ".answer:not(.live)", "Hi there."), ("gone", "#welcome")),
    desk("a newcomer asks all models", ("click", "button", "Ask all models the same thing"), ("count", ".people .chip[aria-pressed=true]", 3), ("press", "Enter"), ("count", ".answer:not(.live)", 3), gemini=[Say("One.")], chatgpt=[Say("Two.")], claude=[Say("Three.")]),
    keyboard("asks by keyboard and asks again", *ASK, ("type", "more"), ("press", "Enter"), ("see", ".answer:not(.live) .body", "Again.")),
    keyboard("mentions a speaker", ("type", "@cl"), ("press", "Tab"), ("type", "hi"), ("press", "Enter"), ("see", ".answer:not(.live) strong", "claude"), claude=[Say("Hello.")]),
    keyboard("mentions a group", ("type", "@review hi"), ("press", "Enter"), ("count", ".answer:not(.live)", 2), chatgpt=[Say("A.")], claude=[Say("B.")]),
    keyboard("asks a persona", ("type", "@sceptic hi"), ("press", "Enter"), ("see", ".answer:not(.live) .body", "I doubt it."), claude=[Say("I doubt it.")]),
    desk("writes a memo", ("click", "button", "Add", ".to"), ("click", "menuitemcheckbox", "Memo"), ("focus", "#text"), ("type", "milk"), ("press", "Enter"), ("see", ".message .badge", "memo")),
    desk("edits the message", *ASK, ("hover", ".message"), ("click", "button", "Edit"), ("press", "Control+a"), ("type", "better"), ("press", "Enter"), ("see", ".answer:not(.live) .body", "Again."), ("see", ".message .switch", "2 / 2"), ("count", ".message .badge", 0)),
    keyboard("edits the last message with the arrow key", *ASK, ("press", "ArrowUp"), ("press", "Control+a"), ("type", "better"), ("press", "Enter"), ("see", ".message", "better")),
    desk("has the model answer again and goes back", *ASK, ("click", "button", "Answer again"), ("see", ".answer:not(.live) .body", "Again."), ("click", "button", "Earlier branch"), ("see", ".answer .body", "Hi there.")),
    desk("deletes a message and takes it back", *ASK, ("hover", ".message"), ("click", "button", "Delete with its answers"), ("count", ".message", 0), ("click", "button", "Undo"), ("see", ".message", "hello")),
    desk("deletes one answer", *ASK, ("click", "button", "More: gemini"), ("click", "menuitem", "Delete this answer"), ("count", ".answer", 0)),
    desk("continues from an earlier answer", *ASK, ("type", "more"), ("press", "Enter"), ("see", ".answer:not(.live) .body", "Again."), ("click", "button", "Continue from here", ".exchange:first-child"), ("count", ".answer", 1)),
    desk("widens one of three answers", ("type", "@all hi"), ("press", "Enter"), ("count", ".answer:not(.live)", 3), ("click", "button", "Use the whole width claude"), ("count", ".answer:visible", 1), gemini=[Say("One.")], chatgpt=[Say("Two.")], claude=[Say("Three.")]),
    desk("puts answers below each other", ("type", "@all hi"), ("press", "Enter"), ("count", ".answer:not(.live)", 3), ("click", "button", "One below the other"), ("see", "body[data-view=stack] .answer", "One."), gemini=[Say("One.")], chatgpt=[Say("Two.")], claude=[Say("Three.")]),
    desk("opens a model's thoughts", ("type", "hi"), ("press", "Enter"), ("click", "group", "Thoughts", ".answer:not(.live)"), ("see", ".thoughts pre", "Let me see"), gemini=[Say("Done.", thinking="Let me see")]),
    desk("allows a tool once", ("type", "weather"), ("press", "Enter"), ("see", ".tool.waiting", "What it will send"), ("click", "button", "Allow once"), ("see", ".answer:not(.live)", "Sunny."), gemini=[Say(calls=[Call("get_weather", {"city": "Rome"})]), Say("Sunny.")]),
    desk("denies a tool", ("type", "weather"), ("press", "Enter"), ("click", "button", "Deny"), ("see", ".answer:not(.live)", "Then not."), gemini=[Say(calls=[Call("get_weather", {"city": "Rome"})]), Say("Then not.")]),
    desk("reads a result as a table", ("type", "prices"), ("press", "Enter"), ("see", ".answer:not(.live)", "Two."), ("click", "group", "Tool get_prices"), ("see", ".result table", "Cake"), ("see", ".result", "2 rows"), gemini=[Say(calls=[Call("get_prices", {})]), Say("Two.")]),
    desk("opens a drawing beside the chat", ("type", "draw"), ("press", "Enter"), ("click", "button", "Open A circle"), ("see", "#pane-title", "A circle"), ("click", "button", "Source"), ("see", "#pane-source", "<svg"), ("click", "button", "Close", "#pane"), ("gone", "#pane"), gemini=[Say(f"```svg\n{SVG}\n```")]),
    desk("chooses another model for this chat", ("type", "@claude "), ("click", "button", "Model of claude"), ("see", ".model-row", "claude-haiku-4-5"), ("type", "haiku"), ("press", "Enter"), ("see", ".chip small", "claude-haiku-4-5")),
    keyboard("chooses a model by keyboard", ("type", "@claude "), ("press", "Shift+Tab"), ("press", "ArrowLeft"), ("focus", ".chip-more, .chip, .add"), ("press", "Escape"), ("see", "#composer", "claude")),
    desk("gives a chat instructions", ("click", "button", "Instructions and parameters"), ("focus", "#parameters textarea"), ("type", "Be brief."), ("click", "button", "Save"), ("see", "#parameters-set", "Instructions")),
    desk("tests the key of a provider", ("click", "button", "Test", "[data-provider=anthropic]"), ("see", "[data-provider=anthropic] .badge", "works"), ("see", "[data-provider=anthropic]", "2 models"), path="/settings/models"),
    keyboard("opens the settings and comes back", ("press", "Control+,"), ("see", "h1", "Models & keys"), ("press", "Escape"), ("see", "#welcome", "talk about")),
    keyboard("finds a setting by word", ("press", "Control+,"), ("focus-on", "#find-setting"), ("type", "theme"), ("press", "Enter"), ("see", "h1", "Appearance")),
    desk("makes a persona", ("click", "link", "New persona"), ("focus-on", ".side-sheet [name=name]"), ("type", "editor"), ("click", "button", "Add", ".side-sheet"), ("see", ".cards", "editor"), path="/settings/personas"),
    desk("looks at the built-in tools", ("see", ".tools-of", "get_weather"), ("click", "combobox", "Approval of get_weather"), ("click", "option", "Always allow"), ("see", ".rules", "/get_weather"), path="/settings/tools/~"),
    desk("goes dark", ("click", "combobox", "Theme"), ("click", "option", "Dark"), ("see", "html[data-theme=dark] h1", "Appearance"), path="/settings/appearance"),
    desk("renames a chat", *ASK, ("click", "button", "More about hello", "header"), ("click", "menuitem", "Rename"), ("press", "Control+a"), ("type", "Greetings"), ("press", "Enter"), ("see", "#title", "Greetings")),
    keyboard("deletes a chat by keyboard and takes it back", *ASK, ("focus-on", ".entry a"), ("press", "Delete"), ("see", ".toast", "Deleted"), ("focus-on", ".toast button >> nth=0"), ("press", "Enter"), ("see", ".entry", "hello")),
    keyboard("finds a message again", *ASK, ("press", "Alt+n"), ("see", "#welcome", "talk about"), ("press", "Control+k"), ("type", "there"), ("see", "#hits mark", "there"), ("press", "ArrowUp"), ("press", "Enter"), ("see", ".answer .body", "Hi there.")),
    keyboard("moves between answers", *ASK, ("press", "Alt+ArrowUp"), ("focus", ".answer"), ("press", "k"), ("focus", ".message"), ("press", "j"), ("focus", ".answer"), ("count", "form.editing", 0)),
    desk("tries again after an error", ("type", "hi"), ("press", "Enter"), ("see", ".failure", "refused the key"), ("click", "button", "Try again"), ("see", ".answer:not(.live) .body", "Now."), gemini=[Status(401), Say("Now.")]),
    desk("hears a council", ("type", "@council:main tea or coffee?"), ("press", "Enter"), ("see", ".answer.verdict", "Tea wins."), ("count", ".answer:not(.live)", 3), gemini=[Say("Tea."), Say(VERDICT)], claude=[Say("Coffee.")]),
    phone("asks on a phone", *ASK, ("gone", "#sidebar"), ("see", "#title", "hello")),
    phone("switches between speakers with tabs", ("type", "@all hi"), ("press", "Enter"), ("count", ".answer:not(.live)", 3), ("click", "tab", "claude"), ("see", ".answer:visible .body", "Three."), gemini=[Say("One.")], chatgpt=[Say("Two.")], claude=[Say("Three.")]),
    phone("opens the drawer and another chat", *ASK, ("click", "link", "New chat", "header"), ("see", "#welcome", "talk about"), ("click", "button", "Conversations"), ("click", "link", "hello"), ("see", ".answer", "Hi there.")),
    phone("chooses a model on a phone", ("type", "@claude "), ("click", "button", "Model of claude"), ("see", ".model-row", "claude-haiku-4-5"), ("click", "option", "claude-haiku-4-5"), ("see", ".chip small", "claude-haiku-4-5")),
    phone("sets the language on a phone", ("click", "combobox", "Language"), ("click", "option", "日本語"), ("see", "h1", "外観"), path="/settings/appearance"),
)  # fmt: skip


def test_there_are_forty_walks_and_those_by_keyboard_have_no_click():
    assert len({story.name for story in STORIES}) == len(STORIES) >= 40
    for story in STORIES:
        if story.device == "keyboard":
            assert {step[0] for step in story.steps}.isdisjoint({"click", "hover"}), story.name


def find(page: Page, role: str, name: str, place: str = "") -> Locator:
    root: Any = page.locator(place).first if place else page
    if role == "group":  # a card or a collapsible section: its summary is clicked
        return root.locator("summary", has_text=re.compile(name.split()[-1])).first
    return root.get_by_role(role, name=name, exact=role in ("link", "tab")).first


def walk(page: Page, step: Step) -> None:
    match step:
        case ("type", text):
            page.keyboard.type(text)
        case ("press", key):
            page.keyboard.press(key)
        case ("click", role, name, *place):
            find(page, role, name, *place).click()
            # A click may lead to another page: its scripts are ready before the next step.
            page.locator("body[data-ready]").wait_for()
        case ("hover", place):
            page.locator(place).first.hover()
        case ("see", place, text):
            shown = page.locator(place).filter(has_text=re.compile(text if "|" in text else re.escape(text)))  # fmt: skip
            expect(shown.first).to_be_visible()
            page.locator("body[data-ready]").wait_for()
        case ("gone", place):
            expect(page.locator(place)).to_be_hidden()
        case ("count", place, number):
            expect(page.locator(place)).to_have_count(number)
        case ("focus", place):
            expect(page.locator(f":focus:is({place})")).to_have_count(1)
        case ("focus-on", place):
            page.locator(place).first.focus()
        case _:
            raise AssertionError(step)


SIZES = {"desk": (1400, 860), "keyboard": (1400, 860), "phone": (390, 844)}


@pytest.mark.sample(7)
@pytest.mark.parametrize("story", STORIES, ids=[story.name.replace(" ", "-") for story in STORIES])
def test_a_user_walks(server: RunningServer, new_visitor: Callable[..., Visitor], story: Story):
    @server.tools.tool(approval="ask")
    def get_weather(city: str) -> str:
        """The weather."""
        return f"sunny in {city}"

    @server.tools.tool
    def get_prices() -> str:
        """The prices."""
        return TABLE

    del get_weather, get_prices
    for speaker, replies in story.replies.items():
        server.add_replies(speaker, *replies)
    page = new_visitor(reduced_motion="reduce").open(story.path)
    width, height = SIZES[story.device]
    page.set_viewport_size({"width": width, "height": height})
    for step in story.steps:
        walk(page, step)
    if folder := os.environ.get("STORY_SHOTS"):
        Path(folder).mkdir(exist_ok=True)
        shot = Path(folder) / f"{story.name.replace(' ', '-').replace(chr(39), '')}.png"
        page.screenshot(path=shot, animations="disabled")


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with run_server(tmp_path, config=CONFIG, simulator={"models": MODELS}) as opened:
        yield opened
