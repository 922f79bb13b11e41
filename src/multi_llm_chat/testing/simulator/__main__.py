"""``python -m multi_llm_chat.testing.simulator``: the simulator as a program."""

import argparse
import sys
import threading
from collections.abc import Sequence

from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.demonstration import agent, demo
from multi_llm_chat.testing.simulator.script import Rule, echo
from multi_llm_chat.testing.simulator.service import Simulator

#: The rule sets that can be named on the command line.
RULES: dict[str, Rule] = {"agent": agent, "demo": demo, "echo": echo}


def main(arguments: Sequence[str] | None = None, stop: threading.Event | None = None) -> int:
    """Run until interrupted; ``stop`` ends it from within a program."""
    parser = argparse.ArgumentParser(
        prog="simulate",
        description="Every provider on this machine: the same bytes, no key, no cost.",
    )
    parser.add_argument("--port", type=int, default=0, help="where to listen (0: a free port)")
    parser.add_argument("--script", choices=sorted(RULES), default="demo", help="what to answer")
    parser.add_argument("--key", help="accept this key only (default: any, or none)")
    chosen = parser.parse_args(arguments)
    try:
        simulator = Simulator(RULES[chosen.script], key=chosen.key, port=chosen.port).start()
    except OSError as error:
        parser.exit(1, f"Cannot listen on port {chosen.port}: {error.strerror}\n")
    try:
        _show_addresses(simulator)
        (stop or threading.Event()).wait()
    except KeyboardInterrupt:
        pass
    finally:
        simulator.stop()
    return 0


def _show_addresses(simulator: Simulator) -> None:
    width = max(map(len, ROWS))
    lines = [f"{name:<{width}}  {simulator.base_url(name)}" for name in ROWS]
    sys.stdout.write("\n".join([f"Listening on {simulator.url} until Ctrl-C.", "", *lines, ""]))
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
