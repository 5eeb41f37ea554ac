#!/usr/bin/env bash
# f_classif, the default score of SelectKBest, gives negative F values and false p-values for float32 and int32 columns
#
# Package: scikit-learn 1.9.1.
# Documentation: sklearn/feature_selection/_univariate_selection.py says of f_oneway, on which f_classif is built, that
#   scipy.stats.f_oneway "should give the same results". An F value is a ratio of two variances. Nothing is said of the
#   dtype. f_regression of the same module turns all data into float64.
# Seen: f_oneway subtracts sums of squares about zero from each other. It does so in float32 for float32 columns, also
#   for columns of integers of 32 bits or fewer. The error grows with (mean / deviation) squared and with the number of
#   rows. Temperatures in kelvin (288 +- 8) as float32, 100,000 rows, 37 columns without any effect: F is between -20 and
#   22 where it should be between 0 and 7.4; 22 of the 37 are negative with a p-value of NaN, and SelectFdr keeps two
#   of the others. Years (2010 +- 6) as int32 or int16, 20,000 rows, 40 columns without effect: F is between -279 and
#   607, and 21 p-values are below .001, where none should be. The same numbers as float64 or int64 give what scipy
#   gives, which is right for float32, too. No warning.
# Do instead: X.astype(float) before SelectKBest, SelectPercentile, SelectFpr, SelectFdr and f_classif; or
#   subtract the means of the columns first.
# Why it matters: netCDF, zarr, Parquet and images hold float32 and small integers. A mean ten or more deviations
#   from zero is common (kelvin, pascal, years, sensor counts). Screening of columns then reports effects that are none.
# Upstream: no report of it was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import scipy
import sklearn
from scipy.stats import f_oneway
from sklearn.feature_selection import SelectFdr, f_classif

print("scikit-learn", sklearn.__version__, "scipy", scipy.__version__, "numpy", np.__version__,
      "(all warnings are errors here)")
rng = np.random.default_rng(0)


def printed(name, F, p):
    print(f"{name:24s} F from {F.min():8.3f} to {F.max():7.3f}, negative {np.sum(F < 0):2d}, "
          f"p below .001 {np.sum(p < 0.001):2d}, p NaN {np.sum(np.isnan(p)):2d} of {len(F)}")


n = 100_000
y = rng.integers(0, 2, n)
kelvin = 288 + 8 * rng.standard_normal((n, 40))
kelvin[:, :3] += 0.5 * y[:, None]                     # the others have no effect
kelvin = kelvin.astype(np.float32)
print("temperatures: the 37 columns without effect")
single, double = f_classif(kelvin, y), f_classif(kelvin.astype(float), y)
of_scipy = f_oneway(kelvin[y == 0], kelvin[y == 1])
for name, (F, p) in (("f_classif, float32", single), ("f_classif, float64", double), ("scipy, float32", of_scipy)):
    printed(name, F[3:], p[3:])
chosen = {dtype: np.flatnonzero(SelectFdr(f_classif, alpha=0.01).fit(kelvin.astype(dtype), y).get_support()).tolist()
          for dtype in ("float32", "float64")}
print("SelectFdr(alpha=.01) keeps", chosen)

n = 20_000
y = rng.integers(0, 2, n)
years = 2010 + rng.integers(-10, 11, (n, 40))
print("years: 40 columns without effect")
of_years = {dtype: f_classif(years.astype(dtype), y) for dtype in ("int64", "int32", "int16")}
for dtype, (F, p) in of_years.items():
    printed("f_classif, " + dtype, F, p)

checks = {
    "float32: a fifth of the F values or more are negative": np.mean(single[0][3:] < 0) >= 0.2,
    "float32: F is above 12 or below -12 where it should be below 8":
        np.abs(single[0][3:]).max() > 12 and double[0][3:].max() < 8,
    "int32: F is above 100 where it should be below 8, and a quarter of the p-values are below .001":
        of_years["int32"][0].max() > 100 and of_years["int64"][0].max() < 8
        and np.mean(of_years["int32"][1] < 0.001) > 0.25,
    "int32: a fifth of the F values or more are negative": np.mean(of_years["int32"][0] < 0) >= 0.2,
    "scipy agrees with float64, also for float32": np.allclose(of_scipy.statistic, double[0], rtol=1e-3, atol=1e-4),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: f_classif no longer behaves as described")
EOF
