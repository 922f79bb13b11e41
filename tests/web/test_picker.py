"""The model picker, and the instructions and parameters of a chat, in a real browser."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.web.conftest import Visitor
from tests.web.page_actions import send
from tests.web.server_process import RunningServer, run_server

from multi_llm_chat.testing.simulator import Say

CONFIG = '[personas.sceptic]\nspeaker = "claude"\nmodel = "claude-sonnet-5"\nsystem_prompt = "Doubt."\n\n'
MODELS = {
    "anthropic": ["claude-sonnet-5", "claude-haiku-4-5", "claude-opus-4-6"],
    "openai": ["gpt-5.6-terra", "gpt-4o", "text-embedding-3-small"],
    "gemini": ["gemini-3.7-flash"],
}


@pytest.fixture
def server(tmp_path: Path) -> Generator[RunningServer]:
    with run_server(tmp_path, config=CONFIG, simulator={"models": MODELS}) as opened:
        yield opened


def test_a_model_is_found_starred_and_chosen_by_keyboard(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    page.keyboard.press("Shift+Tab")  # from the text to Add, then to the chips
    page.locator(".chip[data-name=claude]").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#model-search")).to_be_focused()
    expect(page.locator(".model-row")).to_have_count(3)
    expect(page.locator(".model-row[aria-selected=true]")).to_contain_text("claude-sonnet-5")
    page.keyboard.type("haiku")
    expect(page.locator(".model-row")).to_have_count(1)
    expect(page.locator("#model-details")).to_contain_text("200,000")
    expect(page.locator("#model-details")).to_contain_text("The next answer in this chat: about")
    page.keyboard.press("Alt+s")
    expect(page.locator(".star.on")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#picker")).to_be_hidden()
    expect(page.locator(".chip[data-name=claude]")).to_contain_text("claude-haiku-4-5")
    expect(page.locator("#text")).to_be_focused()
    server.add_replies("gemini", Say("One."))
    server.add_replies("claude", Say("Two."))
    send(page, "hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(2)
    asked = next(each for each in server.simulator.requests if each.provider == "anthropic" and each.method == "POST")  # fmt: skip
    assert asked.body["model"] == "claude-haiku-4-5"
    # The chat stores the choice, the browser the favourites; another chat has the speaker's own model.
    other = visitor.open(page.url.removeprefix(server.url))
    expect(other.locator(".chip[data-name=claude] small")).to_have_text("claude-haiku-4-5")
    new = visitor.open("/")
    expect(new.locator(".chip[data-name=claude] small")).to_have_count(0)
    new.get_by_role("button", name="Model of claude").click()
    expect(new.locator("#models h3").first).to_have_text("Favourites")
    new.keyboard.press("Escape")
    expect(new.locator("#picker")).to_be_hidden()


def test_all_models_are_filtered_and_one_of_another_speaker_addresses_it(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("menuitem", name="All models").click()
    expect(page.locator(".model-row")).to_have_count(7)
    page.locator("#picker").get_by_role("button", name="Thinking").click()
    expect(page.locator(".model-row", has_text="gpt-4o")).to_have_count(0)
    page.locator("#picker").get_by_role("button", name="Pictures").click()
    expect(page.locator(".model-row", has_text="text-embedding-3-small")).to_have_count(0)
    expect(page.locator(".model-row", has_text="gpt-4o")).to_have_count(1)
    page.locator("#picker").get_by_role("button", name="On this machine").click()
    expect(page.locator("#models")).to_contain_text("No model matches.")
    page.locator("#picker").get_by_role("button", name="All", exact=True).click()
    page.locator(".model-row", has_text="gpt-4o").click()
    expect(page.locator(".chip[data-name=chatgpt][aria-pressed=true] small")).to_have_text("gpt-4o")
    expect(page.locator(".chip[data-name=gemini]")).to_have_attribute("aria-pressed", "true")


def test_a_persona_chooses_from_its_speakers_models_and_a_refusing_provider_is_named(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    page = new_visitor().open("/")
    page.locator("#text").fill("@sceptic ")
    page.get_by_role("button", name="Model of sceptic").click()
    page.locator(".model-row", has_text="opus").click()
    expect(page.locator(".chip[data-name=sceptic] small")).to_have_text("claude-opus-4-6")
    server.add_replies("claude", Say("I doubt it."))
    send(page, "@sceptic hi")
    expect(page.locator(".answer:not(.live) .body")).to_have_text("I doubt it.")
    assert server.simulator.requests[-1].body["model"] == "claude-opus-4-6"
    with server.signed_in_client() as client:
        form = {"name": "far", "provider": "mistral", "base_url": "http://127.0.0.1:1"}
        client.post("/settings/speaker", json=form)
        found = client.get("/models").json()
    assert "far" in found["problems"]
    assert {each["speaker"] for each in found["models"]} >= {"gemini", "chatgpt", "claude"}


def test_a_chat_has_instructions_and_parameters_of_its_own(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    visitor = new_visitor()
    page = visitor.open("/")
    page.get_by_role("button", name="Instructions and parameters").click()
    page.locator("[name=system_prompt]").fill("Answer in two sentences.")
    page.get_by_role("radio", name="Low").check()
    page.locator("#parameters [name=temperature]").fill("hot")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#parameters [role=alert]")).to_contain_text("'hot' is no number")
    page.locator("#parameters [name=temperature]").fill("0.3")
    page.locator("#parameters [name=max_tokens]").fill("2000")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#parameters-set")).to_have_text("Instructions · Low · T 0.3 · ≤ 2,000")
    server.add_replies("gemini", Say("Two. Sentences."))
    send(page, "@gemini hi")
    expect(page.locator(".answer:not(.live)")).to_have_count(1)
    body = server.simulator.requests[-1].body
    assert "Answer in two sentences." in str(body["systemInstruction"])
    assert body["generationConfig"]["temperature"] == 0.3
    assert body["generationConfig"]["maxOutputTokens"] == 2000
    page.reload()
    expect(page.locator("#parameters-set")).to_have_text("Instructions · Low · T 0.3 · ≤ 2,000")
    expect(visitor.open("/").locator("#parameters-set")).to_have_text("")
    page.bring_to_front()
    page.get_by_role("button", name="Instructions and parameters").click()
    page.locator("[name=system_prompt]").fill("")
    page.get_by_role("radio", name="Default").check()
    page.locator("#parameters [name=temperature]").fill("")
    page.locator("#parameters [name=max_tokens]").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#parameters-set")).to_have_text("")
