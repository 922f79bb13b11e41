"""Search for inputs that break the code that reads external data.

    python -m tests.fuzz [SECONDS]

Runs the property tests of streams, decoders, tool results, imports, forms and pages again and again, each round with another
seed, for an hour or the given seconds. The first failure ends the search; Hypothesis prints the smallest example and stores it in
``.hypothesis``. Repeat a round with ``HYPOTHESIS_PROFILE=fuzz pytest --hypothesis-seed=SEED``.
"""

import os
import re
import subprocess
import sys
import time

#: The tests of external input: from providers, tool servers, files, browsers and programs.
PATHS = ("archive", "config", "history", "http", "protocol", "schema", "tools", "web")
_PASSED = re.compile(r"(\d+) passed")


def search(seconds: float) -> int:
    """Run rounds until the time is over; return the exit code of the round that failed, else 0."""
    end, number, passed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        number += 1
        seed = int.from_bytes(os.urandom(4))
        command = [
            sys.executable, "-m", "pytest", "-q", "-n", "auto", "-m", "hypothesis and not fault",
            f"--hypothesis-seed={seed}", *(f"tests/{each}" for each in PATHS),
        ]  # fmt: skip
        left = str(max(1.0, end - time.monotonic()))
        environment = os.environ | {"HYPOTHESIS_PROFILE": "fuzz", "TEST_SECONDS": left}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = _PASSED.search(done.stdout)
        passed += int(found[1]) if found else 0
        last = done.stdout.strip().rpartition("\n")[2]
        print(f"round {number}, seed {seed}: {last}", flush=True)  # noqa: T201
        if done.returncode:
            print(done.stdout, done.stderr)  # noqa: T201
            return done.returncode
    print(f"{passed:,} searches in {number} rounds, {seconds:g} s: nothing found")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(search(float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0))
