#!/usr/bin/env bash
# QuantReg of statsmodels returns a weighted mean regression if the target is in a large unit; at the median plain OLS
#
# Package: statsmodels 0.15.0.
# Documentation: regression/quantile_regression.py: fit solves by iterative weighted least squares; p_tol (1e-6) is the
#   tolerance of the estimates, and no unit is named. Quantile regression multiplies its coefficients by c if the
#   target is multiplied by c, and about a share q of the rows lies below the fit.
# Seen: Engel's data of food expenditure and income, which come with statsmodels. The same rows with the expenditure in
#   thousands, millions and thousand millions. The change of the parameters is compared with 1e-6 as it is, and
#   residuals below 1e-6 are set to 1e-6. Both are parts of the unit of the target. In millions, the line of the lowest
#   tenth has 21 % of the rows below it, in thousand millions 31 %, and that of the highest tenth 73 %. There the
#   median line is the line of OLS, to all digits, slope .485 for .560; at .1 and .9 it is least squares with a weight
#   of 1 / q below the line of OLS and 1 / (1 - q) above. Standard errors, intervals and pseudo R-squared follow, and
#   look as usual. No warning.
# Do instead: divide the target by its standard deviation and multiply the parameters by it. A smaller p_tol does not
#   help: the bound on the residuals cannot be changed. Look at the share of rows below the fit.
# Why it matters: quantile regression is chosen because outliers spoil least squares, and here it is least squares.
#   Volts of an EEG (1e-5), currents (1e-9), returns of short periods (1e-5) and concentrations are of such sizes.
# linspec: it has no quantile regression. All its solvers of least squares and their standard errors are the same for
#   targets of 1e-30, 1e-13, 1 and 1e30, to 1e-7 or better.
# Upstream: statsmodels issue 3774 (open) notes that the rule of convergence is hard coded; no report of units was
#   found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1 \
    pandas==3.1.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import statsmodels
import statsmodels.api as sm

print("statsmodels", statsmodels.__version__, "numpy", np.__version__, "(all warnings are errors here)")
engel = sm.datasets.engel.load_pandas().data
income, food = sm.add_constant(engel.income.to_numpy()), engel.foodexp.to_numpy()
of_ols = np.linalg.lstsq(income, food)[0]
print(f"OLS: {of_ols.round(4)}")


def of_squares(q):
    """Least squares with weights 1 / q below the line of OLS and 1 / (1 - q) above it."""
    weights = np.sqrt(np.where(food < income @ of_ols, 1 / q, 1 / (1 - q)))
    return np.linalg.lstsq(income * weights[:, None], food * weights)[0]


def loss(line, q):
    residuals = food - income @ line
    return np.mean(np.where(residuals < 0, (q - 1) * residuals, q * residuals))


share, lines, losses = {}, {}, {}
for q in (0.1, 0.5, 0.9):
    for unit in (1.0, 1e-3, 1e-6, 1e-9):
        for p_tol in (1e-6 * unit, 1e-6):
            result = sm.QuantReg(food * unit, income).fit(q=q, p_tol=p_tol)
            key = q, unit, p_tol == 1e-6
            lines[key] = result.params / unit
            share[key] = np.mean(food < income @ lines[key])
            losses[key] = loss(lines[key], q)
            if p_tol == 1e-6:
                print(f"q {q}, units of {unit:.0e}: line {lines[key].round(4)}, standard errors "
                      f"{(result.bse / unit).round(4)}, loss {losses[key]:.2f}, rows below {share[key]:.3f}, "
                      f"steps {result.iterations}")

checks = {
    "in the unit of the data the shares below are right to .01": all(abs(share[q, 1.0, True] - q) < 0.01
                                                                     for q in (0.1, 0.5, 0.9)),
    "in millions a fifth of the rows lies below the line of a tenth": share[0.1, 1e-6, True] > 0.19,
    "in thousand millions .3 for .1 and .73 for .9": share[0.1, 1e-9, True] > 0.28 and share[0.9, 1e-9, True] < 0.75,
    "there the others are least squares with two weights": all(
        np.allclose(lines[q, 1e-9, True], of_squares(q), rtol=1e-8) for q in (0.1, 0.9)),
    "there the median line is that of OLS": np.allclose(lines[0.5, 1e-9, True], of_ols, rtol=1e-8),
    "the loss is larger by 3 % or more at every q": all(losses[q, 1e-9, True] > 1.03 * losses[q, 1.0, True]
                                                       for q in (0.1, 0.5, 0.9)),
    "a smaller p_tol does not mend it": abs(share[0.1, 1e-9, False] - 0.1) > 0.1,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: QuantReg no longer behaves as described")
EOF
