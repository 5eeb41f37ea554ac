"""Print how long `import linspec` and the first listing take, and what they load.

Run `python docs/evidence/measure_imports.py`. Every figure is a fresh interpreter's, less the same interpreter's
start; medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

SCRIPTS = {
    "import linspec": "import linspec",
    "import and list": "import linspec; linspec.solvers()",
    "import, list, describe": "import linspec; linspec.solvers(); str(linspec.describe('cca/als'))",
}

TIMER = """
import sys, time
begin = time.perf_counter()
{script}
print(time.perf_counter() - begin, *(name for name in ("numpy", "scipy", "click", "pluggy") if name in sys.modules))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    for name, script in SCRIPTS.items():
        seconds, loaded = [], set()
        for _ in range(rounds):
            command = [sys.executable, "-c", TIMER.format(script=script)]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603
            seconds.append(float(said[0]))
            loaded |= set(said[1:])
        milliseconds = 1000 * statistics.median(seconds)
        print(
            f"{name:24s} {milliseconds:7.1f} ms (max {1000 * max(seconds):.1f}); loaded: {sorted(loaded) or 'none'}"
        )


if __name__ == "__main__":
    main()
