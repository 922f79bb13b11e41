"""A real browser: the system's Chromium, driven by Playwright. Without one these tests are skipped."""

import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)
from tests.web.house import House, house

from multi_llm_chat.web.guarding import COOKIE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: Milliseconds; only a test that fails waits so long.
PATIENCE = 25_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def browser() -> Generator[Browser]:
    """One browser for all tests here. While it is open, this thread has its event loop: see ``apart``."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def home(tmp_path: Path) -> Generator[House]:
    with house(tmp_path) as opened:
        yield opened


class Watched:
    """Pages of one visitor, and everything that must not happen in them."""

    def __init__(self, home: House, browser: Browser, **settings: Any) -> None:
        self._home = home
        self._context = browser.new_context(viewport={"width": 1400, "height": 860}, **settings)
        self._context.set_default_timeout(PATIENCE)
        self._context.on("request", self._requested)
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self._context.add_cookies(
            [{"name": COOKIE, "value": home.access.session(), "url": home.url}]
        )

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self._home.url, "blob:", "data:,")):
            self.foreign.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        refused = (
            "responded with a status of 4" in message.text
        )  # told to the reader, not a mistake
        if (message.type == "error" and not refused) or "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def open(self, path: str | None = None) -> Page:
        page = self._context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        if path is not None:
            page.goto(self._home.url + path)
            page.locator("body[data-ready]").wait_for()
        return page

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def visit(home: House, browser: Browser) -> Generator[Callable[..., Watched]]:
    """Visitors; at the end none of their pages may have met an error or asked anybody else."""
    visitors: list[Watched] = []

    def come(**settings: Any) -> Watched:
        visitors.append(Watched(home, browser, **settings))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.close()
    assert [error for visitor in visitors for error in visitor.errors] == []
    assert [address for visitor in visitors for address in visitor.foreign] == []


@pytest.fixture
def page(visit: Callable[..., Watched]) -> Page:
    """One page of one visitor, an empty conversation."""
    return visit().open("/")
