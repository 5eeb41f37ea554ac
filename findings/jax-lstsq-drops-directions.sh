#!/usr/bin/env bash
# jax.numpy.linalg.lstsq and pinv drop columns of float32 data with many rows: at a million rows all below a tenth
#
# Packages: jax 0.10.2, with numpy 2.4.6 for comparison.
# Documentation: jax.numpy.linalg.lstsq says of rcond=None that "the optimal value will be used to reduce floating point
#   errors", and presents itself as numpy's function. pinv names 10 * max(M, N) * eps. float32 is the default dtype.
# Seen: the cut is eps * (number of rows) times the largest singular value. In float64 that is small. In float32, the
#   default of jax, it is 1.2 % of the largest at 100,000 rows, 12 % at a million, and above 100 % from 8.4 million rows
#   on. pinv takes ten times that: at a million rows it is a matrix of zeros. Three independent columns with deviations
#   10, 1 and 0.3 and coefficients 1, 2 and 3: lstsq finds 1, 0 and 0 at a million rows, 1, 2 and 0 at 300,000. The mean
#   squared residual is 5.8 for 1. pinv has lost both at 100,000. Singular values are right to five digits. The rank
#   that is returned, 1, is the only sign. numpy takes the same float32 arrays, cuts at eps of float64 and is right.
#   torch.linalg.lstsq (2.14.1, on the CPU), pinv and matrix_rank have the same default, and the same answer of 1, 0, 0
#   at a million rows in float32, the default of torch (not run here: the wheel is large).
# Do instead: rcond=1e-6 (rtol= of pinv), or a QR factorisation, or columns of about equal deviation. Look at the rank.
# Why it matters: least squares on all rows at once is what an accelerator is used for. A rule for the rank of square
#   matrices becomes a cut through ordinary data when the matrix is long, and more rows make the answer worse.
# Upstream: jax issue 15591 (closed) has two columns with very different lengths; no report of the number of rows was
#   found. numpy's rule is meant for float64.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1
JAX_PLATFORMS=cpu OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import jax
import jax.numpy as jnp
import numpy as np

print("jax", jax.__version__, "numpy", np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
right = np.array([1.0, 2.0, 3.0])
seen = {}
for n in (10_000, 100_000, 300_000, 1_000_000):
    X = (rng.standard_normal((n, 3)) * [10, 1, 0.3]).astype(np.float32)
    y = (X @ right + rng.standard_normal(n)).astype(np.float32)
    of_jax, _, rank, values = jnp.linalg.lstsq(X, y)
    with_rcond = jnp.linalg.lstsq(X, y, rcond=1e-6)[0]
    of_pinv = jnp.linalg.pinv(X) @ y
    of_numpy, _, numpy_rank, _ = np.linalg.lstsq(X, y)
    print(f"{n} rows, dtype {of_jax.dtype}, singular values {np.array(values).round(1)}")
    for name, x in (("jax lstsq", of_jax), ("jax, rcond=1e-6", with_rcond), ("jax pinv", of_pinv),
                    ("numpy lstsq", of_numpy)):
        x = np.array(x)
        print(f"    {name:16s} {(x.round(3) + 0.0)}, mean squared residual {np.mean((y - X @ x) ** 2):.3f}")
        seen[n, name] = x
    print(f"    rank {int(rank)} by jax, {int(numpy_rank)} by numpy")

checks = {
    "10,000 rows: all are right": all(np.abs(x - right).max() < 0.3 for (n, _), x in seen.items() if n == 10_000),
    "a million rows: lstsq finds nothing of the second and third column":
        np.abs(seen[1_000_000, "jax lstsq"][1:]).max() < 0.01,
    "300,000 rows: nothing of the third": abs(seen[300_000, "jax lstsq"][2]) < 0.01,
    "pinv loses both at 100,000 rows and is zero at a million":
        np.abs(seen[100_000, "jax pinv"][1:]).max() < 0.01 and not seen[1_000_000, "jax pinv"].any(),
    "with rcond=1e-6 all are right, and so is numpy": all(
        np.abs(x - right).max() < 0.3 for (_, name), x in seen.items() if name in ("jax, rcond=1e-6", "numpy lstsq")),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: jax.numpy.linalg.lstsq no longer behaves as described")
EOF
