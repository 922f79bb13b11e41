"""``python -m tests.web.screenshots`` retakes the pictures of docs/screenshots/."""

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.web.conftest import CHROMIUM, FLAGS
from tests.web.page_actions import send
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.testing.simulator import Call, Gate, Say

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
ALL_SPEAKERS = ("gemini", "chatgpt", "claude")

MODELS = {
    "anthropic": ["claude-sonnet-5", "claude-opus-4-6", "claude-haiku-4-5"],
    "openai": ["gpt-5.6-terra", "gpt-4o", "gpt-4o-mini"],
    "gemini": ["gemini-3.7-flash", "gemini-2.5-pro"],
}
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
    """Take formulas, then several answers while they stream."""
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


PAGE = """<!doctype html><html><head><title>Compound interest</title><style>body{font:16px system-ui;padding:32px;color:#1c1b19}.k{display:flex;gap:16px}
.k div{border:1px solid #e7e6e2;border-radius:12px;padding:14px 18px}b{font-size:22px}</style></head><body><h1>What your savings become</h1>
<p>Interest is paid once a year and stays in.</p><div class="k"><div>You will have<br><b id="sum"></b></div><div>You paid in<br><b>€82,000</b></div></div>
<p><label>Rate <input type="range" id="rate" min="1" max="10" value="5"></label></p>
<script>const show = () => { sum.textContent = "€" + Math.round(82000 * (1 + rate.value / 100) ** 15).toLocaleString(); }; rate.oninput = show; show();</script></body></html>"""


def take_settings(server: RunningServer, page: Page) -> None:
    """Take the settings pages, the picker, and an artifact."""
    with server.signed_in_client() as client:
        for name, speaker, prompt in (
            ("sceptic", "claude", "Find the weakest point and name it in three sentences."),
            ("editor", "chatgpt", "Shorten, keep the meaning, add no adjectives."),
        ):
            client.post(
                "/settings/persona",
                json={"name": name, "speaker": speaker, "system_prompt": prompt},
            )
        for provider in ("anthropic", "openai", "gemini"):
            client.post("/settings/check", json={"provider": provider})
        client.post("/tools/rule", json={"pattern": "/get_weather", "approval": "ask"})
    for path, name in (
        ("models", "settings"),
        ("personas/sceptic", "settings-personas"),
        ("tools/~", "settings-tools"),
    ):
        page.goto(f"{server.url}/settings/{path}")
        page.locator("body[data-ready]").wait_for()
        take(page, name)
    page.goto(server.url)
    page.locator("body[data-ready]").wait_for()
    server.add_replies("claude", Say(f"Here is a page with a slider.\n\n```html\n{PAGE}\n```\n"))
    send(page, "@claude Make a small page where I can play with the rate.")
    page.get_by_role("button", name="Open Compound interest").click()
    page.frame_locator("#pane iframe").locator("#sum", has_text="€").wait_for()
    page.emulate_media(color_scheme="dark")
    take(page, "artifact")
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitem", name="All models").click()
    page.locator(".model-row").first.wait_for()
    page.keyboard.press("Alt+s")
    take(page, "picker")
    page.keyboard.press("Escape")


def take_dialogs(server: RunningServer, page: Page) -> None:
    """Take menus, dialogs, search, and a phone."""
    page.locator("#text").press_sequentially("and now @")
    page.emulate_media(color_scheme="dark")
    take(page, "dark")
    page.keyboard.press("Escape")
    page.locator("#text").fill("")
    page.keyboard.press("Control+k")
    take(page, "palette")
    page.keyboard.press("Escape")
    page.emulate_media(color_scheme="light")
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
        run_server(Path(folder), simulator={"models": MODELS}) as server,
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
        page.set_viewport_size({"width": 1400, "height": 860})
        page.emulate_media(color_scheme="light")
        take_settings(server, page)
        browser.close()


if __name__ == "__main__":
    main()
