#!/usr/bin/env bash
# groupby().var(), std(), cov() and corr() of dask lose all digits where a mean is large: variances of 0 and 126 for 1
#
# Package: dask 2026.8.0 with pandas 3.1.1.
# Documentation: the docstrings of these methods are those of pandas, taken over. Of accuracy nothing is said, and var()
#   and corr() of a whole dask frame are right to many digits.
# Seen: sums of squares about zero are subtracted from each other, in the dtype of the column. The error grows with
#   (mean / deviation) squared. Three groups, variances of 1 and correlations of .7. float64 with a mean of 1e8: a
#   variance is 0 and the others are twice too large, correlations are NaN or 1. With 1e9: variances of 0, 0 and 126,
#   covariances of -136. float32 with a mean of 300 (kelvin, say): off in the third digit; with 10,000: variances of 0
#   and 9.7, a correlation of -1.06. Negative variances are cut off at 0, so var() and std() give no warning. pandas has
#   the right numbers for float64 in all of these.
# Do instead: take float64, and subtract the mean of the whole column first (frame.x - frame.x.mean()).
# Why it matters: variances and covariances within groups scale features, pool covariances of a discriminant analysis,
#   and estimate effects within units. Times, map coordinates and pressures have such means, and a
#   feature divided by a wrong deviation is 11 times too small or infinite.
# linspec: centres before it multiplies. A Discriminant has the same eigenvalues, to 8 digits, with means of 0 and 1e9.
# Upstream: dask issues 5725 (closed) and 6306 (open) report tiny deviations of constant columns, and NaN for them.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "dask[dataframe]==2026.8.0" pandas==3.1.1 \
    numpy==2.4.6
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd

print("dask", dask.__version__, "pandas", pd.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
group = rng.integers(0, 3, 3000)
noise = rng.standard_normal((3000, 2))
x, y = noise[:, 0], noise.sum(axis=1)


def within(frame):
    grouped = frame.groupby("group")
    pairs = grouped[["x", "y"]].corr(), grouped[["x", "y"]].cov()
    tables = [grouped.x.var(), grouped.x.std(), *pairs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        var, std, corr, cov = [t.compute() if hasattr(t, "compute") else t for t in tables]
    if caught:
        print("   warned:", *{str(one.message) for one in caught})
    corr, cov = (table["y"].to_numpy()[::2] for table in (corr, cov))
    return {"var": var.to_numpy(), "std": std.to_numpy(), "corr": corr, "cov": cov}


seen = {}
for mean, dtype in ((0, "f8"), (1e6, "f8"), (1e8, "f8"), (1e9, "f8"), (300, "f4"), (1e4, "f4")):
    frame = pd.DataFrame({"group": group, "x": (mean + x).astype(dtype), "y": (mean + y).astype(dtype)})
    lazy = dd.from_pandas(frame, npartitions=4)
    right = within(frame.astype({"x": "f8", "y": "f8"}))
    lazy_whole = lazy.x.var().compute() if dtype == "f8" else np.nan
    found, centred = within(lazy), within(lazy.assign(x=lazy.x - lazy.x.mean(), y=lazy.y - lazy.y.mean()))
    seen[mean, dtype] = found, right, centred, lazy_whole, frame.x.var()
    print(f"mean {mean:.0e} {dtype}: ", "; ".join(f"{name} {found[name].round(3)} for {right[name].round(3)}"
                                              for name in found), "| centred first", centred["var"].round(3))


def off(place, which=0):
    found, right = seen[place][which], seen[place][1]
    return max(np.abs(found["var"] / right["var"] - 1))


checks = {
    "a mean of 0 is right": off((0, "f8")) < 1e-10,
    "1e8: variances are off by more than 90 %": off((1e8, "f8")) > 0.9,
    "1e9: variances and deviations of 0, and others above 10": (
        [seen[1e9, "f8"][0][name].min() for name in ("var", "std")] == [0, 0]
        and seen[1e9, "f8"][0]["var"].max() > 10),
    "1e9: correlations are NaN": np.isnan(seen[1e9, "f8"][0]["corr"]).all(),
    "float32: off in the third digit at 300, by all at 10,000": off((300, "f4")) > 0.003 and off((1e4, "f4")) > 0.9,
    "var() of the whole column is right": all(abs(s[3] / s[4] - 1) < 1e-6 for p, s in seen.items() if p[1] == "f8"),
    "centred first, it is right": all(off(place, 2) < 1e-3 for place in seen),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: groupby variances of dask no longer behave as described")
EOF
