"""Other processes, and how much is asked of them."""

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])

#: Whether this is the long run: ``make faults``.
SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "slow"


#: What processes need, loaded once for all of them. A test module that needs more adds it when its tests are collected: the first
#: process fixes it.
PRELOADED = ["multi_llm_chat.store", "multi_llm_chat.store.postgres"]


def context() -> ForkServerContext:
    """How to start processes that share nothing with this one, not even threads."""
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)  # where they find the function that they are to run
    made = get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made
