"""``python -m tests.web.screenshots`` takes the pictures of docs/screenshots/ again."""

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.web.conftest import CHROMIUM, FLAGS
from tests.web.page_actions import send
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.testing.simulator import Call, Gate, Say

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
ALL_SPEAKERS = ("gemini", "chatgpt", "claude")

COMPARISON = """## Threads and tasks

A **task** gives way only where it awaits; a thread may be interrupted anywhere. See the
[documentation](https://docs.python.org/3/library/asyncio.html).

1. Tasks for thousands of connections
2. Threads for libraries that *block*
3. Processes for `numpy`-free number crunching

| | switches at | memory |
|---|---|--:|
| task | `await` | 2 KB |
| thread | anywhere | 60 KB |

```python
async with asyncio.TaskGroup() as group:
    group.create_task(fetch("a"))
```
"""
FORMULA = r"""The sum is $S = \sum_{i=1}^{n} i$, so

$$\frac{n(n+1)}{2} = \int_0^n x\,dx + \frac{n}{2}$$

which is what we wanted."""


def wait_until_idle(page: Page) -> None:
    page.locator('body[data-busy="false"]').wait_for()


def take(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")


def take_conversation(server: RunningServer, page: Page) -> None:
    """Formulas, then several answers while they stream."""
    for title in ("Trip to Kyoto in spring", "SQL tuning", "Release notes"):
        server.add_replies("chatgpt", Say("Gladly."))
        page.goto(server.url)
        send(page, f"@chatgpt {title}")
        page.locator(".answer:not(.live)").wait_for()
    page.goto(server.url)
    for name in ALL_SPEAKERS:
        server.add_replies(name, Say(FORMULA))
    send(page, "@all How do I add the first n numbers?")
    page.locator(".answer:not(.live)").nth(2).wait_for()
    take(page, "formulas")
    weather = Call("get_weather", {"city": "Paris", "days": 3})
    gate = Gate(9)
    server.add_replies(
        "gemini",
        Say("Let me look.", thinking="They also want the weather.", calls=[weather]),
        Say(COMPARISON),
    )
    server.add_replies("chatgpt", Say(COMPARISON))
    server.add_replies("claude", Say(COMPARISON, faults=[gate]))
    send(page, "@all Compare threads and tasks. And the weather in Paris?")
    page.locator(".tool.waiting").wait_for()
    gate.wait_reached()
    page.locator(".answer:not(.live)").nth(3).wait_for()
    take(page, "light")
    page.get_by_role("button", name="Allow once").click()
    gate.open()
    wait_until_idle(page)


def take_dialogs(server: RunningServer, page: Page) -> None:
    """Menus, dialogs, search, and a phone."""
    page.locator("#text").press_sequentially("and now @")
    page.emulate_media(color_scheme="dark")
    take(page, "dark")
    page.keyboard.press("Escape")
    page.locator("#text").fill("")
    page.keyboard.press("Control+k")
    take(page, "palette")
    page.keyboard.press("Escape")
    page.emulate_media(color_scheme="light")
    page.keyboard.press("Control+,")
    page.locator(".providers").wait_for()
    page.locator("body[data-ready]").wait_for()
    take(page, "settings")
    page.keyboard.press("Escape")
    page.locator("#composer").wait_for()
    page.locator("body[data-ready]").wait_for()
    server.add_replies("claude", Say("In short: tasks wait, threads block, processes compute."))
    page.locator(".answer[data-speaker=claude]").last.get_by_role(
        "button", name="Answer again"
    ).click()
    page.locator(".answer:not(.live) .body", has_text="In short").wait_for()
    wait_until_idle(page)
    page.keyboard.press("Control+k")
    page.locator("#search").fill("threads block")
    page.locator("#hits mark").first.wait_for()
    take(page, "search-and-branches")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 400, "height": 820})
    page.emulate_media(color_scheme="dark")
    page.get_by_role("tab", name="claude").last.click()
    take(page, "phone")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(Path(folder)) as server,
        sync_playwright() as playwright,
    ):

        @server.tools.tool(approval="ask")
        def get_weather(city: str, days: int = 1) -> str:
            """The weather of the next days."""
            return f"{city}: sunny, 24 °C, for {days} days"

        @server.tools.tool
        def get_alerts(city: str) -> str:
            """Warnings for a city."""
            return f"no warnings for {city}"

        del get_weather, get_alerts
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 860})
        page.goto(server.link())
        page.locator("body[data-ready]").wait_for()
        take(page, "empty")
        take_conversation(server, page)
        take_dialogs(server, page)
        browser.close()


if __name__ == "__main__":
    main()
