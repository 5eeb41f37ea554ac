"""Without what only Linux or POSIX has, every answer is still right."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hostile.outcomes import apart, holds

TESTS = Path(__file__).parents[1]

PROGRAM = """
    import sys
    sys.path.insert(0, {tests!r})
    from elsewhere import leave_linux
    leave_linux()
    import os
    import numpy as np, scipy.sparse as sp
    import linspec as ls
    from linspec.process import machine
    X = np.load("X.npy")
    exact = np.linalg.svd(X, compute_uv=False)[:3]
    B = X[:, :2] + 1
    data = [X, sp.csr_array(X), "X.npy", np.load("X.npy", mmap_mode="r"), lambda: iter(np.array_split(X, 7))]
    for given in data:
        solvers = ("auto", "block-krylov", "lanczos", "gram") if not callable(given) else ("auto", "block-krylov")
        for solver in solvers:
            found = ls.solve(ls.SVD(given, 3), solver, rng=0, max_passes=200)
            assert np.allclose(found.S, exact, rtol=1e-6), (given, solver, found.S, exact)
    for given in data[:4]:
        x = ls.solve(ls.LeastSquares(given, B), "lsqr").x
        assert np.allclose(x, np.linalg.lstsq(X, B, rcond=None)[0], atol=1e-6), given
    assert 0 < machine.available_memory() and machine.cpu_count() >= 1
    assert machine.map_parallel(lambda x: x * x, range(5)) == [0, 1, 4, 9, 16]
    from linspec.cli import main
    code = 0
    try:
        main({line!r}, standalone_mode=True)
    except SystemExit as error:
        code = error.code or 0
    print("code", code)
"""

LINES = {
    "solve": ["solve", "svd", "X.npy", "-k", "2", "--out", "answer.npz"],
    "compare": ["compare", "svd", "X.npy", "-k", "2", "--solvers", "lanczos,direct"],
    "formats": ["solve", "least-squares", "X.mtx", "B.csv"],
    "listing": ["solvers"],
}


SLOW = [pytest.param(line, marks=pytest.mark.slow) for line in ("formats", "listing")]


@pytest.mark.parametrize("line", ["solve", "compare", *SLOW])
@pytest.mark.slow(keep=1)
def test_a_process_without_what_only_linux_has(line, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) @ np.diag(np.linspace(1, 4, 12))
    np.save(tmp_path / "X.npy", X)
    np.savetxt(tmp_path / "B.csv", X[:, :1], delimiter=",")
    scipy.io.mmwrite(tmp_path / "X.mtx", sp.coo_matrix(X))
    program = dedent(PROGRAM).format(tests=str(TESTS), line=LINES[line])
    done = apart(program, cwd=tmp_path, env={"LINSPEC_NUM_THREADS": "2"})
    holds(done.stdout.strip().endswith("code 0"), f"{done.stdout[-300:]} {done.stderr[-500:]}")
