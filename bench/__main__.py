"""Run every benchmark; exit with 1 when a limit is exceeded."""

import sys

from bench import growth

if __name__ == "__main__":
    failures = growth.run()
    for failure in failures:
        print(f"over the limit: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)
