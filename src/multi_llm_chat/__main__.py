"""``python -m multi_llm_chat`` and ``mlc``: the command line.

Ctrl-C while the program is still loading ends it without a traceback.
"""

import sys


def main() -> None:
    """Load the command line and run it."""
    try:
        from multi_llm_chat.cli.main import main as run  # noqa: PLC0415  so that Ctrl-C is caught

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
