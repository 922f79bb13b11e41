"""Other processes, and the amount of work that they get."""

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])

#: Whether this is the long run: ``make faults``.
SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "slow"


#: Modules that processes need, loaded once for all of them. A test module that needs more
#: adds them when its tests are collected: the list is fixed when the first process starts.
PRELOADED = ["multi_llm_chat.store", "multi_llm_chat.store.postgres"]


def context() -> ForkServerContext:
    """Return the context for processes that share nothing with this one, not even threads."""
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)  # where they find the function to run
    made = get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made
