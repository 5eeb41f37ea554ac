#!/usr/bin/env bash
# OLS of statsmodels gives R-squared 284, F -300 and p 1 for an integer target, where .99, 35,062 and 0 are right
#
# Packages: statsmodels 0.15.0, with frames of pandas 3.1.1, also as they come from polars 2.1.0.
# Documentation: regression/linear_model.py: uncentered_tss is the sum of squares of the (whitened) endogenous
#   variable, and R-squared of a model without constant is 1 - ssr / uncentered_tss. endog is array-like; no dtype is
#   named. The summary marks such a model with "(uncentered)".
# Seen: the squares are taken in the dtype of the target. Prices of flats by their area, through the origin, as whole
#   numbers of 50,000 to 600,000 in int32: R-squared is 284, the adjusted one 285, F is -300 with p = 1. Coefficient,
#   standard error, t (187) and ssr are right, and the same numbers as int64 or float64 give .9915 and F = 35,062.
#   Squares overflow from 46,341 on in int32, 182 in int16 and 12 in int8: R-squared is 1.0014 for .99999992 of one
#   int16 column, and -5,878 for .66 of percentages in int8. Nullable and Arrow columns of pandas (Int32,
#   int32[pyarrow]) are converted to int32 and go the same way. A target of True and False gives -23. With a constant
#   the mean is subtracted first, and all is right; so it is with WLS and a formula, which make floats. No warning.
# Do instead: sm.OLS(y.astype(float), X), or a formula.
# linspec: converts targets to floats, and gives the same r_squared (about the mean) for all of these dtypes.
# Why it matters: Parquet, Arrow and databases hand over int32 and int16 columns. Fixed ratios and calibrations without
#   intercept are judged by R-squared and F, and a value that is wrong but between 0 and 1 is just as possible.
# Upstream: statsmodels issue 3919 (closed) is the same overflow in count models. No report for OLS was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 \
    pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import pandas as pd
import polars as pl
import statsmodels
import statsmodels.api as sm
import statsmodels.formula.api as smf

print("statsmodels", statsmodels.__version__, "pandas", pd.__version__, "polars", pl.__version__, "numpy",
      np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
n = 300
area = rng.uniform(20, 200, n)
price = (2500 * area * np.exp(rng.normal(0, 0.1, n))).round()
frame = pl.DataFrame({"area": area, "price": price}).cast({"price": pl.Int32}).to_pandas()
print("dtypes of the frame", {name: str(dtype) for name, dtype in frame.dtypes.items()}, f"prices {price.min():.0f} to "
      f"{price.max():.0f}")
results = {
    "int32": sm.OLS(frame["price"], frame["area"]).fit(),
    "Int32": sm.OLS(frame["price"].astype("Int32"), frame["area"]).fit(),
    "int32[pyarrow]": sm.OLS(frame["price"].astype("int32[pyarrow]"), frame["area"]).fit(),
    "int64": sm.OLS(frame["price"].astype("int64"), frame["area"]).fit(),
    "float64": sm.OLS(frame["price"].astype(float), frame["area"]).fit(),
    "int32, WLS": sm.WLS(frame["price"], frame["area"]).fit(),
    "int32, formula": smf.ols("price ~ area - 1", frame).fit(),
}
for name, result in results.items():
    print(f"{name:15s} R-squared {result.rsquared:9.4f}, F {result.fvalue:10.1f}, p {result.f_pvalue:.3g}, "
          f"sum of squares {result.uncentered_tss:.6g}, "
          f"coefficient {result.params.iloc[0]:.2f}, t {result.tvalues.iloc[0]:.1f}")
others = {"int16": (area * 10).astype(np.int16), "int8": rng.integers(0, 100, n).astype(np.int8), "bool": area > 100}
others = {name: (sm.OLS(y, area).fit().rsquared, sm.OLS(y.astype(float), area).fit().rsquared)
          for name, y in others.items()}
for name, (got, right) in others.items():
    print(f"{name:15s} R-squared {got:.8f} for {right:.8f}")
with_constant = [sm.OLS(y, sm.add_constant(area)).fit().rsquared for y in (price.astype(np.int32), price)]
print("with a constant", with_constant)

right = results["float64"]
checks = {
    "R-squared of int32 is above 100, F negative and p 1": all(
        results[name].rsquared > 100 and results[name].fvalue < 0 and results[name].f_pvalue > 0.99
        for name in ("int32", "Int32", "int32[pyarrow]")),
    "coefficients and t are right": all(
        np.allclose(result.params, right.params) and np.allclose(result.tvalues, right.tvalues)
        for result in results.values()),
    "int64, WLS and a formula are right": all(
        abs(results[name].rsquared - right.rsquared) < 1e-9 for name in ("int64", "int32, WLS", "int32, formula")),
    "int16 is above 1, int8 and bool are negative": others["int16"][0] > 1 and others["int8"][0] < 0
    and others["bool"][0] < 0,
    "with a constant it is right": abs(with_constant[0] - with_constant[1]) < 1e-9,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: R-squared of integers no longer behaves as described")
EOF
