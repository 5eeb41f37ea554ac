"""Count how the hostile trials end: `python -m hostile [CHECKOUT]`, from the folder `tests`.

A trial that does not end well beside others runs again in a process of its own, so that one that crashes or hangs is
counted like the others. CHECKOUT is the folder of the linspec that is tried: this one by default, another for a table
of before and after.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

HERE = Path(__file__).resolve().parent
ENDINGS = ("right", "skipped", "silent", "raw", "rc 70", "leak", "crash", "hang", "other")
SECONDS, TOGETHER = 60.0, 40
"""After these a trial hangs; and how many are tried together first."""


def collected(options: list[str], env: dict[str, str]) -> list[str]:
    """The trials, by pytest's names."""
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    listing = subprocess.run(line, env=env, capture_output=True, text=True, check=False, cwd=HERE.parents[1])
    names = [line for line in listing.stdout.splitlines() if "::" in line and not line.startswith("ERROR")]
    if not names:
        sys.exit(f"No trials were found:\n{listing.stdout}{listing.stderr}")
    return names


def started(arguments: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    """pytest in a process of its own, with what it starts in one group."""
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rs", *arguments]
    return subprocess.Popen(
        line, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True, cwd=HERE.parents[1],
    )  # fmt: skip


def stopped(child: subprocess.Popen[str]) -> None:
    """End a process, and what it has started."""
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def endings(trials: list[str], env: dict[str, str]) -> list[tuple[str, str]]:
    """How some trials end: together in one process, and each that does not end well there once more in its own."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        child = started([f"--junitxml={report}", *trials], env)
        try:
            child.communicate(timeout=SECONDS + 2.0 * len(trials))
        except subprocess.TimeoutExpired:
            stopped(child)
        # Untrusted only as far as the trials of this folder are.
        cases = ET.parse(report).iter("testcase") if report.exists() else ()
        well = {
            (str(case.get("classname")).rpartition(".")[2], case.get("name")): "skipped"
            if case.find("skipped") is not None
            else "right"
            for case in cases
            if case.find("failure") is None and case.find("error") is None
        }
    found = []
    for trial in trials:
        module, _, name = trial.partition("::")
        known = well.get((Path(module).stem, name))
        found.append((known, "") if known else ending(trial, env))
    return found


def ending(trial: str, env: dict[str, str]) -> tuple[str, str]:
    """How a trial ends in a process of its own, and the first line of what it says."""
    child = started([trial], env)
    try:
        output, _ = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        stopped(child)
        return "hang", f"no end after {SECONDS:g} s"
    if child.returncode < 0:
        return "crash", f"killed by signal {-child.returncode}"
    if child.returncode == 0:
        return ("right", "") if " passed" in output else ("skipped", output.strip().splitlines()[-1])
    said = re.findall(r"^E\s+(?:\S+: )?(silent|raw|rc 70|leak|crash|hang): (.*)$", output, re.MULTILINE)
    if said:
        return said[-1]
    errors = re.findall(r"^E\s+(.*)$", output, re.MULTILINE)
    # An error that is not linspec's, where the trial expected none at all.
    first = errors[0] if errors else output.strip()[-200:]
    return (
        "silent" if first.startswith(("assert", "AssertionError")) else "raw" if errors else "other"
    ), first


def main() -> None:
    """Print the table, and what each trial said that ended badly."""
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("checkout", nargs="?", default=HERE.parents[1], type=Path, help="the linspec to try")
    parser.add_argument("--jobs", type=int, default=2, help="trials at once (default: 2)")
    parser.add_argument("-k", dest="chosen", default="", help="only the trials that pytest's -k selects")
    asked = parser.parse_args()
    checkout = asked.checkout.resolve()
    path = os.pathsep.join(map(str, (checkout, checkout / "plugins", HERE.parent)))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # else the working directory comes first
    options = ["-k", asked.chosen] if asked.chosen else []
    trials = collected([*options, str(HERE)], env)
    with ThreadPoolExecutor(asked.jobs) as pool:
        groups = [trials[i : i + TOGETHER] for i in range(0, len(trials), TOGETHER)]
        found = list(chain(*pool.map(lambda group: endings(group, env), groups)))
    table: dict[str, Counter[str]] = {}
    for trial, (kind, _) in zip(trials, found, strict=True):
        subject = Path(trial.split("::")[0]).stem.removeprefix("test_")
        table.setdefault(subject, Counter())[kind] += 1
    print(f"| {checkout.name} | trials | {' | '.join(ENDINGS)} |")
    print("|---" * (len(ENDINGS) + 2) + "|")
    total: Counter[str] = Counter()
    for subject, counts in [*table.items(), ("all", total)]:
        print(f"| {subject} | {counts.total()} | {' | '.join(str(counts[kind]) for kind in ENDINGS)} |")
        if subject != "all":
            total += counts
    for trial, (kind, said) in zip(trials, found, strict=True):
        if kind not in {"right", "skipped"}:
            print(f"{kind}: {trial.partition('::')[2]}: {said}")


if __name__ == "__main__":
    main()
