"""Record every solver's answers to the last bit, to show that a change of the code's structure changes none.

Run `python asv_bench/record_answers.py FILE` before and `python asv_bench/record_answers.py --against FILE` after the
change, on one machine with one thread of the BLAS. `--data FOLDER` adds the sets of docs/evidence/measured.md; without
it, or with `--quick`, these are small generated ones of the same kind.

What is recorded: all solvers of all problems on the planted cases of `linspec.testing`, as NumPy arrays, as sparse
matrices and as products alone, and the leading solvers on the measured sets. Of each run the status, message,
iterations, passes, columns and flops, the residuals on the way, and a digest of the bytes of every array returned.
Times are left out. Runs end by iterations or passes, never by a clock. Exit status 1 where anything differs; every
difference is a line. With `--summary` differences are counted by solver and field instead, with the distance of numbers
relative to the length of their array, estimated from a few random projections that are recorded, too. `--without
message` leaves fields out. Last bits that differ between two runs of the same code, too, come from sums whose order
follows where arrays happen to lie in memory: run it twice to see these.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

sys.path.append(str(Path(__file__).parents[1] / "docs" / "evidence"))
from datasets import (
    bigrams,
    digits_halves,
    images,
    labelled,
    mnist_halves,
    newsgroups,
    patch_halves,
    titles_and_queries,
)
from showing import arguments

import linspec as ls
from linspec.arrays import is_array, to_host
from linspec.registry.options import options_of
from linspec.testing import cases

MOST_ITERATIONS = 60
"""Limit of iterations of a solver on a planted case, if it has an option for it."""

CLOCKS = frozenset({"seconds", "history"})
"""Fields that are left out, or recorded in part."""

FORMS = {
    "array": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "products": scipy.sparse.linalg.aslinearoperator,
}

PROJECTIONS = 4
"""Number of random projections of an array, from which the distance of two arrays is estimated."""

PASSES = 12
"""Limit of passes of an iteration on a measured set."""


def main() -> int:
    """Write or compare."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="where the record is written")
    parser.add_argument("--against", help="a record to compare with")
    parser.add_argument("--summary", action="store_true", help="count differences by solver and field")
    parser.add_argument("--without", nargs="*", default=[], help="fields that are not compared")
    given = parser.parse_args()
    if (given.file is None) == (given.against is None):
        parser.error("name a file to write, or one to compare --against")
    warnings.simplefilter("ignore")
    given.quick = given.quick or not given.data
    found = dict(record(given))
    if given.file is not None:
        Path(given.file).write_text(json.dumps(found, indent=0, sort_keys=True), encoding="utf-8")
        sys.stdout.write(f"{len(found)} runs recorded\n")
        return 0
    before = json.loads(Path(given.against).read_text(encoding="utf-8"))
    before, found = ({n: _less(run, given.without) for n, run in each.items()} for each in (before, found))
    differences = list(compare(before, found))
    if given.summary:
        sys.stdout.writelines(f"{line}\n" for line in summary(before, found))
        differences_shown = differences[:0]
    else:
        differences_shown = differences
    sys.stdout.writelines(f"{line}\n" for line in differences_shown)
    sys.stdout.write(f"{len(found)} runs, {len(before)} recorded, {len(differences)} differences\n")
    return 1 if differences else 0


def record(given: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """All runs by name."""
    for problem in ("least-squares", "svd", "cca", "discriminant"):
        for case in cases(problem):
            for form, change in FORMS.items():
                for solver in (*ls.solvers(problem), "auto"):
                    yield f"{problem}/{solver}, {case.name}, {form}", _on_case(case, change, solver)
    for name, state, solver, settings in _measured(given):
        yield f"{name}, {solver}, {settings}", _run(state, solver, settings)


def compare(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """A line for each run that is new, gone, or differs, with the fields that do."""
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            yield f"{name}: {'new' if one is None else 'gone'}"
        elif one != other:
            fields = [key for key in one if one[key] != other.get(key, "None")]
            if not fields:  # answers have more fields than before, which is no difference
                continue
            yield f"{name}: " + ", ".join(f"{key} {one.get(key)} -> {other.get(key)}" for key in fields)


def summary(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """A line for each solver: in how many runs which fields differ, and numbers by how much at most."""
    runs: dict[str, dict[str, list[float]]] = {}
    for name in before.keys() & after.keys():
        for key, value in before[name].items():
            if value != after[name].get(key, "None"):
                of_solver = runs.setdefault(name.split(", ")[0 if "/" in name.split(", ")[0] else 1], {})
                of_solver.setdefault(key, []).append(_apart(value, after[name].get(key, "None")))
    for solver in sorted(runs):
        told = []
        for key, apart in sorted(runs[solver].items()):
            known = [each for each in apart if not math.isnan(each)]
            told.append(f"{key} {len(apart)}" + (f" (at most {max(known):.1e})" if known else ""))
        yield f"{solver}: {', '.join(told)}"


def _apart(one: str, other: str) -> float:
    """The relative distance of two recorded numbers or arrays; NaN where there is none."""
    try:
        a, b = (
            np.array([float.fromhex(part) for part in text.split(" ~ ")[-1].split()]) for text in (one, other)
        )
    except ValueError:
        return math.nan
    if a.shape != b.shape:
        return math.nan
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(float).tiny))


def _less(run: dict[str, str], without: list[str]) -> dict[str, str]:
    return {key: value for key, value in run.items() if key not in without}


def _on_case(case: Any, change: Any, solver: str) -> dict[str, str]:
    def state() -> Any:
        data = {name: change(array) if array.ndim == 2 else array for name, array in case.arrays.items()}
        return case.state(data)

    options = {}
    if solver != "auto":
        declared = {option.name for option in options_of(ls.get_solver(solver, case.problem))}
        options = {"max_iterations": MOST_ITERATIONS} if "max_iterations" in declared else {}
    return _run(state, solver, options)


def _run(state: Any, solver: str, settings: dict[str, Any]) -> dict[str, str]:
    try:
        solution = ls.solve(state(), solver, rng=0, **settings)
    except Exception as error:  # noqa: BLE001 (an error is recorded like an answer)
        return {"error": f"{type(error).__name__}: {error}"}
    return fingerprint(solution)


def fingerprint(solution: Any) -> dict[str, str]:
    """Every field of a solution but times: numbers as they are written, arrays by a digest of their bytes."""
    found = {"class": type(solution).__name__}
    for entry in dataclasses.fields(solution):
        if entry.name not in CLOCKS:
            found[entry.name] = _told(getattr(solution, entry.name))
    residuals = np.asarray(solution.history["residual"])
    return {**found, "residuals on the way": _told(residuals)}


def _told(value: Any) -> str:
    if value is not None and is_array(value):
        array = np.ascontiguousarray(to_host(value))
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        return f"{array.dtype}{list(array.shape)} {digest}{_projections(array)}"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    if isinstance(value, tuple):
        return f"({', '.join(_told(item) for item in value)})"
    return str(value)


def _projections(array: Any) -> str:
    """The length of an array and a few random projections, from which distances of arrays are estimated."""
    if array.dtype.kind not in "fiub" or not array.size or not np.isfinite(array).all():
        return ""
    flat = array.astype(np.float64).ravel()
    signs = np.random.default_rng(0).integers(0, 2, (PROJECTIONS, flat.size)) * 2.0 - 1.0
    numbers = [float(np.linalg.norm(flat)), *(signs @ flat)]
    return " ~ " + " ".join(float(number).hex() for number in numbers)


def _measured(given: Any) -> Iterator[tuple[str, Any, str, dict[str, Any]]]:
    """The sets of docs/evidence/measured.md by the leading solvers."""
    titles = functools.lru_cache(lambda: titles_and_queries(given))
    views = {
        "digits": lambda: digits_halves(given),
        "patches": functools.lru_cache(lambda: patch_halves(given)),
        "mnist halves": functools.lru_cache(lambda: mnist_halves(given)),
        "words": functools.lru_cache(lambda: bigrams(given)),
        "titles": titles,
    }
    for name, read in views.items():
        for ridge in (1.0, 100.0):

            def state(read: Any = read, ridge: float = ridge) -> Any:
                return ls.CCA(*read(), 20, ridge=ridge, center=False)

            for solver, settings in (
                ("lobpcg", {"max_passes": PASSES, "form": "implicit"}),
                ("lobpcg", {"max_iterations": PASSES}),
                ("als", {"max_iterations": 3}),
                ("l-cca", {}),
                ("appgrad", {"max_passes": PASSES, "form": "implicit"}),
                ("rpcca", {}),
                ("gram" if name in ("digits", "patches", "mnist halves") else "auto", {}),
            ):
                yield f"{name} r={ridge:g}", state, solver, settings
    words = functools.lru_cache(lambda: newsgroups(given))
    for solver, settings in (
        ("block-krylov", {"max_passes": 3 * PASSES}),
        ("lanczos", {"max_passes": 3 * PASSES}),
        ("lazy-spca", {}),
        ("spca", {}),
        ("auto", {}),
    ):
        yield "newsgroups", lambda: ls.SVD(words()[0], 20), solver, settings
    for solver in ("gram", "direct", "auto"):
        yield "images", lambda: ls.SVD(images(given), 20, center=True), solver, {}
    for solver in ("cg", "lsqr", "nystrom-pcg", "ling", "auto"):
        settings = {} if solver in ("ling", "auto") else {"max_iterations": 10 * PASSES}
        yield "newsgroups", lambda: ls.LeastSquares(*words(), ridge=1.0), solver, settings
    for name in ("wine", "optdigits", "yeast", "scene"):

        def stated(name: str = name) -> Any:
            X, labels = labelled(given, name)
            if not scipy.sparse.issparse(labels):
                labels = np.eye(int(labels.max()) + 1)[np.asarray(labels, dtype=int)]
            return ls.Discriminant(X, labels, ridge=1.0, center=True)

        for solver in ("direct", "two-stage"):
            yield name, stated, solver, {}


if __name__ == "__main__":
    sys.exit(main())
