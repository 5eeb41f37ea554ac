#!/usr/bin/env bash
# scipy.linalg.orthogonal_procrustes mirrors integer landmarks that were turned by 10 degrees: the residual is 151 %
#
# Package: scipy 1.17.1.
# Documentation: linalg/_procrustes.py: it computes the orthogonal matrix that maps A most closely to B. A and B are
#   array-like; no dtype is named. Most functions of scipy.linalg turn integers into floats.
# Seen: the product of B and A is taken in their dtype before the SVD, and integers of 8, 16 or 32 bits overflow. 60
#   centred landmarks in pixels of a photograph, int16, and the same turned by 10 degrees: the answer is a reflection,
#   with a residual of 151 % of B, where .03 % is right. int32 is right here, and wrong (93 %) in thousandths of a
#   pixel. Embeddings of 16 dimensions, stored as int8, and the same turned: of 2,000 vectors .1 % find their
#   counterpart after the alignment, where all do. int64 and float64 are right, and so is scipy.spatial.procrustes. The
#   matrix is orthogonal in any case, so nothing looks wrong. No warning.
# Do instead: A.astype(float) and B.astype(float), and compare the residual with zero.
# linspec: has no Procrustes; its least squares of the same integers (without the constraint) is right.
# Why it matters: image coordinates are small integers, and embeddings are stored as int8. Aligned components, shapes
#   or spaces are the input of the next step, and a wrong rotation is as orthogonal as a right one.
# Upstream: no report of it was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import scipy
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes

print("scipy", scipy.__version__, "numpy", np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
points = rng.uniform(0, 4000, (60, 2))
points -= points.mean(axis=0)
angle = np.deg2rad(10)
turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
A, B = points.round(), (points @ turn).round()
seen = {}
for dtype in ("int16", "int32", "int64", "float64"):
    R, _ = orthogonal_procrustes(A.astype(dtype), B.astype(dtype))
    seen[dtype] = (np.rad2deg(np.arctan2(R[0, 1], R[0, 0])), np.linalg.det(R),
                   np.linalg.norm(A @ R - B) / np.linalg.norm(B), np.abs(R.T @ R - np.eye(2)).max())
    print(f"landmarks, {dtype:7s}: angle {seen[dtype][0]:6.1f}, determinant {seen[dtype][1]:.2f}, residual / B "
          f"{seen[dtype][2]:.4f}, off orthogonal by {seen[dtype][3]:.0e}")
disparity = procrustes(A.astype(np.int16), B.astype(np.int16))[2]
print(f"scipy.spatial.procrustes of int16: disparity {disparity:.1e}")
large = [(1000 * C).astype(np.int32) for C in (A, B)]
R, _ = orthogonal_procrustes(*large)
seen["int32, larger"] = float(np.linalg.norm(A @ R - B) / np.linalg.norm(B))
print(f"the same in thousandths of a pixel, int32: residual / B {seen['int32, larger']:.4f}")

X = rng.standard_normal((2_000, 16))
rotation = np.linalg.qr(rng.standard_normal((16, 16)))[0]
stored = [(30 * Z).round().clip(-127, 127).astype(np.int8) for Z in (X, X @ rotation)]
found = {}
for dtype in ("int8", "float64"):
    R, _ = orthogonal_procrustes(*(Z.astype(dtype) for Z in stored))
    first, second = stored[0] @ R, stored[1].astype(float)
    distances = (first**2).sum(axis=1)[:, None] - 2 * first @ second.T + (second**2).sum(axis=1)
    found[dtype] = (distances.argmin(axis=1) == np.arange(len(X))).mean()
    print(f"embeddings, {dtype:7s}: rotation off by {np.linalg.norm(R - rotation):.3f}, counterpart found for "
          f"{found[dtype]:.1%}")

checks = {
    "int16 landmarks: a reflection for a rotation": seen["int16"][1] < -0.99 and seen["int64"][1] > 0.99,
    "the residual is as large as the landmarks": seen["int16"][2] > 1,
    "the matrix is orthogonal": seen["int16"][3] < 1e-6,
    "int64 and float64 are right": all(seen[dtype][2] < 1e-3 for dtype in ("int64", "float64")),
    "int32 is wrong for larger numbers": seen["int32, larger"] > 0.1,
    "int8 embeddings do not find their counterparts": found["int8"] < 0.1 and found["float64"] > 0.99,
    "scipy.spatial.procrustes is right": disparity < 1e-5,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: orthogonal_procrustes no longer behaves as described")
EOF
