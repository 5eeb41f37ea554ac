#!/usr/bin/env bash
# Installing bottleneck changes the standard deviation that pandas gives: 11.4 for 8.0 of five million float32 numbers
#
# Packages: pandas 3.1.1 with bottleneck 1.6.0, with and without it in the same environment.
# Documentation: getting_started/install.rst of pandas recommends bottleneck, part of pandas[performance], as faster
#   with large data. DataFrame.std and var say nothing of it. nanops.py leaves it out of mean and sum, as too inexact.
# Seen: std, var and describe still use it. It adds float32 up in float32, one after the other, and takes deviations
#   from the mean that comes out. With a mean of 300 the sum stops growing near 5 million rows, and is inexact long
#   before. Temperatures in kelvin (288 +- 8): .06 % off at 2 million rows, 42 % at 5 million. Numbers of 300 +- 1: 9 %
#   off at a million, 8.4 for 1.0 at 5 million, so that (x - mean) / std has a deviation of .12. One column and a frame
#   agree. mean, cov and groupby(...).std do not use it and are right, so var() is not the diagonal of cov(). No
#   warning. import pandas finds the package by itself, and any other package may have brought it along.
# Do instead: pandas.set_option("compute.use_bottleneck", False), or astype(float) before std and var.
# linspec: has its own sums over rows, in float64, and is right with and without bottleneck.
# Why it matters: standardizing is the step before PCA, ridge and lasso. Each column is off by its own factor, which
#   depends on its mean and on the number of rows, and the same script gives other components on another machine.
# Upstream: bottleneck issues 443 and 462 (open), pandas issue 57505 (closed as not its own). mean was mended in pandas
#   by pull request 47716.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pandas==3.1.1 numpy==2.4.6
cat > "$folder/seen.py" <<'EOF'
import importlib.metadata
import json
import sys

import numpy as np
import pandas as pd

has = bool([1 for package in importlib.metadata.distributions() if package.name.lower() == "bottleneck"])
print("pandas", pd.__version__, "numpy", np.__version__, "bottleneck",
      importlib.metadata.version("bottleneck") if has else "is not installed", "(all warnings are errors here)")
rng = np.random.default_rng(0)
seen = {}
for mean, deviation, n in ((288, 8, 2_000_000), (288, 8, 5_000_000), (300, 1, 1_000_000), (300, 1, 5_000_000)):
    frame = pd.DataFrame({"x": rng.normal(mean, deviation, n).astype(np.float32)})
    x = frame["x"]
    exact = x.to_numpy(float).std(ddof=1)
    scaled = ((x - x.mean()) / x.std()).to_numpy(float).std(ddof=1)
    ratios = {"std": x.std() / exact, "std of the frame": frame.std().iloc[0] / exact,
              "describe": x.describe()["std"] / exact, "cov": np.sqrt(frame.cov().iloc[0, 0]) / exact,
              "groupby": frame.groupby(np.zeros(n, int))["x"].std().iloc[0] / exact, "scaled": scaled}
    seen[f"{mean} +- {deviation}, {n:,}"] = {name: float(ratio) for name, ratio in ratios.items()}
    print(f"{mean} +- {deviation}, {n:,} rows: std {x.std():.4f} for {exact:.4f}; over the right one:",
          ", ".join(f"{name} {ratio:.4f}" for name, ratio in ratios.items()), f"; mean {x.mean():.3f}")
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
EOF
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
"$folder/venv/bin/python" -W error "$folder/seen.py" "$folder/without.json"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check bottleneck==1.6.0 numpy==2.4.6
"$folder/venv/bin/python" -W error "$folder/seen.py" "$folder/with.json"
"$folder/venv/bin/python" - "$folder" <<'EOF'
import json
import sys

without, having = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("without", "with"))
kelvin, narrow, million = "288 +- 8, 5,000,000", "300 +- 1, 5,000,000", "300 +- 1, 1,000,000"
checks = {
    "without bottleneck all are right": all(
        abs(ratio - 1) < 1e-4 for ratios in without.values() for ratio in ratios.values()),
    "with it temperatures are off by more than a third": having[kelvin]["std"] > 1.33,
    "300 +- 1: more than 5 % off at a million rows, five times at five million":
        having[million]["std"] > 1.05 and having[narrow]["std"] > 5,
    "a frame and describe have the same": all(
        abs(ratios[name] / ratios["std"] - 1) < 1e-3 for ratios in having.values()
        for name in ("std of the frame", "describe")),
    "columns that were scaled are not": having[narrow]["scaled"] < 0.2,
    "cov and groupby are right": all(
        abs(ratios[name] - 1) < 1e-4 for ratios in having.values() for name in ("cov", "groupby")),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: pandas with bottleneck no longer behaves as described")
EOF
