#!/usr/bin/env bash
# np.ma.corrcoef gives a correlation of 1.97 for data with gaps, as netCDF4 returns them; np.cov and lstsq read the gaps
#
# Packages: numpy 2.4.6, with data read by netCDF4 1.7.5.1.post1.
# Documentation: numpy/ma/extras.py: but for missing data, corrcoef does the same as numpy.corrcoef, and by default
#   values are left out in pairs. numpy.corrcoef says that values are between -1 and 1. numpy.cov, numpy.dot and
#   numpy.linalg.lstsq take "array_like"; of masks they say nothing.
# Seen: three series with correlations of .96 to the first. The second is recorded only where the first is far from its
#   mean, the third where it is below. np.ma.corrcoef divides a covariance of the rows that two series share by
#   deviations of all rows of each, and returns 1.97 and .56. Over the shared rows it is .988 and .906, as
#   scipy.stats.mstats and pandas say. An eigenvalue of the matrix is -1.4, so it is no basis for a PCA. np.cov, np.dot
#   and np.linalg.lstsq of the same masked arrays read the fill value below the mask (9.97e36 of netCDF) and return
#   numbers of 1e34 and more; np.ma.dot counts gaps as 0. No warning.
# Do instead: rows without gaps, np.ma.compress_rows(X), or pandas: DataFrame(X.filled(nan)).corr().
# Why it matters: netCDF4 returns masked arrays, and stations or satellites have gaps that depend on what is measured.
#   The correlation matrix is the first step of PCA and CCA of such fields.
# linspec: refuses masked arrays with gaps and without, and says how to fill or drop.
# Upstream: numpy issues 15601 and 20586 (open), pull request 32525 (open).
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6 netCDF4==1.7.5.1.post1 scipy==1.17.1 \
    pandas==3.1.1
cd "$folder"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings
from importlib.metadata import version

import netCDF4
import numpy as np
import pandas as pd
import scipy.stats

print(*(f"{name} {version(name)}" for name in ("numpy", "netCDF4", "scipy", "pandas")))
warnings.simplefilter("error")
rng = np.random.default_rng(0)
x = rng.standard_normal(2000)
full = np.column_stack([x, x + 0.3 * rng.standard_normal(2000), x + 0.3 * rng.standard_normal(2000)])
gaps = np.column_stack([np.zeros(2000, dtype=bool), np.abs(x) < 1.5, x > 0])
with netCDF4.Dataset("stations.nc", "w") as file:
    file.createDimension("time", 2000)
    file.createDimension("station", 3)
    file.createVariable("level", "f8", ("time", "station"))[:] = np.ma.masked_array(full, gaps)
with netCDF4.Dataset("stations.nc") as file:
    X = file["level"][:]
assert isinstance(X, np.ma.MaskedArray) and np.array_equal(X.mask, gaps)
print("all data, before gaps:", np.corrcoef(full, rowvar=False)[0, 1:].round(3))

masked = np.ma.corrcoef(X, rowvar=False)
pairwise = pd.DataFrame(X.filled(np.nan)).corr().to_numpy()
pearson = [scipy.stats.mstats.pearsonr(X[:, 0], X[:, i]).statistic for i in (1, 2)]
smallest = np.linalg.eigvalsh(masked.filled(0))[0]
print("np.ma.corrcoef        ", masked[0, 1:].round(3), "smallest eigenvalue", smallest.round(3))
print("pandas                ", pairwise[0, 1:].round(3))
print("scipy.stats.mstats    ", np.round(pearson, 3))
both = ~gaps[:, 1]
products = {
    "right, the rows that have both": full[both, 0] @ full[both, 1],
    "np.dot": np.dot(X[:, 0], X[:, 1]),
    "np.ma.dot": np.ma.dot(X[:, 0], X[:, 1]),
    "np.cov": np.cov(X[:, 0], X[:, 1])[0, 1],
    "right, coefficient": np.linalg.lstsq(full[both, :1], full[both, 1])[0][0],
    "np.linalg.lstsq": np.linalg.lstsq(X[:, :1], X[:, 1])[0][0],
}
for name, value in products.items():
    print(f"{name:31s} {float(value):.4g}")

checks = {
    "np.ma.corrcoef is above 1": masked[0, 1] > 1.5,
    "and too small with other gaps": masked[0, 2] < pairwise[0, 2] - 0.2,
    "it has a negative eigenvalue": smallest < -0.1,
    "pandas and scipy agree, within 1": np.allclose(pearson, pairwise[0, 1:]) and pairwise.max() < 1 + 1e-12,
    "np.cov and lstsq read what is below the mask": all(
        abs(products[name]) > 1e30 for name in ("np.cov", "np.linalg.lstsq")),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: correlations of masked arrays are no longer as described")
EOF
