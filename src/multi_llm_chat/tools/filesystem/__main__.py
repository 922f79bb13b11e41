"""``python -m multi_llm_chat.tools.filesystem ROOT…``: the read-only filesystem server, over stdio."""

import argparse
import sys

from multi_llm_chat.errors import UsageError
from multi_llm_chat.tools.filesystem.roots import Roots
from multi_llm_chat.tools.filesystem.server import filesystem_server


def main() -> None:
    """Read the command line and serve until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m multi_llm_chat.tools.filesystem")
    parser.add_argument("roots", nargs="+", metavar="ROOT", help="a folder that may be read")
    parser.add_argument(
        "--allow-any-root",
        action="store_true",
        help="take also a disk, a home folder or a folder of the system",
    )
    chosen = parser.parse_args()
    try:
        roots = Roots(chosen.roots, allow_any=chosen.allow_any_root)
    except UsageError as error:
        sys.exit(str(error))
    filesystem_server(roots).run()


if __name__ == "__main__":
    main()
