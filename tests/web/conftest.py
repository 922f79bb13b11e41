"""A real browser: the system's Chromium, driven by Playwright. Without one these tests are skipped.

Playwright runs in a thread of its own: see ``browser_thread``.
"""

import inspect
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)
from tests.web.browser_thread import BrowserThread
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.web.guard import COOKIE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: Chromium uses only the last list, so it starts with the features that Playwright itself switches off.
FEATURES = [
    "AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay",
    "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch",
    "ThirdPartyStoragePartitioning", "Translate",
    # The spare renderer, and the suggestions of an address bar that is never shown: with them each window starts
    # two more processes, which take more time than our page.
    "SpareRendererForSitePerProcess", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxPopup",
]  # fmt: skip
FLAGS = [
    f"--disable-features={','.join(FEATURES)}", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: Milliseconds; only a failing test waits this long.
PATIENCE = 25_000
expect.set_options(timeout=PATIENCE)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that uses the browser in the browser's thread."""
    thread = pyfuncitem.funcargs.get("browser_thread")
    if not isinstance(thread, BrowserThread):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    thread.run(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture(scope="package")
def browser_thread() -> Generator[BrowserThread]:
    """Return the thread in which Playwright and every test that uses it run."""
    thread = BrowserThread()
    yield thread
    thread.close()


@pytest.fixture(scope="package")
def browser(browser_thread: BrowserThread) -> Generator[Browser]:
    """Start one browser for all tests of the package."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")

    def start() -> tuple[Playwright, Browser]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

    playwright, opened = browser_thread.run(start)
    yield opened
    browser_thread.run(opened.close)
    browser_thread.run(playwright.stop)


@pytest.fixture
def server(tmp_path: Path) -> Generator[RunningServer]:
    with run_server(tmp_path) as opened:
        yield opened


class Visitor:
    """The pages of one browser context; records script errors and requests to other servers."""

    def __init__(self, server: RunningServer, browser: Browser, **settings: Any) -> None:
        self._server = server
        self._context = browser.new_context(viewport={"width": 1400, "height": 860}, **settings)
        self._context.set_default_timeout(PATIENCE)
        self._context.on("request", self._on_request)
        self._context.on("requestfailed", self._on_request_failed)
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self._context.add_cookies(
            [{"name": COOKIE, "value": server.access.new_session(), "url": server.url}]
        )

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self._server.url, "blob:", "data:,")):
            self.foreign.append(request.url)

    def _on_request_failed(self, request: Request) -> None:
        """Remove a foreign request that a browser policy refused: it was never sent."""
        if request.failure in ("csp", "origin") and request.url in self.foreign:
            self.foreign.remove(request.url)

    def _on_console(self, message: ConsoleMessage) -> None:
        refused = (
            "responded with a status of 4" in message.text
        )  # the page shows it to the user; it is not an error of the script
        if (message.type == "error" and not refused) or "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def open(self, path: str | None = None) -> Page:
        """Open a page in front of the others: the browser draws background pages only once a second (``bring_to_front``)."""
        page = self._context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        if path is not None:
            page.goto(self._server.url + path)
            page.locator("body[data-ready]").wait_for()
        return page

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def new_visitor(
    server: RunningServer, browser: Browser, browser_thread: BrowserThread
) -> Generator[Callable[..., Visitor]]:
    """Create visitors; at the end none of their pages may have had an error or sent a request to another server."""
    visitors: list[Visitor] = []

    def make(**settings: Any) -> Visitor:
        visitors.append(Visitor(server, browser, **settings))
        return visitors[-1]

    yield make
    for visitor in visitors:
        browser_thread.run(visitor.close)
    assert [error for visitor in visitors for error in visitor.errors] == []
    assert [address for visitor in visitors for address in visitor.foreign] == []


@pytest.fixture
def page(new_visitor: Callable[..., Visitor], browser_thread: BrowserThread) -> Page:
    """Open a page with a new conversation."""
    return browser_thread.run(lambda: new_visitor().open("/"))
