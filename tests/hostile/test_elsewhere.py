"""Without what only Linux or POSIX has, every answer is still right."""

from __future__ import annotations

import numpy as np
from hostile.outcomes import apart

PROGRAM = """
from elsewhere import leave_linux
leave_linux()
import numpy as np, scipy.io, scipy.sparse as sp
import linspec as ls
from linspec.cli import main
from linspec.process import machine

X = np.load("X.npy")
exact, B = np.linalg.svd(X, compute_uv=False)[:3], X[:, :2] + 1
for given in (X, sp.csr_array(X), "X.npy", np.load("X.npy", mmap_mode="r"), lambda: iter(np.array_split(X, 7))):
    for solver in ("auto", "block-krylov"):
        np.testing.assert_allclose(ls.solve(ls.SVD(given, 3), solver, rng=0).S, exact, rtol=1e-6)
    x = ls.solve(ls.LeastSquares(given, B), "lsqr").x
    np.testing.assert_allclose(x, np.linalg.lstsq(X, B, rcond=None)[0], atol=1e-6)
assert machine.available_memory() == machine.DEFAULT_MEMORY and machine.cpu_count() >= 1
assert machine.map_parallel(lambda x: x * x, range(5)) == [0, 1, 4, 9, 16]
scipy.io.mmwrite("X.mtx", sp.coo_matrix(X))
np.savetxt("B.csv", B, delimiter=",")
for line in ("solve svd X.npy -k 2 --out answer.npz", "compare svd X.npy -k 2 --solvers lanczos,direct",
             "solve least-squares X.mtx B.csv", "solvers"):
    try:
        main(line.split())
    except SystemExit as ending:
        assert not ending.code, (line, ending.code)
"""


def test_a_process_without_what_only_linux_has(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.standard_normal((400, 12)) @ np.diag(np.linspace(1, 4, 12)))
    apart(PROGRAM, cwd=tmp_path, env={"LINSPEC_NUM_THREADS": "2"})
