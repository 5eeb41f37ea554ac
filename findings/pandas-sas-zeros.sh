#!/usr/bin/env bash
# pandas.read_sas reads zeros of SAS transport files (.xpt) as 5.4e-79: positive, and -180 as a logarithm
#
# Packages: pandas 2.3.3 and 3.1.1; files written by pyreadstat 1.3.7, which reads them right.
# Documentation: pandas/io/sas/sas_xport.py turns numbers of IBM's floating point into those of IEEE. A zero of the one
#   is all bits zero, as it is of the other.
# Seen: 0 becomes 16 to the power of -65, 5.397605346934028e-79. All other numbers and missing values are right. Of a
#   column with 60 % zeros, all rows are above 0, none is equal to 0, a sparse matrix of it stores all rows, and the
#   logarithm of a zero is -180.5. Regression on the logarithms of what is above zero finds a slope of .00 for .50.
#   Sums, means and a scatter plot show nothing.
# Do instead: column.mask(column.abs() < 1e-70, 0), or pyreadstat.read_xport.
# Why it matters: surveys of public health and of finance are given out in this format, with many zeros: no drinks, no
#   income, no days. "Take those above zero, take logarithms" is the usual first step before a regression or a PCA of
#   such columns.
# linspec: takes frames as they are; these numbers are finite, so nothing is refused or said.
# Upstream: pandas issues 50670 (open) and 30051 (closed).
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 2.3.3 3.1.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check pandas==$version pyreadstat==1.3.7 \
        numpy==2.4.6 scipy==1.17.1
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/$version/bin/python" - <<'EOF'
import sys
import warnings
from importlib.metadata import version

import numpy as np
import pandas as pd
import pyreadstat
import scipy.sparse as sp

print(*(f"{name} {version(name)}" for name in ("pandas", "pyreadstat", "numpy")))
warnings.simplefilter("error")
rng = np.random.default_rng(0)
drinks = np.where(rng.random(5000) < 0.6, 0.0, np.exp(rng.standard_normal(5000)))
health = 0.5 * np.log(drinks, out=np.zeros(5000), where=drinks > 0) + 0.3 * rng.standard_normal(5000)
survey = pd.DataFrame({"drinks": drinks, "health": health})
survey.loc[:9, "health"] = np.nan
pyreadstat.write_xport(survey, "survey.xpt", file_format_version=5)
slopes, seen = {}, {}
for name, frame in {"written": survey, "pyreadstat": pyreadstat.read_xport("survey.xpt")[0],
                    "read_sas": pd.read_sas("survey.xpt")}.items():
    column = frame["drinks"]
    some = frame[(column > 0) & frame["health"].notna()]
    slopes[name] = np.polyfit(np.log(some["drinks"]), some["health"], 1)[0]
    seen[name] = (column == 0).sum(), (column > 0).sum(), sp.csr_array(column.to_numpy()[:, None]).nnz
    print(f"   {name:10s} zeros, positive, stored: {[int(n) for n in seen[name]]}, mean {column.mean():.6f}, smallest "
          f"{column.min()}, slope {slopes[name]:.3f}, missing {frame['health'].isna().sum()}")
read = pd.read_sas("survey.xpt")["drinks"]
print("   values for zero:", set(read[drinks == 0]), "others off by", np.abs(read - drinks)[drinks > 0].max())

checks = {
    "no zero is left, and all rows count as positive": seen["read_sas"] == (0, 5000, 5000),
    "zeros are 16 ** -65": set(read[drinks == 0]) == {16.0 ** -65},
    "pyreadstat has them": seen["pyreadstat"] == seen["written"],
    "the slope is lost": abs(slopes["read_sas"]) < 0.05 and abs(slopes["pyreadstat"] - 0.5) < 0.05,
}
for name, held in checks.items():
    print("   yes" if held else "   NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: pandas.read_sas no longer reads zeros as described")
EOF
done
