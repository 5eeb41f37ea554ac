#!/usr/bin/env bash
# rolling_corr of polars returns correlations of 5.8 and 1889, and wrong ones below 1, if the columns have large means
#
# Package: polars 2.1.0; pandas 3.1.1 and pl.corr for comparison.
# Documentation: polars.rolling_corr and rolling_cov: the correlation and covariance of two columns in each window. A
#   correlation lies between -1 and 1 and does not change if a constant is added. pl.corr, pl.cov and rolling_var of
#   the same columns are right.
# Seen: 1000 rows, two columns of deviation 1 with correlation .6, windows of 50. The covariance is the mean of
#   products less the product of means, so what is left of it is rounding once the means are large. Means of 1e7: off
#   by up to .07, nothing to be noticed. 1e8: from -5.9 to 5.8, half of the windows above 1 in size. 1.7e9: 1889. In
#   Float32 .18 off at a mean of 1000, where all correlations are below 1, and 25 off at 10,000. rolling_cov, and the
#   slope as it is divided by rolling_var, are wrong with it. No NaN, no null, no warning. One small mean is enough to
#   be right. pandas' rolling(50).corr is right to 14 digits in all cases, and so is DataFrame.rolling with pl.corr
#   inside.
# Do instead: subtract a constant, such as the first or the mean value, from each column before; cast Float32 to
#   Float64; or use df.rolling(...).agg(pl.corr(...)), which is slower.
# Why it matters: slopes and correlations in moving windows are a regression for each window. Prices, pressures in
#   pascal (101,325), sequence numbers and seconds since 1970 (1.7e9) have such means, and Float32 is how sensors are
#   stored.
# linspec: it has no windows. CCA by all solvers and centred least squares give .59598 and .60179 for such columns at
#   means of 0, 1e8 and 1.7e9, and in float32 at 1000 and 100,000 the values of the rounded data to seven digits.
# Upstream: polars issue 21491 (open) has a maximum of 5.9 in a user's file; pull request 21528 made it better. pandas
#   had the same formula until pull request 65739.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 pandas==3.1.1 numpy==2.4.6
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import pandas as pd
import polars as pl

print("polars", pl.__version__, "pandas", pd.__version__, "numpy", np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
n, window = 1000, 50
a = rng.standard_normal(n)
b = 0.6 * a + 0.8 * rng.standard_normal(n)
seen = {}
for mean_of_x, mean_of_y, dtype in (
        (0, 0, "float64"), (1e7, 1e7, "float64"), (1e8, 1e8, "float64"), (1.7e9, 1.7e9, "float64"),
        (1.7e9, 0, "float64"), (1e3, 1e3, "float32"), (1e4, 1e4, "float32")):
    x, y = (a + mean_of_x).astype(dtype), (b + mean_of_y).astype(dtype)
    exact_x, exact_y = x.astype(float) - mean_of_x, y.astype(float) - mean_of_y      # subtracting is exact here
    windows = [slice(end - window, end) for end in range(window, n + 1)]
    right = np.array([np.corrcoef(exact_x[rows], exact_y[rows])[0, 1] for rows in windows])
    slopes = np.array([np.polyfit(exact_x[rows], exact_y[rows], 1)[0] for rows in windows])
    table = pl.DataFrame({"row": np.arange(n), "x": x, "y": y})
    frame = pd.DataFrame({"x": x, "y": y})
    found = {
        "rolling_corr": table.select(pl.rolling_corr("x", "y", window_size=window)).to_series(),
        "pl.corr in windows": table.rolling("row", period=f"{window}i").agg(pl.corr("x", "y"))["x"],
        "pandas": frame.x.rolling(window).corr(frame.y),
    }
    found = {name: values.to_numpy()[window - 1:] for name, values in found.items()}
    slope = table.select(pl.rolling_cov("x", "y", window_size=window) / pl.col("x").rolling_var(window))
    off_slope = np.abs(slope.to_series().to_numpy()[window - 1:] - slopes).max()
    off = {name: np.abs(values - right).max() for name, values in found.items()}
    values = found["rolling_corr"]
    seen[mean_of_x, mean_of_y, dtype] = off, values, off_slope
    print(f"{dtype}, means {mean_of_x:.1e} and {mean_of_y:.1e}: right {right.min():.3f} to {right.max():.3f}, "
          f"rolling_corr {values.min():.3f} to {values.max():.3f}, above 1 in size "
          f"{np.mean(np.abs(values) > 1):.2f}; off by "
          + ", ".join(f"{name} {value:.1e}" for name, value in off.items()) + f", slope {off_slope:.1e}")


def off_of(mean_of_x, mean_of_y, dtype="float64"):
    return seen[mean_of_x, mean_of_y, dtype][0]["rolling_corr"]


def largest(mean, dtype="float64"):
    return np.abs(seen[mean, mean, dtype][1]).max()


checks = {
    "means of 0, or one of 0: right to six digits": off_of(0, 0) < 1e-12 and off_of(1.7e9, 0) < 1e-6,
    "1e7: off by more than .03, and all below 1": off_of(1e7, 1e7) > 0.03 and largest(1e7) < 1,
    "1e8 and 1.7e9: correlations above 2 and above 100": largest(1e8) > 2 and largest(1.7e9) > 100,
    "Float32 at 1000: off by more than .1, and all below 1": off_of(1e3, 1e3, "float32") > 0.1
    and largest(1e3, "float32") < 1,
    "Float32 at 10,000: correlations above 2": largest(1e4, "float32") > 2,
    "the slopes are off as well": seen[1e8, 1e8, "float64"][2] > 1 and seen[1e3, 1e3, "float32"][2] > 0.05,
    "nowhere NaN": all(np.isfinite(values).all() for _, values, _ in seen.values()),
    "pandas is right": all(off["pandas"] < 1e-6 for off, _, _ in seen.values()),
    "pl.corr is right in float64": all(off["pl.corr in windows"] < 1e-6 for (_, _, dtype), (off, _, _) in seen.items()
                                       if dtype == "float64"),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: rolling_corr no longer behaves as described")
EOF
