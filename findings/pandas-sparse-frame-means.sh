#!/usr/bin/env bash
# The means of a sparse pandas frame are cut to whole numbers (to 3.0) or taken over stored entries only (3.0)
#
# Packages: pandas 2.3.3, 3.0.6 and 3.1.1. Only the last one is right.
# Documentation: DataFrame.sparse.from_spmatrix makes a frame of a scipy sparse matrix; the example of its own page
#   shows zeros where nothing is stored. scipy defines entries that are not stored as zero. DataFrame.mean says nothing
#   special of sparse columns.
# Seen, integers (2.3.3 and 3.0.6): frame.mean() puts each mean back into the integer dtype of its column. Means of .06,
#   1.9 and .7 are 0, 1 and 0, so centred = frame - frame.mean() is not centred. The mean of a single column,
#   frame["a"].mean(), is right, and so is frame.cov().
# Seen, floats (3.0.6, also 3.0.0 and 3.0.3): the columns become Sparse[float64, nan], and all statistics skip NaN. The
#   mean of a column with 5 % ones is 1, its variance 0 where it is .05, and a correlation of .4 becomes 1, since only
#   rows count where both columns are stored. to_coo() writes zeros again, so a round trip looks right.
# Do instead: pandas 3.1 or later. Before it take means of the scipy matrix or of frame.sparse.to_dense(), and pass
#   floats through frame.fillna(0) in 3.0.
# Why it matters: encoded categories, counts and tf-idf weights are kept so. A mean for centring or a covariance taken
#   from such a frame is that of no data anybody has, and the two kinds of numbers are wrong in different versions.
# Upstream: floats: pandas issue 59212, mended by pull request 69115; integers: issue 55123, pull request 67999.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.3.3 3.0.6 3.1.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check pandas==$version scipy==1.17.1 numpy==2.4.6
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/$version/bin/python" - <<'EOF'
import sys

import numpy as np
import pandas as pd
import scipy
import scipy.sparse as sp

print("pandas", pd.__version__, "scipy", scipy.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
counts = np.zeros((2000, 3), dtype=np.int64)
counts[:, 0] = rng.random(2000) < 0.05
counts[:, 1] = rng.poisson(1.9, size=2000)
counts[:, 2] = np.where(rng.random(2000) < 0.4, counts[:, 1], 0)
right = pd.DataFrame(counts.astype(float))
print("   right:    means", right.mean().to_numpy().round(3), "variances", np.diag(right.cov()).round(3),
      "correlation", round(right.corr().iloc[1, 2], 3))
means, correlations = {}, {}
for dtype in ("int64", "float64"):
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_array(counts.astype(dtype)))
    means[dtype], correlations[dtype] = frame.mean().to_numpy(), frame.corr().iloc[1, 2]
    print(f"   {dtype:8s}  means", means[dtype].round(3), "variances", np.diag(frame.cov()).round(3), "correlation",
          round(correlations[dtype], 3), frame.dtypes.iloc[0], "mean of column 1 alone", round(frame[1].mean(), 3))
    assert np.array_equal(frame.sparse.to_coo().toarray(), counts)

exact = right.mean().to_numpy()
cut = np.array_equal(means["int64"], np.floor(exact)) and not np.allclose(exact, np.floor(exact))
skipped = means["float64"][0] == 1.0 and correlations["float64"] - right.corr().iloc[1, 2] > 0.3
fine = all(np.allclose(values, exact) for values in means.values())
expected = {"2.3.3": (True, False, False), "3.0.6": (True, True, False), "3.1.1": (False, False, True)}
if (cut, skipped, fine) != expected[pd.__version__]:
    sys.exit(f"CHANGED: sparse frames of pandas {pd.__version__} no longer behave as described")
print("   yes: integers", "cut," if cut else "right,", "zeros of floats", "skipped" if skipped else "counted")
EOF
done
