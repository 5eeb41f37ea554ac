#!/usr/bin/env bash
# normalize and Normalizer of scikit-learn turn every float16 row longer than 256 into a row of zeros, without a warning
#
# Package: scikit-learn 1.9.1.
# Documentation: preprocessing/_data.py, normalize: it scales vectors "individually to unit norm"; only rows of zeros
#   are said to stay as they are. float16 is one of the dtypes that are kept (FLOAT_DTYPES).
# Seen: the sum of squares is written into float16, whose largest number is 65,504 = 255.94^2. Any longer row has
#   length infinity, and all its entries become 0. Rows shorter than about .004 keep their length, as their squares
#   vanish. 2,000 rows of 768 columns in four narrow groups, with lengths from 100 to 500: 60 % are zeros afterwards.
#   The cosine of two rows of a group is 0 for .96, and the first singular values of the normalized matrix are 14 for
#   22. return_norm=True hands out inf. Frames of pandas and polars with float16 columns are treated the same. In
#   column order, as in a pandas frame, the sum itself is taken in float16, and all lengths are off by 3 to 5 % at
#   4,096 columns. norm="l1" and cosine_similarity are right. No warning.
# Do instead: X.astype(numpy.float32) before normalize, or cosine_similarity.
# linspec: computes float16 as float32, which is right.
# Why it matters: embeddings are stored as float16, and hidden states of language models are longer than 256. Rows are
#   normalized before a PCA, a kernel or a spectral clustering, which then see the short rows only.
# Upstream: scikit-learn issue 21559 (closed) has lengths that are off otherwise. No report of the zeros was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1 \
    pandas==3.1.1 polars==2.1.0
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import pandas as pd
import polars as pl
import sklearn
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import Normalizer, normalize

print("scikit-learn", sklearn.__version__, "numpy", np.__version__, "pandas", pd.__version__, "polars",
      pl.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
rows, columns, groups = 2_000, 768, 4
directions = np.linalg.qr(rng.standard_normal((columns, groups)))[0].T
group = rng.integers(groups, size=rows)
X = directions[group] + rng.standard_normal((rows, columns)) * 0.2 / np.sqrt(columns)
X *= (rng.uniform(100, 500, rows) / np.linalg.norm(X, axis=1))[:, None]
X = X.astype(np.float16)
exact = X.astype(float)
lengths = np.linalg.norm(exact, axis=1)
got, norms = normalize(X, return_norm=True)
after = np.linalg.norm(got.astype(float), axis=1)
zero = (got == 0).all(axis=1)
print(f"lengths before: {lengths.min():.1f} to {lengths.max():.1f}; rows of zeros after: {zero.sum()} of {rows}; "
      f"the longest that is not: {lengths[~zero].max():.2f}, the shortest that is: {lengths[zero].min():.2f}")
print("lengths after of the others:", after[~zero].min().round(4), "to", after[~zero].max().round(4))
first, second = np.flatnonzero(zero & (group == 0))[:2]
cosine = normalize(exact)[first] @ normalize(exact)[second]
of_got = float(got[first].astype(float) @ got[second].astype(float))
of_cosines = cosine_similarity(X[[first, second]])[0, 1]
print(f"cosine of rows {first} and {second}: {of_got} for {cosine:.3f}; by cosine_similarity {of_cosines:.3f}; "
      f"return_norm {norms[first]}")
values = np.linalg.svd(got.astype(float))[1][:groups], np.linalg.svd(normalize(exact))[1][:groups]
print("singular values after", values[0].round(2), "for", values[1].round(2))
frames = {"pandas": pd.DataFrame(X), "polars": pl.DataFrame({f"x{j}": X[:, j] for j in range(columns)})}
of_frames = {name: int((Normalizer().fit_transform(frame) == 0).all(axis=1).sum()) for name, frame in frames.items()}
print("rows of zeros by Normalizer of frames:", of_frames)
wide = rng.standard_normal((200, 4096)).astype(np.float16)
of_wide = [np.linalg.norm(normalize(Z).astype(float), axis=1) for Z in (wide, pd.DataFrame(wide))]
print("4,096 columns, rows of length 64: lengths after", *(f"{Z.min():.4f} to {Z.max():.4f}" for Z in of_wide),
      "(array, pandas frame)")
short = (exact / lengths[:, None] * 0.003).astype(np.float16)
of_short = np.linalg.norm(normalize(short).astype(float), axis=1)
print(f"rows of length .003: {of_short.min():.4f} to {of_short.max():.4f} after")
of_l1 = np.abs(normalize(X, norm="l1").astype(float)).sum(axis=1)
of_single = np.linalg.norm(normalize(X.astype(np.float32)), axis=1)
print(f"norm='l1': sums of {of_l1.min():.3f} to {of_l1.max():.3f}; as float32: lengths of {of_single.min():.3f} to "
      f"{of_single.max():.3f}")

checks = {
    "rows longer than 256 are zeros, others are not": lengths[~zero].max() < 256.5 and lengths[zero].min() > 255.5,
    "more than half of the rows are lost": zero.mean() > 0.5,
    "two rows in nearly the same direction have cosine 0": of_got == 0 and cosine > 0.9,
    "singular values are a quarter too small": (values[0] < 0.75 * values[1]).all(),
    "frames behave the same": min(of_frames.values()) > rows / 2,
    "all lengths are more than 2 % off in a wide pandas frame": of_wide[1].min() > 1.02 and of_wide[0].max() < 1.002,
    "rows shorter than .004 keep their length": of_short.max() < 0.1,
    "l1, float32 and cosine_similarity are right": abs(of_l1 - 1).max() < 0.01 and abs(of_single - 1).max() < 1e-5
    and abs(of_cosines - cosine) < 0.01,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: normalize no longer behaves as described")
EOF
