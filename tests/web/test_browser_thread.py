"""The browser has its own thread, so that other tests can run before, between and after its tests."""

import asyncio
import threading

import pytest
from playwright.sync_api import Browser


@pytest.fixture
def thread_of_a_loop(browser: Browser) -> str:
    """Return the thread in which a fixture runs an event loop while the browser is open."""
    assert browser.is_connected()

    async def name() -> str:
        return threading.current_thread().name

    return asyncio.run(name())


def test_the_main_thread_runs_its_loops_while_the_browser_is_open(thread_of_a_loop: str):
    assert thread_of_a_loop == threading.main_thread().name


def test_a_test_of_the_browser_runs_in_the_thread_of_the_browser(browser: Browser):
    assert threading.current_thread().name.startswith("browser")
    with browser.new_context() as context:
        assert context.new_page().evaluate("6 * 7") == 42
