#!/usr/bin/env bash
# DuckDB's "where not isnan(x)" keeps the NaN rows of Parquet files by PyArrow or polars, and isnan(x) finds none
#
# Packages: duckdb 2.0.1, with files of pyarrow 26.0.1 and polars 2.1.0.
# Documentation: isnan(x) is true for NaN; in comparisons DuckDB takes NaN as greater than all other numbers. The
#   specification of Parquet keeps NaN out of the smallest and largest value that a row group states, and says that
#   these do not count where NaN is looked for.
# Seen: 100,000 rows, 5,071 of them with NaN in x; the others are between 0 and 10. The optimizer takes the stated range
#   for the range of all rows, and conditions that hold on all of it are dropped from the query. "not isnan(x)", "x <=
#   20" and "x between 0 and 20" return all 100,000 rows, so the mean, regr_slope and corr are NaN. isnan(x) and "x >
#   20" return none, though NaN counts as greater; a count of isnan(x) is 0, so a check of the data sees nothing. "x >
#   5" of rows sorted by x has 52,439 rows in one row group and 49,906 in groups of 1,000, of the same rows: what is
#   selected depends on how the file is cut. Right are the same queries of a table of DuckDB, of a file without
#   statistics, and of one that DuckDB wrote.
# Do instead: isfinite(x), which is not dropped; or write NaN as null (pandas' to_parquet does), and ask "is not null";
#   or "pragma disable_optimizer".
# Why it matters: the rows of a regression are selected so. NaN rows that were excluded by name come back, or rows that
#   are there in one copy of the data lack in another, and X and y taken by two queries no longer fit.
# linspec: reads Parquet without filters, and refuses NaN with row and column.
# Upstream: duckdb issue 25521 (open); pull request 16962 was to mend it.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0 \
    numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

print("duckdb", duckdb.__version__, "pyarrow", pa.__version__, "polars", pl.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 100_000))
y = 2 * x + rng.standard_normal(len(x))
x[rng.permutation(len(x))[:5071]] = np.nan
table = pa.table({"x": x, "y": y})
pq.write_table(table, "pyarrow.parquet")
pq.write_table(table, "groups.parquet", row_group_size=1000)
pq.write_table(table, "plain.parquet", write_statistics=False)
pl.from_arrow(table).write_parquet("polars.parquet")
connection = duckdb.connect()
connection.execute("create table held as select * from 'plain.parquet'")
connection.execute("copy held to 'duckdb.parquet' (format parquet)")
sources = {"held": "held", **{name: f"'{name}.parquet'" for name in ("plain", "duckdb", "pyarrow", "polars", "groups")}}


def asked(what, source, condition):
    return connection.execute(f"select {what} from {source} where {condition}").fetchall()[0]


finite = np.isfinite(x)
print("rows", len(x), "finite", finite.sum(), "NaN", (~finite).sum(), "slope of the finite ones",
      round(np.polyfit(x[finite], y[finite], 1)[0], 4))
seen = {}
for condition in ("not isnan(x)", "isnan(x)", "x <= 20", "x between 0 and 20", "x > 20", "x > 5", "isfinite(x)"):
    seen[condition] = {name: asked("count(*)", source, condition)[0] for name, source in sources.items()}
    print(f"{condition:20s}", seen[condition])
slopes = {name: asked("regr_slope(y, x)", source, "not isnan(x)")[0] for name, source in sources.items()}
print("slopes, not isnan(x)", slopes)

good, bad = ("held", "plain", "duckdb"), ("pyarrow", "polars")
same = [rows[name] == rows["held"] for rows in seen.values() for name in good]
checks = {
    "right in a table, and in files without a stated range": all(same) and seen["isnan(x)"]["held"] == (~finite).sum(),
    "not isnan(x) keeps all NaN rows": all(seen["not isnan(x)"][name] == len(x) for name in bad),
    "isnan(x) finds none of them": all(seen["isnan(x)"][name] == 0 for name in bad),
    "x <= 20 keeps them, x > 20 does not": all(
        seen["x <= 20"][name] == len(x) and seen["x > 20"][name] == 0 for name in bad),
    "x > 5 depends on the row groups": seen["x > 5"]["groups"] < seen["x > 5"]["pyarrow"],
    "isfinite(x) is right": set(seen["isfinite(x)"].values()) == {finite.sum()},
    "the slope is NaN": all(np.isnan(slopes[name]) for name in bad)
    and all(abs(slopes[name] - 2) < 0.02 for name in good),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: DuckDB no longer reads NaN as described")
EOF
