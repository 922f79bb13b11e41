"""A run that survives kill -9: start it again, and it continues where it was. Each recorded call runs once."""

import sys
import time
from pathlib import Path

from multi_llm_chat import Agent, ToolRegistry

tools = ToolRegistry()


@tools.tool(resume="retry")
def work(step: int) -> str:
    """Do one step of the work."""
    with Path("work.log").open("a", encoding="utf-8") as log:
        log.write(f"step {step}\n")
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
    return f"step {step} is done"


with Agent("claude", tools=tools, store="runs.db") as agent:
    interrupted = agent.resume()
    for _event in interrupted:
        pass
    if interrupted.results:
        print("resumed:", interrupted.result.text)
    else:
        print("new:", agent.run_sync("Do steps 1 and 2, one after the other.").text)
