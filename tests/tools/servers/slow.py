"""A server that does not start before the test opens the pipe named by its first argument.

It fails with the text that it reads from the pipe; without any text it works normally.
"""

import runpy
import sys
from pathlib import Path

if words := Path(sys.argv[1]).read_text(encoding="utf-8"):
    sys.exit(words)
sys.argv[1] = "slow"
# Loaded by its file: the program starts without our environment, and without importing the package.
hostile = Path(__file__).parents[3] / "src" / "multi_llm_chat" / "testing" / "hostile_mcp_server.py"
runpy.run_path(str(hostile), run_name="__main__")
