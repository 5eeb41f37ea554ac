"""Compare two commits by what does not depend on the machine: passes over the data, and errors. Fail where they rise.

Run `python asv_bench/compare_commits.py BEFORE [AFTER]`; AFTER is the working tree by default. `--only REGEX` takes
some of the measurements, whose names look like "svd.SVDSolvers gram numpy tall", LINSPEC_BENCH_BACKENDS other backends
than NumPy. `nox -s regression -- BEFORE [AFTER]` does the same in an environment of its own.

Every solver is run once on the data of the benchmarks, with the benchmarks of this checkout and the library of either
commit. Rises are more passes, an error that is more than `--tolerance` larger and above rounding (1e-10), and an error
raised where there was an answer; then the exit code is 1. What only one of the commits has is listed, and is no rise.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import io
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ROUNDING = 1e-10
"""Errors below this are those of exact answers; they change with the order of sums."""

Figures = dict[str, dict[str, Any]]
"""By measurement: passes and error, or the text of an error that was raised."""


# ---- measuring, in a process for each commit ------------------------------------------------------------------


def measured(only: str) -> Figures:
    """The figures of the linspec that is imported here."""
    import benchmarks

    found: Figures = {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        for name, cls in vars(importlib.import_module(f"benchmarks.{module.name}")).items():
            if inspect.isclass(cls) and hasattr(cls, "track_passes") and hasattr(cls, "params"):
                for values in itertools.product(*cls.params):
                    label = " ".join((f"{module.name}.{name}", *values))
                    if re.search(only, label) and (figures := figures_of(cls, values)) is not None:
                        found[label] = figures
    return found


def figures_of(cls: Any, values: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the figures of one solver on one problem, from one run; None if it is skipped."""
    bench = cls()
    tracks = [name for name in ("track_passes", "track_error") if hasattr(cls, name)]
    try:
        bench.setup(*values)
        if hasattr(cls, "run"):
            bench.run = functools.cache(bench.run)  # passes and error are of the same answer
        return {name.removeprefix("track_"): float(getattr(bench, name)(*values)) for name in tracks}
    except NotImplementedError:
        return None
    except Exception as error:  # noqa: BLE001 - one commit may raise an error where the other does not
        return {"raised": f"{type(error).__name__}: {str(error)[:200]}"}


# ---- two commits ----------------------------------------------------------------------------------------------


def figures_at(commit: str | None, only: str) -> Figures:
    """The figures of a commit, or of the working tree."""
    with TemporaryDirectory() as folder:
        checkout = ROOT
        if commit is not None:
            checkout = Path(folder) / "checkout"
            packed = subprocess.run(  # noqa: S603
                ["git", "-C", str(ROOT), "archive", commit],  # noqa: S607
                check=True,
                stdout=subprocess.PIPE,
            )
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(checkout, filter="data")
        sys.path.insert(0, str(HERE))
        from benchmarks.records import import_path

        code = (
            "import json, sys; sys.path.append(sys.argv[1]); from compare_commits import measured\n"
            "print(json.dumps(measured(sys.argv[2])))"
        )
        backends = os.environ.get("LINSPEC_BENCH_BACKENDS", "numpy")
        run = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code, str(HERE), only],
            env={
                **os.environ,
                "PYTHONPATH": import_path(checkout, Path(folder)),
                "LINSPEC_BENCH_BACKENDS": backends,
            },
            cwd=folder,  # a folder without another linspec
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: Figures = json.loads(run.stdout.splitlines()[-1])
    return found


def rises(before: Figures, after: Figures, tolerance: float) -> list[str]:
    """Return a line for each figure that is worse."""
    found = []
    for label in before.keys() & after.keys():
        old, new = before[label], after[label]
        if "raised" in new:
            if "raised" not in old:
                found.append(f"{label}: {new['raised']}")
            continue
        if "raised" in old:
            continue
        for figure in new.keys() & old.keys():
            bound = old[figure] if figure == "passes" else max((1 + tolerance) * old[figure], ROUNDING)
            if not new[figure] <= bound:  # NaN is a rise
                found.append(f"{label}: {figure} {old[figure]:.3g} -> {new[figure]:.3g}")
    return sorted(found)


def main() -> int:
    """Print the rises; 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="a commit; the working tree by default")
    parser.add_argument("--only", default="", metavar="REGEX", help="measurements by their names")
    parser.add_argument(
        "--tolerance", type=float, default=0.1, help="relative rise of an error that passes (0.1)"
    )
    given = parser.parse_args()
    before, after = (figures_at(commit, given.only) for commit in (given.before, given.after))
    for label in sorted(before.keys() ^ after.keys()):
        print(f"{'gone' if label in before else 'new'}: {label}")
    found = rises(before, after, given.tolerance)
    print("\n".join(f"worse: {line}" for line in found))
    print(f"{len(before.keys() & after.keys())} measurements of both commits, {len(found)} worse")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
