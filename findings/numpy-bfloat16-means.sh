#!/usr/bin/env bash
# The mean of 100,000 bfloat16 numbers around 5 is .04 in numpy and in pandas, and numpy's deviation is .55 for 1
#
# Packages: numpy 2.4.6 with ml_dtypes 0.6.0, which is what jax and tensorflow hand over as bfloat16; pandas 3.1.1;
#   scikit-learn 1.9.1 for comparison.
# Documentation: numpy.mean says that float16 is added up in float32. torch does so for bfloat16, too. ml_dtypes
#   presents bfloat16 as one more dtype of numpy. The page of DataFrame.mean says nothing of dtypes.
# Seen: numpy adds bfloat16 up in bfloat16, one entry after the other, along columns as well as rows. It has 8 binary
#   digits, so the sum of numbers around 5 stops at 2,048 or 4,096, whatever follows. Means of columns around 5 are
#   5.5, 2.0, .22 and .04 for 300, 1,000, 10,000 and 100,000 rows. Deviations are up to 2.6 and down to .55, for 1.
#   Centring by this mean leaves 4.96 of 5. A pandas frame of such an array keeps the dtype, and its mean() has these
#   numbers as float64, while std() and cov() convert first and are right; so frame - frame.mean() is not centred.
#   numpy.cov and PCA of scikit-learn convert, too, and are right, as are means of the same numbers as float16. No
#   warning.
# Do instead: x.astype(numpy.float32) before anything that sums, or sums with dtype=numpy.float32.
# linspec: refuses the dtype, and asks for a conversion to float64.
# Why it matters: activations and embeddings are stored so. Centring, standardizing and a check of the first principal
#   component all begin with a mean, and more rows make it worse: the longer the data, the nearer to zero.
# Upstream: ml_dtypes issue 63 (closed) has the sum. No report of pandas was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.6.0 pandas==3.1.1 \
    scikit-learn==1.9.1 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import ml_dtypes
import numpy as np
import pandas as pd
import sklearn
from sklearn.decomposition import PCA

print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__, "pandas", pd.__version__, "scikit-learn",
      sklearn.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
means, deviations = {}, {}
for n in (300, 1_000, 10_000, 100_000):
    X = rng.normal(5, 1, (n, 2)).astype(ml_dtypes.bfloat16)
    exact = X.astype(float)
    frame = pd.DataFrame(X)
    means[n], deviations[n] = X.mean(axis=0).astype(float), X.std(axis=0).astype(float)
    print(f"{n:7,} rows: mean {means[n].round(3)} for {exact.mean(axis=0).round(3)}, deviation "
          f"{deviations[n].round(3)} for {exact.std(axis=0).round(3)}")
of_pandas = frame.mean().to_numpy(float), frame.var().to_numpy(float), np.diag(frame.cov())
print("pandas, 100,000 rows: dtype", frame.dtypes.unique(), "mean", of_pandas[0].round(3), "var",
      of_pandas[1].round(3), "diagonal of cov", of_pandas[2].round(3))
centred = (X - X.mean(axis=0)).astype(float).mean(axis=0)
of_centred = (frame - frame.mean()).to_numpy(float).mean(axis=0)
print("mean after centring: numpy", centred.round(3), "pandas", of_centred.round(3), "; mean of PCA",
      PCA().fit(X).mean_.round(3), "; numpy.mean(dtype=float32)", X.mean(axis=0, dtype=np.float32).round(3))
half = exact.astype(np.float16).mean(axis=0)
print("the same numbers as float16: mean", half.round(3))

checks = {
    "the mean of 100,000 rows is below a hundredth of the right one": means[100_000].max() < 0.05,
    "that of 1,000 is below half": means[1_000].max() < 2.5,
    "deviations are more than twice too large, or near half of the right one": deviations[1_000].min() > 2
    and deviations[100_000].max() < 0.6,
    "pandas has the same means, and right variances": of_pandas[0].max() < 0.05
    and abs(of_pandas[1] - 1).max() < 0.02 and abs(of_pandas[2] - 1).max() < 0.02,
    "centring leaves the mean there": centred.min() > 4.9 and of_centred.min() > 4.9,
    "float16, numpy.cov and PCA are right": abs(half - 5).max() < 0.02 and abs(PCA().fit(X).mean_ - 5).max() < 0.02
    and abs(np.diag(np.cov(X.T)) - 1).max() < 0.02,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: sums of bfloat16 no longer behave as described")
EOF
