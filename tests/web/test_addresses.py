"""Conversations whose ids contain arbitrary characters, in URLs."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect
from tests.web.server_process import RunningServer

from multi_llm_chat.store import create
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.web.views import address_of, id_of

ODD = ["a/b", "..", ".", "a b?c=d#e", "~x", "%2F", "名前/二", "a\nb", "a;b", '<b>"&']


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
@example("~")
@example("~x")
@example("..")
def test_every_id_has_an_address_of_one_segment_that_names_it(identifier: str):
    address = address_of(identifier)
    assert re.fullmatch(r"[\w.~%-]+", address, re.ASCII)
    assert address not in {".", ".."}
    assert id_of(unquote(address)) == identifier


@pytest.mark.judge
def test_conversations_with_odd_ids_are_opened_renamed_and_exported(server: RunningServer):
    with server.signed_in_client() as visitor:
        for identifier in ODD:
            server.add_replies("claude", Say(f"An answer in {identifier}."))
            server.hub.workspace.store.run(create, "Given", identifier=identifier)
            link = f"/c/{address_of(identifier)}"
            assert f'href="{link}"' in visitor.get("/").text
            assert f'data-path="{link}"' in visitor.get(link).text
            assert visitor.post(f"{link}/rename", json={"text": "Renamed"}).status_code == 200
            assert "Renamed" in visitor.get("/sidebar").text
            said = visitor.post(f"{link}/messages", data={"text": "@claude hi"})
            assert said.status_code == 200
            while visitor.get(f"{link}/view").json()["busy"]:
                pass
            assert f"An answer in {identifier}." in visitor.get(f"{link}/export?form=text").text


def test_a_conversation_with_an_odd_id_works_in_the_page(server: RunningServer, page: Page):
    server.add_replies("claude", Say("An answer."))
    server.hub.workspace.store.run(create, "Given", identifier="plans/2026 ?#")
    page.reload()
    page.locator(".entry a").click()
    page.wait_for_url("**/c/*")
    page.locator("body[data-ready]").wait_for()
    page.locator("#text").fill("@claude hi")
    page.keyboard.press("Enter")
    expect(page.locator(".answer:not(.live) .body")).to_have_text("An answer.")
    page.reload()
    expect(page.locator(".answer .body")).to_have_text("An answer.")
    expect(page.locator(".entry.current a")).to_have_text("Given")


def test_an_address_that_leads_nowhere_says_so(server: RunningServer, page: Page):
    page.goto(f"{server.url}/no/such/page")
    expect(page.locator("h1")).to_have_text("This page does not exist")
    page.get_by_role("link", name="Back to the chat").click()
    expect(page.locator("#welcome")).to_be_visible()
    page.goto(f"{server.url}/c/no-such-chat")
    expect(page.locator(".toast")).to_contain_text("That chat does not exist any more.")
    expect(page).to_have_url(f"{server.url}/")
    with server.signed_in_client() as client:
        assert client.get("/no/such/page", headers={"accept": "*/*"}).text == "Not Found"
