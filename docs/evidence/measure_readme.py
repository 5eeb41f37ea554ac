"""Measure the table of the README: linspec beside scikit-learn, cca-zoo and what one writes with SciPy.

Run `python docs/evidence/measure_readme.py` in an environment with scikit-learn and cca-zoo (`pip install
cca-zoo==4.0.1`). It takes some minutes and 2 GB of disk, writes `docs/evidence/readme.json` with date, versions and
machine, and the table into README.md. `--table` writes the table alone, `--only mapped` measures one task anew and
keeps the others, `--quick` takes small data and prints what it would write. The tasks are cases of `measure_peers.py`.

Every method has a process of its own, and one thread. Processor seconds are those of the fit, without imports and
without reading or making the data. Memory is the peak of the resident set during the fit, less what is resident before
it. In the task "mapped" each process may allocate 1 GiB, less than the data in the file. A method that ends in an
error, or not within `--limit` processor seconds, is entered with the first line of what it says. Errors are relative to
the best value found.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from measure_peers import CASES, LIBRARIES
from showing import arguments
from timing import Peak, apart, in_words

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("readme.json")
MARKS = ("<!-- docs/evidence/measure_readme.py -->\n", "<!-- docs/evidence/measure_readme.py: end -->\n")
BLOCK = re.compile(f"(?<={re.escape(MARKS[0])}).*?(?={re.escape(MARKS[1])})", re.DOTALL)
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LINSPEC_NUM_THREADS")
TASKS = {name: CASES[name] for name in ("words", "mapped", "regression", "dense", "components", "digits")}

ALLOWED = 2**30
"""Bytes that a process may allocate in the task "mapped"."""


def measure(task: str, library: str, given: argparse.Namespace) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    case, method = TASKS[task], TASKS[task].methods[library]
    importlib.import_module(library if library != "scipy" else "scipy.linalg")
    small = argparse.Namespace(quick=True)
    # Imports, and first touches; what is refused here will be refused below.
    with contextlib.suppress(Exception):
        method(TASKS["digits" if task in {"dense", "mapped"} else task].make(small))
    data = case.make(given)
    if task == "mapped":
        resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, resource.RLIM_INFINITY))
    seconds = int(time.process_time() + given.limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        with Peak() as peak:
            answer = method(data)
    except (Exception, MemoryError) as error:  # noqa: BLE001 - what a library refuses is a result
        return {"refused": in_words(error)}
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CPU):  # the value is not part of what is measured
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found = {"cpu_seconds": peak.watch.cpu, "clock_seconds": peak.watch.clock, "memory_mib": peak.memory}
    return found | {"value": case.figures(data, answer)}


def measured(task: str, given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All methods, in processes that the system ends at the limit, with the distance of each value from the best."""
    results = {}
    for library in TASKS[task].methods:
        found = apart(measure, task, library, given)
        if "said" in found:
            late = found["said"].endswith(f" {-signal.SIGXCPU}")
            found = {"refused": f"not done after {given.limit:g} s" if late else found["said"]}
        results[library] = found
        sys.stderr.write(f"{task}, {library}: {found}\n")
    best = max(one["value"] for one in results.values() if "value" in one)
    for one in results.values():
        if "value" in one:
            one["error"] = (best - one["value"]) / abs(best)
    return results


def circumstances() -> dict[str, Any]:
    """When, with what, on what."""
    names = ("linspec", "numpy", "scipy", "scikit-learn", "cca-zoo")
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    versions = {"Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in names}
    machine = {
        "processor": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
    }
    return {"date": dt.datetime.now(dt.UTC).date().isoformat(), "versions": versions, "machine": machine}


def table(results: dict[str, Any]) -> str:
    """In Markdown, a line a task; the smallest processor time of a line is bold."""
    lines = [["", *LIBRARIES.values()], ["---"] * (1 + len(LIBRARIES))]
    for name, task in TASKS.items():
        found = results["tasks"][name]
        least = min(one["cpu_seconds"] for one in found.values() if "cpu_seconds" in one)
        lines.append([task.words, *(cell(found.get(library), least) for library in LIBRARIES)])
    lines.append(["says how far off the answer is", "yes", "no", "no", "no"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{caption(results)}\n"


def caption(results: dict[str, Any]) -> str:
    """When, with what, on what."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        "Processor seconds and peak memory beyond the data, on one thread; the least time is bold. "
        f"{results['date']},\n{versions},\n"
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}."
    )


def cell(one: dict[str, Any] | None, least: float) -> str:
    """Seconds and memory, or why there are none."""
    if one is None:
        return "–"
    if "refused" in one:
        if "MemoryError" in one["refused"]:
            return "out of memory"
        return one["refused"] if one["refused"].startswith("not done") else "refuses"
    seconds = f"{one['cpu_seconds']:.2g} s" if one["cpu_seconds"] < 10 else f"{one['cpu_seconds']:.0f} s"
    seconds = seconds if one["cpu_seconds"] >= 0.01 else "< 0.01 s"  # the resolution of the clock of CPU time
    text = f"**{seconds}**" if one["cpu_seconds"] == least else seconds
    text += f", {one['memory_mib']:.0f} MiB"
    return text if one["error"] < 1e-6 else f"{text}, {one['error']:.1g} off"


def write_table(results: dict[str, Any]) -> None:
    page = ROOT / "README.md"
    page.write_text(BLOCK.sub(lambda _: table(results), page.read_text("utf-8")), "utf-8")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--table", action="store_true", help="write the table from these results")
    parser.add_argument("--only", nargs="+", choices=TASKS, help="measure these tasks anew")
    parser.add_argument("--limit", type=float, default=60.0, help="processor seconds for a method")
    parser.add_argument("--folder", type=Path, help="for the file of 2 GB; a temporary one by default")
    given = parser.parse_args()
    if given.table:
        write_table(json.loads(RESULTS.read_text("utf-8")))
        return 0
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    results = circumstances() | {"tasks": {}}
    if given.only:
        results["tasks"] = json.loads(RESULTS.read_text("utf-8"))["tasks"]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        given.folder = Path(folder)
        for name in given.only or TASKS:
            results["tasks"][name] = measured(name, given)
    if given.quick:
        print(table(results))
        return 0
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    write_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
