"""A server that does not start before the test opens the pipe named by its first argument.

It fails with the words that come through the pipe, or, if there are none, is a good one.
"""

import runpy
import sys
from pathlib import Path

if words := Path(sys.argv[1]).read_text(encoding="utf-8"):
    sys.exit(words)
sys.argv[1] = "slow"
runpy.run_path(str(Path(__file__).with_name("hostile.py")), run_name="__main__")
