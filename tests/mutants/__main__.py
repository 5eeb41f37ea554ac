"""Mutants of linspec, and whether the suite notices them.

    cd tests
    python -m mutants draw --count 300 --seed 0      # writes mutants/drawn.json, once
    python -m mutants record hits                    # runs the suite; which tests come by which mutant
    python -m mutants try hits results.jsonl         # the tests that came by, until one fails, for each mutant
    python -m mutants table results.jsonl            # counts by package, and the survivors

`record` takes as long as the suite, and `try` some seconds a mutant. What stands after ` -- ` goes to pytest. Mutants
made by hand are in numerical.json.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mutants.sites import ROOT, Site, files, sites

HERE = Path(__file__).parent
LEAST = 3
"""Mutants of each package, at least."""


def package_of(file: str) -> str:
    """The package that a file counts for."""
    parts = Path(file).parts[:-1]
    return ".".join(parts[1:2] if parts[0] == "plugins" else parts[:3] if "families" in parts else parts[:2])


def drawn(count: int, seed: int) -> list[Site]:
    """Sites from all packages, in proportion to what these have."""
    found: dict[str, list[Site]] = {}
    for file in files():
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        found.setdefault(package_of(file), []).extend(site for site, _, _ in sites(file, tree))
    rng = random.Random(seed)  # no secret
    total = sum(map(len, found.values()))
    shares = {name: max(LEAST, count * len(here) / total) for name, here in found.items()}
    whole = sum(shares.values())
    chosen = [
        site
        for name, here in sorted(found.items())
        for site in rng.sample(here, min(len(here), round(count * shares[name] / whole)))
    ]
    return sorted(chosen, key=lambda site: (site.file, site.where, site.before, site.nth))


def pytest_with(arguments: list[str], **variables: str) -> subprocess.Popen[bytes]:
    """Start pytest on the suite with the plugin."""
    path = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.switching", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=env)


def plan(folder: Path, enough: float) -> list[dict[str, Any]]:
    """For each mutant the tests to run: of each test function one case first, the shortest first."""
    seconds: dict[str, float] = {}
    seen: dict[int, set[str]] = {}
    for path in folder.glob("*.json"):
        part = json.loads(path.read_text("utf-8"))
        seconds.update(zip(part["tests"], part["seconds"], strict=True))
        for number, tests in part["seen"].items():
            seen.setdefault(int(number), set()).update(part["tests"][i] for i in tests)
    plans = []
    for number, tests in sorted(seen.items()):
        order = sorted(tests, key=lambda test: seconds[test])
        firsts = {test.partition("[")[0]: test for test in reversed(order)}
        order.sort(key=lambda test: firsts[test.partition("[")[0]] != test)
        spent, chosen = 0.0, []
        for test in order:
            spent += seconds[test]
            if spent <= enough:
                chosen.append((test, seconds[test]))
        plans.append({"number": number, "tests": chosen})
    return plans


def attempt(folder: Path, results: Path, given: argparse.Namespace, arguments: list[str]) -> None:
    """Try the mutants, in several processes."""
    plans = [one for one in plan(folder, given.enough) if not given.only or one["number"] in given.only]
    running = []
    for job in range(given.jobs):
        order = folder / f"plan{job}.order"
        mutants = {"results": str(results.resolve()), "mutants": plans[job :: given.jobs]}
        order.write_text(json.dumps(mutants), "utf-8")
        running.append(pytest_with(["-n", "0", *arguments], LINSPEC_MUTANTS_TRY=str(order.resolve())))
    for process in running:
        process.wait()


def table(results: Path) -> None:
    """Print counts by package, and the mutants that no test noticed."""
    from mutants.switching import listed

    lines = map(json.loads, results.read_text("utf-8").splitlines())
    ends = {one["number"]: one["ended"] for one in lines}
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for number, mutant in enumerate(listed()):
        ended = ends.get(number, "not reached")
        for name in ("all", "by hand" if "nth" not in mutant else package_of(mutant["file"])):
            counts.setdefault(name, Counter())[ended] += 1
        if ended in {"survived", "not reached"}:
            text = mutant.get("what") or f"{mutant['where']}: {mutant['before']}  ->  {mutant['after']}"
            survivors.append(f"{number} {ended}: {mutant['file']}: {text}")
    columns = ("failed", "time", "crash", "survived", "not reached")
    print(f"{'':32}" + "".join(f"{c:>12}" for c in columns))
    for name, count in sorted(counts.items()):
        print(f"{name:32}" + "".join(f"{count[c]:12}" for c in columns))
    print("\n".join(survivors))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("command", choices=("draw", "record", "try", "table"))
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--enough", type=float, default=90.0, help="seconds of tests that a mutant may survive"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, nargs="*", default=[])
    own, _, for_pytest = " ".join(sys.argv[1:]).partition(" -- ")
    given, arguments = parser.parse_args(own.split()), for_pytest.split()
    if given.command == "draw":
        text = json.dumps([asdict(site) for site in drawn(given.count, given.seed)], indent=1)
        (HERE / "drawn.json").write_text(text + "\n", "utf-8")
    elif given.command == "record":
        folder = given.paths[0].resolve()
        folder.mkdir(parents=True, exist_ok=True)
        pytest_with(["-n", "auto", *arguments], LINSPEC_MUTANTS_RECORD=str(folder)).wait()
    elif given.command == "try":
        attempt(*given.paths, given, arguments)
    else:
        table(*given.paths)


if __name__ == "__main__":
    main()
