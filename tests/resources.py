"""What a part takes and leaves behind: memory, seconds, bytes of files, settings of the process, imports."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from importlib import metadata
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from linspec import errors, registry
from linspec.registry import queries
from linspec.testing import checks
from linspec.testing.checks import Skip, Solver, early, formed, needs, require, sample_of, solver_of, tall
from linspec.testing.kit import Checks

CLOCK = 1000.0  # the largest factor between an estimate and the clock


def peak(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the largest number of megabytes that work holds at once, and the number that it leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return most / 1e6, left / 1e6


def memory(s: Solver) -> None:
    """Many rows take memory in proportion to their number; nothing is kept afterwards."""
    needs(
        s.exact and not s.reference.pairwise, "it is approximate, or may hold a number for each pair of rows"
    )
    case = tall(s, 2000)
    size = sum(X.nbytes for X in case.matrices) / 1e6
    solve = partial(s.solve, case, callback=early)
    solve()  # what a first run imports and caches
    most, left = peak(solve)
    grown = f"memory must grow with the rows, not with their square; {size:.1f} MB take {most:.0f} MB"
    require(most <= 24 * size + 8, grown)
    require(left <= size / 2, f"nothing of a problem may be kept after its solve; {left:.2g} MB are")


def sparse(s: Solver) -> None:
    """Sparse rows take memory in proportion to their entries."""
    most, _ = peak(lambda: checks.sparse(s))
    require(most <= 30, f"sparse rows must stay sparse; 0.3 MB take {most:.0f} MB")


def estimate(s: Solver) -> None:
    """The estimate of a solver is within a thousand times of the clock."""
    needs(s.has("automatic"), "the record has no trait 'automatic'")
    case = tall(s, 500 if s.reference.pairwise or "dense" in str(s.spec.needs) else 20000)
    stated = s.cls.estimate(s.state(case).sizes())
    needs(stated or not s.cls.has_estimate(), "the solver declines these sizes")
    began = time.process_time()  # other processes may compute meanwhile
    s.solve(case)
    took, seconds = time.process_time() - began, stated.seconds if stated else 0.0
    told = f"it says {seconds:.2g} s, the run took {took:.2g} s"
    near = took / CLOCK <= seconds <= CLOCK * took
    require(near, f"an estimate must be within {CLOCK:g} times of the clock; {told}")


def settings() -> dict[str, Any]:
    """Return what belongs to the process and not to a plugin."""
    return {
        "the global generator of NumPy": repr(np.random.get_state()),  # noqa: NPY002
        "the global generator of Python": random.getstate(),
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": np.get_printoptions(),
        "the filters of warnings": list(warnings.filters),
        "os.environ": dict(os.environ),
        "the working folder": Path.cwd(),
    }


def left_behind(work: Callable[[], Any]) -> list[str]:
    """Run work; return what it prints, the warnings that are not linspec's, and what it changes in the process."""
    generator, printed = np.random.get_state(), StringIO()  # noqa: NPY002

    def warn(kind: str, _: int) -> None:
        warnings.warn(kind, RuntimeWarning, stacklevel=2)

    # A seed and an error state that no work sets, so that every setting is a change.
    with np.errstate(all="call", call=warn), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.random.seed(918273645)  # noqa: NPY002
        before = settings()
        with redirect_stdout(printed), redirect_stderr(printed):
            work()
        after = settings()
    np.random.set_state(generator)  # noqa: NPY002
    left = [f"it prints {printed.getvalue()[:60]!r}"] if printed.getvalue() else []
    left += [f"{name} is changed" for name in before if after[name] != before[name]]
    for warning in caught:
        kind = warning.category
        if kind is not ResourceWarning and not kind.__module__.startswith("linspec"):
            left.append(f"it warns of {kind.__name__}: {warning.message}")
    return left


def quiet(work: Callable[[], Any]) -> None:
    """Test that work prints nothing, gives no warnings but linspec's, and leaves the process as it was."""
    left = "; ".join(left_behind(work))
    require(not left, f"a part must print nothing, warn of nothing, and leave the process as it was; {left}")


def process(s: Solver) -> None:
    """A solve prints nothing, gives no warnings but linspec's, and leaves the process as it was."""
    problem, solver = s.state(s.case), s.make()

    def work() -> None:
        s.scores(ls.solve(problem, solver, rng=0, callback=early), s.case.matrices)

    left_behind(work)  # its imports may warn, once
    quiet(work)


def reads(spec: Any) -> None:
    """Rows in pieces take about the bytes of all rows from files, and sparse data no dense array."""
    data = sample_of(spec)
    A = spec.adapt(data)
    n, p = A.shape
    needs(n * p >= 2**16, "the sample is smaller than half a megabyte, so that bytes say nothing")
    if getattr(data, "nnz", n * p) < n * p / 80:
        most, _ = peak(lambda: spec.adapt(data).matmat(np.ones((p, 1))))
        require(most < n * p * 4e-6, f"sparse data must stay sparse; a product takes {most:.1f} MB")
    whole, pieces = (megabytes_read(A, count) for count in (1, 16))
    told = f"16 pieces of the rows take {pieces:.1f} MB of files, all rows {whole:.1f} MB"
    require(pieces <= 8 * whole + 0.25, f"{told}. Read the rows that are asked")


def megabytes_read(A: Any, count: int) -> float:
    """Multiply by all rows in pieces; return the megabytes that the process asks of files."""
    counter, edges = Path("/proc/self/io"), np.linspace(0, A.shape[0], count + 1, dtype=int)
    try:
        before = int(counter.read_text(encoding="ascii").split()[1])
        for start, stop in pairwise(edges):
            formed(A.rows(slice(start, stop)))
        return (int(counter.read_text(encoding="ascii").split()[1]) - before) / 1e6
    except (errors.MissingCapability, OSError) as error:
        raise Skip(f"readings cannot be counted: {error}") from error


def multiplied(spec: Any) -> None:
    """Multiply by an operator and its adjoint."""
    A = spec.adapt(sample_of(spec))
    A.rmatmat(A.matmat(A.device.asarray(np.ones((A.shape[1], 1)), A.dtype)))


IMPORTS = """
import contextlib, importlib, json, sys, time
import linspec
began = time.perf_counter()
importlib.import_module({table!r})
took = time.perf_counter() - began
loaded = sorted({{"numpy", "scipy", "torch", "cupy", "jax", "sklearn", "dask"}} & {{*sys.modules}})
from tests.resources import left_behind
changes = dict()
for module in {modules!r}:
    with contextlib.suppress(Exception):
        left = left_behind(lambda: importlib.import_module(module))
        changes[module] = [change for change in left if "warns" not in change]
print(json.dumps([took, loaded, changes]))
"""
"""Run in a fresh interpreter: how long a table takes, what it loads, and what the modules of its records change."""


def imports(spec: Any) -> None:
    """The table loads no array library and is quick; the module of the record changes nothing of the process."""
    entries = queries.default_registry().entries()
    provider = next((each.plugin.identity for each in entries if each.spec is spec), "")
    module = getattr(spec, "target", "").partition(":")[0]
    distribution, _, entry = provider.partition(":")
    try:
        points = metadata.distribution(distribution).entry_points
    except metadata.PackageNotFoundError:
        return  # the record was registered by hand
    (table,) = (point.module for point in points.select(group="linspec", name=entry))
    took, loaded, changes = imported(provider, table)
    require(not loaded, f"a table must load no array library; importing {table} loads {', '.join(loaded)}")
    require(
        took < 1, f"a table must be imported in less than 1 s; {table} takes {took:.2g} s. Do no work there"
    )
    left = "; ".join(changes.get(module, ()))
    require(not left, f"an import must leave the process as it was; {module}: {left}")


@cache
def imported(provider: str, table: str) -> tuple[float, list[str], dict[str, list[str]]]:
    """Import a table and the modules of its records in a fresh interpreter; return what it notices."""
    names = next(info.provides for info in ls.plugins() if info.identity == provider)
    targets = {getattr(registry.get_spec(None, name), "target", "").partition(":")[0] for name in names}
    code = IMPORTS.format(table=table, modules=[*targets])
    root = str(Path(__file__).parents[1])
    more = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=more)
    took, loaded, changes = json.loads(done.stdout.splitlines()[-1])
    return took, loaded, changes


CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "solver": {"process": process, "memory": memory, "sparse": sparse, "estimate": estimate},
    "problem": {"process": process},
    "normalizer": {"process": lambda part: quiet(lambda: part.orthonormalize(np.eye(20, 3), None))},
    "test-matrix": {"process": lambda part: quiet(lambda: part.draw(40, 9, np.random.default_rng(0)))},
    "operator": {"reads": reads, "process": lambda spec: quiet(lambda: multiplied(spec))},
}


def checks_of(name: str, expected: dict[str, str] | None = None, time_limit: float = 300.0) -> Checks:
    """The kit's `Checks` of a part with these checks alone in its table."""
    checks = Checks(name, backends=[], time_limit=time_limit)
    spec, cls = checks.spec, checks.cls
    subject: Any = spec
    if spec.kind in ("normalizer", "test-matrix"):
        subject = cls()
    elif spec.kind != "operator":
        subject = Solver(spec, cls) if spec.kind == "solver" else solver_of(spec)
    checks.table = {check: partial(work, subject) for check, work in CHECKS[spec.kind].items()}
    checks.table["imports"] = partial(imports, spec)
    checks.expected = expected or {}
    return checks
