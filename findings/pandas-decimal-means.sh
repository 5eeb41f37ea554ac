#!/usr/bin/env bash
# DataFrame.mean of decimal columns (pandas with Arrow) is rounded to the digits of the column: 1 for 1.36, 3 for 2.59
#
# Packages: pandas 3.1.1 with pyarrow 26.0.1; polars 2.1.0 and scikit-learn 1.9.1 for comparison.
# Documentation: DataFrame.mean of pandas says nothing of decimals. pyarrow.compute.mean says that a mean of decimals
#   has their precision and scale. var, std and cov of pandas give floats.
# Seen: read_parquet(..., dtype_backend="pyarrow") makes decimal128(18, 0) of a column that a database wrote as
#   NUMBER(18), and mean() hands out a Decimal of the same kind. Visits with mean 1.36 have the mean 1, orders 3 for
#   2.59, a column of zeros and ones 0 for .03, prices with one digit .1 for .136. So frame - frame.mean() is not
#   centred: standardized columns have means of .31 and -.25 instead of 0, and products over n - 1 are no correlations.
#   The deviations, cov() and corr() of the same frame are right, as are the means that polars and StandardScaler take
#   of it. Means by groupby are rounded, too. No warning. (With 38 digits frame - frame.mean() is an error.)
# Do instead: frame.astype(float) first.
# linspec: reads such frames and tables as float64, and centres by the right means.
# Why it matters: standardizing by hand is the usual line before a PCA, a ridge or a product of matrices, and databases
#   export NUMBER and NUMERIC columns so. The deviation is right, which hides that the mean is not.
# Upstream: pyarrow rounds by decision (pull requests 11754 and 44184). No report for pandas was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 pyarrow==26.0.1 numpy==2.4.6 \
    polars==2.1.0 scikit-learn==1.9.1 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - "$folder/counts.parquet" <<'EOF'
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import sklearn
from sklearn.preprocessing import StandardScaler

print("pandas", pd.__version__, "pyarrow", pa.__version__, "polars", pl.__version__, "scikit-learn",
      sklearn.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
n = 1_000
visits = rng.poisson(1.4, n)
numbers = {"visits": visits, "orders": visits + rng.poisson(1.2, n), "complaint": rng.random(n) < 0.035}
columns = {name: pa.array([Decimal(int(value)) for value in column], pa.decimal128(18, 0))
           for name, column in numbers.items()}
columns["price"] = pa.array([Decimal(int(value)).scaleb(-1) for value in visits], pa.decimal128(12, 1))
pa.parquet.write_table(pa.table(columns), sys.argv[1])
frame = pd.read_parquet(sys.argv[1], dtype_backend="pyarrow")
exact = frame.astype(float)
print({name: str(dtype) for name, dtype in frame.dtypes.items()})
means, right = frame.mean().astype(float), exact.mean()
for name in frame:
    print(f"{name:9s} mean {frame.mean()[name]} for {right[name]:.4f}, std {frame[name].std():.4f} for "
          f"{exact[name].std():.4f}")
by_group = frame.groupby(np.arange(n) % 2)["visits"].mean().astype(float).to_numpy()
print("mean of visits by groupby", by_group)
used = ["visits", "orders"]
standardized = ((frame[used] - frame[used].mean()) / frame[used].std()).to_numpy(float)
products = standardized.T @ standardized / (n - 1)
correlation = frame[used].corr().to_numpy(float)
print("standardized visits and orders: means", standardized.mean(axis=0).round(3), "products over n - 1",
      products.round(3).tolist(), "for", correlation.round(3).tolist())
scaler, of_polars = StandardScaler().fit(frame), pl.read_parquet(sys.argv[1]).mean().row(0)
print("means of StandardScaler", scaler.mean_.round(4), "of polars", np.array(of_polars, float).round(4))

checks = {
    "means are rounded to the digits of the column": (means.to_numpy() == [1, 3, 0, 0.1]).all(),
    "those by groupby, too": (by_group == 1).all(),
    "standard deviations are right": all(abs(frame[name].std() / exact[name].std() - 1) < 1e-9 for name in frame),
    "standardized columns are not centred": np.abs(standardized.mean(axis=0)).min() > 0.1,
    "their products are no correlations, corr() is right": products.diagonal().max() > 1.05
    and np.allclose(correlation, exact[used].corr()),
    "StandardScaler and polars are right": np.allclose(scaler.mean_, right)
    and np.allclose(np.array(of_polars, float), right),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: means of decimals no longer behave as described")
EOF
