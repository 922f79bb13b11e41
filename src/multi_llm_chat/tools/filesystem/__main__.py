"""``python -m multi_llm_chat.tools.filesystem ROOT…``: a server over stdio with four tools, all of which only read.

Rules:
1. Every error is reported in a text that names the path as it was requested.
2. The server writes nothing, and shows nothing outside of the roots, not even whether it exists.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import mcp_types
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from multi_llm_chat.errors import UsageError
from multi_llm_chat.tools.filesystem import files as reading
from multi_llm_chat.tools.filesystem.files import Roots

_READS: Final = mcp_types.ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, open_world_hint=False
)
_Value = TypeVar("_Value")


def filesystem_server(roots: Roots) -> MCPServer:
    """A server for these roots, ready to run."""
    listed = ", ".join(str(folder) for folder in roots.folders)
    server = MCPServer(
        "filesystem",
        instructions=f"Reads files below {listed}. Relative paths start at {roots.folders[0]}.",
        log_level="ERROR",
    )

    @server.tool(annotations=_READS, structured_output=False)
    def read_file(path: str, first_line: int = 1, lines: int = reading.MOST_LINES) -> str | Image:
        """Read a text file or a picture. Long files: ask for lines from first_line on."""
        found = _or_tool_error(path, lambda: reading.read_file(roots, path, first_line, lines))
        return found if isinstance(found, str) else Image(data=found.data, format=found.format)

    @server.tool(annotations=_READS, structured_output=False)
    def list_directory(path: str = "") -> str:
        """List a folder: kind, name and size of each entry."""
        return (
            "\n".join(_or_tool_error(path, lambda: reading.list_directory(roots, path)))
            or "(empty)"
        )

    @server.tool(annotations=_READS, structured_output=False)
    def search_files(
        pattern: Annotated[
            str, Field(description="a pattern for the file's name, such as *.py")
        ] = "*",
        path: Annotated[str, Field(description="the folder to search")] = "",
        text: Annotated[str, Field(description="words that the file contains")] = "",
    ) -> str:
        """Find files below a folder, by name and by the text in them."""
        found = _or_tool_error(path, lambda: reading.search_files(roots, pattern, path, text))
        return "\n".join(found) or "(nothing found)"

    @server.tool(annotations=_READS)
    def file_info(path: str) -> dict[str, str | int]:
        """Kind, size and time of the last change of a file or folder."""
        return _or_tool_error(path, lambda: reading.file_info(roots, path))

    del read_file, list_directory, search_files, file_info  # the server keeps references to them
    return server


def _or_tool_error(path: str, read: Callable[[], _Value]) -> _Value:
    try:
        return read()
    except UsageError as error:
        raise ToolError(str(error)) from error
    except OSError as error:
        raise ToolError(f"{path or 'the folder'}: {error.strerror or 'cannot be read'}") from error


def main() -> None:
    """Read the command line and serve until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m multi_llm_chat.tools.filesystem")
    parser.add_argument("roots", nargs="+", metavar="ROOT", help="a folder that may be read")
    parser.add_argument(
        "--allow-any-root",
        action="store_true",
        help="take also a disk, a home folder or a folder of the system",
    )
    parser.add_argument(
        "--allow-tmp",
        action="store_true",
        help="take also the folder of temporary files, which all programs share",
    )
    chosen = parser.parse_args()
    try:
        roots = Roots(chosen.roots, allow_any=chosen.allow_any_root, allow_tmp=chosen.allow_tmp)
    except UsageError as error:
        sys.exit(str(error))
    filesystem_server(roots).run()


if __name__ == "__main__":
    main()
