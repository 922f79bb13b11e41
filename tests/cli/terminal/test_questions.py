"""Questions that come while answers are shown."""

import pytest

from tests.cli.terminal.screens import Terminal

ASKED = "? May write_file of files run?"


def asked(which: str, *words: str) -> Terminal:
    terminal = Terminal("asking", which, columns=100, rows=40)
    terminal.wait_for("I need a tool.")
    terminal.send("y\n")  # typed before anything was asked: it answers nothing, but it is the cue
    terminal.wait_for(*words)
    return terminal


@pytest.mark.parametrize(
    ("keys", "told", "decision"),
    [
        ("y", "write_file is allowed once", "Allow(scope='once')"),
        ("A", "write_file is allowed in this conversation", "Allow(scope='conversation')"),
        ("n", "write_file is denied", "Deny(reason='')"),
        ("\x03", "write_file is denied", "Deny(reason='')"),
        ("\r\x1b", "write_file is denied", "Deny(reason='')"),
    ],
)
def test_a_call_is_decided_by_one_key(keys: str, told: str, decision: str):
    with asked("approve", ASKED, "path: 傘.txt", "[y] allow once", "[n] deny") as terminal:
        assert "More words." not in terminal.text()
        for key in keys:
            terminal.send(key)
        shown = terminal.finish()
    assert told in shown
    assert f"Answer: {decision}" in shown
    assert "[y] allow once" not in shown
    assert shown.index(told) < shown.index("More words.")


def test_the_rest_of_long_arguments_can_be_seen_and_a_refusal_can_have_a_reason():
    with asked("approve", ASKED, "[v] view 6 more lines") as terminal:
        assert "    p" not in terminal.text()
        terminal.send("v")
        terminal.wait_until(lambda text: "    p\n" in text and "[v]" not in text)
        terminal.send("r")
        terminal.wait_for("Why not?")
        terminal.send("傘は要らない\r")
        shown = terminal.finish()
    assert "write_file is denied: 傘は要らない" in shown
    assert "Deny(reason='傘は要らない')" in shown


def test_a_form_is_filled_in_and_what_does_not_fit_is_refused():
    with asked("elicit", "? shop asks", "Please order", "email: ", "Where to") as terminal:
        terminal.send("nobody\r")
        terminal.wait_for('"nobody" is not')
        terminal.send("@home.example\r")
        terminal.wait_for("How many: 2")
        terminal.send("\x7f0\r")
        terminal.wait_for("less than the minimum")
        terminal.send("\x7f3\r")
        terminal.wait_for("one of: red, green")
        terminal.send("GREEN\r")
        terminal.wait_for("[y] send to shop", "[n] decline")
        terminal.send("y")
        shown = terminal.finish().replace("\n", "")
    assert "answered shop" in shown
    assert "content={'email': 'nobody@home.example', 'count': 3, 'colour': 'green'}" in shown


@pytest.mark.parametrize(("key", "action"), [("\x03", "cancel"), ("\x04", "decline")])
def test_a_form_can_be_left(key: str, action: str):
    with asked("elicit", "email: ") as terminal:
        terminal.send(key)
        assert f"action='{action}', content=None" in terminal.finish()


@pytest.mark.parametrize(("key", "action"), [("y", "accept"), ("n", "decline"), ("\x03", "cancel")])
def test_an_address_is_shown_in_full_with_its_true_host(key: str, action: str):
    address = "https://shоp.example/a?b=c"
    with asked("visit", address, "It leads to shоp.example (xn--shp-tld.example)") as terminal:
        terminal.send(key)
        assert f"action='{action}'" in terminal.finish()
