"""All benchmarks, one after the other; what they print goes into docs/benchmarks.md as it is.

    python tests/bench/all.py [NAME…]      all of them unless named: an hour

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ALL = ("idle", "flat", "sustained", "burst", "dispatch", "workers", "cron", "simulation")
PLAIN = ("burst", "cron", "simulation")
"""These print columns of text, not Markdown."""


def run(name: str) -> int:
    started = time.perf_counter()
    fence = "```" if name in PLAIN else ""
    print(f"\n## {name}\n\n{fence}", flush=True)
    code = subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode
    print(f"{fence}\n\n{time.perf_counter() - started:.0f} s, exit {code}", flush=True)
    return code


def main() -> int:
    names = sys.argv[1:] or ALL
    if unknown := set(names) - set(ALL):
        print(f"no such benchmark: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    return max([run(name) for name in names])


if __name__ == "__main__":
    sys.exit(main())
