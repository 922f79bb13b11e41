"""Questions that arrive while answers are shown."""

from tests.cli.terminal.screens import Terminal

ASKED = "? May write_file of files run?"


def ask(terminal: Terminal, number: int, *words: str) -> None:
    terminal.wait_for(f"ready for {number}")
    terminal.send("\ny")  # the cue, and a key that is typed before any question: it answers nothing
    terminal.wait_for(*words)
    assert f"more about {number}" not in terminal.text()


KEYS = {
    "y": ("write_file is allowed once", "Allow(scope='once', arguments=None)"),
    "A": (
        "write_file is allowed in this conversation",
        "Allow(scope='conversation', arguments=None)",
    ),
    "n": ("write_file is denied", "Deny(reason='')"),
    "\x03": ("write_file is denied", "Deny(reason='')"),
    "\r\x1b": ("write_file is denied", "Deny(reason='')"),
}


def test_a_call_is_decided_by_one_key():
    with Terminal("asking", *["approve"] * len(KEYS), columns=100, rows=40) as terminal:
        for number, (keys, (shown, decision)) in enumerate(KEYS.items()):
            ask(terminal, number, ASKED, "path: 傘.txt", "[y] once", "[n] no")
            for key in keys:
                terminal.send(key)
            terminal.wait_for(shown, f"more about {number}", f"answer {number}: {decision}")
            assert "[y] once" not in terminal.text()


def test_the_rest_of_long_arguments_can_be_seen_and_a_refusal_can_have_a_reason():
    with Terminal("asking", "approve", columns=100, rows=40) as terminal:
        ask(terminal, 0, ASKED, "[v] 6 more lines")
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
    with Terminal("asking", "elicit", "elicit", "elicit", columns=100, rows=40) as terminal:
        ask(terminal, 0, "? shop asks", "Please order", "email:", "Where to")
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
        terminal.wait_for("answered shop", "'count': 3", "'colour': 'green'")
        for number, (key, action) in enumerate([("\x03", "cancel"), ("\x04", "decline")], 1):
            ask(terminal, number, "email:", "Where to")
            terminal.send(key)
            terminal.wait_for(
                f"answer {number}: ElicitationAnswer(action='{action}', content=None)"
            )


def test_an_address_is_shown_in_full_with_its_true_host():
    keys = {"y": "accept", "n": "decline", "\x03": "cancel"}
    with Terminal("asking", *["visit"] * len(keys), columns=100, rows=40) as terminal:
        for number, (key, action) in enumerate(keys.items()):
            ask(terminal, number, "https://shоp.example/a?b=c", "[y] done")
            terminal.wait_for("It leads to shоp.example (xn--shp-ted.example)")
            terminal.send(key)
            terminal.wait_for(f"answer {number}: ElicitationAnswer(action='{action}'")


def test_the_arguments_can_be_changed_and_are_shown_before_they_are_allowed():
    with Terminal("asking", "approve", "approve", columns=100, rows=40) as terminal:
        ask(terminal, 0, ASKED, "[e] edit")
        terminal.send("e")
        terminal.wait_for("Arguments: {", "in $EDITOR")
        terminal.send('\x05\x15{"path": 7\r')
        terminal.wait_for("This is not JSON")
        terminal.send("}\r")
        terminal.wait_for("path: 7", "[y] once")
        terminal.send("e")
        edited = 'Arguments: {"path": 7}'  # the first of them was there before
        terminal.wait_until(lambda text: text.count(edited) == 2 and "in $EDITOR" in text)
        terminal.send("\x03")
        terminal.wait_until(lambda text: text.count(ASKED) == 3 and "[y] once" in text)
        terminal.send("y")
        terminal.wait_for(
            "write_file is allowed once", "Allow(scope='once', arguments={'path': 7})"
        )
        ask(terminal, 1, ASKED, "path: 傘.txt", "[e] edit")
        terminal.send("e")
        terminal.wait_for('Arguments: {"path": "傘.txt"', "in $EDITOR")
        terminal.send("\r")  # unchanged
        terminal.wait_until(lambda text: text.count(ASKED) == 5 and "[y] once" in text)
        terminal.send("y")
        terminal.wait_for("answer 1: Allow(scope='once', arguments=None)")
