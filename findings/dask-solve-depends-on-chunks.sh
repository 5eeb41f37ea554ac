#!/usr/bin/env bash
# dask.array.linalg.solve returns a wrong solution of a well-conditioned system, depending on the chunks
#
# Package: dask 2026.8.0.
# Documentation: dask/array/linalg.py describes solve(a, b) as LU decomposition with substitution for a general square
#   matrix, next to "pos" for definite ones, and refers to scipy.linalg.solve. lu(a) is said to return a permutation and
#   two triangular factors. inv(a) uses solve. Of pivoting within blocks only, or of accuracy, nothing is said.
# Seen: rows are exchanged only within the blocks of the diagonal. If the leading rows that fill whole chunks are
#   dependent, a pivot is rounding, the factors grow to 1e15, and all digits are lost. Least squares with enough
#   constraints to make the answer unique: 40 unknowns, 30 observations, 20 constraints, one symmetric system of 60
#   equations with condition number 259. With chunks of 60 or 30 the answer is exact to 1e-12. With chunks of 20, 10
#   or 5, whose borders meet the one between unknowns and constraints, the residual is .4 to 1.0 of the right-hand
#   side, x is off by two to four times its length, P L U differs from the matrix by 4 or 5, and the product of inv and
#   the matrix from the identity by 24 to 89. No warning and no NaN.
# Do instead: compute() the matrix and numpy.linalg.solve, or one chunk: rechunk(-1). assume_a="pos" is for definite
#   matrices only. For constrained least squares eliminate the constraints first. Always look at the residual.
# Why it matters: systems with constraints, multipliers or equal groups of rows have such blocks by nature. Another
#   number of workers, or rechunk("auto"), changes the answer.
# Upstream: no report of it was found. Pull request 885 introduced lu.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "dask[array]==2026.8.0" numpy==2.4.6 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings

import dask
import dask.array as da
import numpy as np
import scipy.linalg

print("dask", dask.__version__, "numpy", np.__version__, "scipy", scipy.__version__)
warnings.simplefilter("error")
warnings.simplefilter("ignore", da.PerformanceWarning)         # of many small chunks, not of accuracy
rng = np.random.default_rng(0)
unknowns, observations, constraints = 40, 30, 20
A, C = rng.standard_normal((observations, unknowns)), rng.standard_normal((constraints, unknowns))
K = np.block([[A.T @ A, C.T], [C, np.zeros((constraints, constraints))]])
y, fixed = rng.standard_normal(observations), rng.standard_normal(constraints)
right_side = np.concatenate([A.T @ y, fixed])
free = scipy.linalg.null_space(C)                              # the right answer, without the system K
one = np.linalg.pinv(C) @ fixed
truth = one + free @ np.linalg.lstsq(A @ free, y - A @ one)[0]
print(f"condition number {np.linalg.cond(K):.0f}")


def looked_at(name, solved, inverse):
    residual = np.linalg.norm(K @ solved - right_side) / np.linalg.norm(right_side)
    error = np.linalg.norm(solved[:unknowns] - truth) / np.linalg.norm(truth)
    of_inverse = np.abs(inverse @ K - np.eye(len(K))).max()
    print(f"{name:14s} residual {residual:.1e}, x off by {error:.1e}, inverse times matrix off by {of_inverse:.1e}",
          end="")
    return residual, error, of_inverse


seen = {"numpy": looked_at("numpy", np.linalg.solve(K, right_side), np.linalg.inv(K))}
print()
for chunks in (60, 30, 20, 10, 5):
    blocks = da.from_array(K, chunks=chunks)
    solved = da.linalg.solve(blocks, da.from_array(right_side, chunks=chunks)).compute()
    seen[chunks] = looked_at(f"chunks of {chunks:2d}", solved, da.linalg.inv(blocks).compute())
    P, L, U = (factor.compute() for factor in da.linalg.lu(blocks))
    print(f", P L U off by {np.abs(P @ L @ U - K).max():.1e}, largest entry of L {np.abs(L).max():.1e}")

checks = {
    "chunks of 60 and 30: right": all(max(seen[chunks]) < 1e-9 for chunks in ("numpy", 60, 30)),
    "chunks of 20, 10 and 5: the residual is above a tenth": all(seen[chunks][0] > 0.1 for chunks in (20, 10, 5)),
    "chunks of 20, 10 and 5: x is off by more than a tenth": all(seen[chunks][1] > 0.1 for chunks in (20, 10, 5)),
    "chunks of 20, 10 and 5: the inverse is none": all(seen[chunks][2] > 0.5 for chunks in (20, 10, 5)),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: dask.array.linalg.solve no longer behaves as described")
EOF
