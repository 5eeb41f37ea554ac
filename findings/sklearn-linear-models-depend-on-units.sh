#!/usr/bin/env bash
# Seven linear models of scikit-learn fit nothing, or another line, if the target is in another unit
#
# Package: scikit-learn 1.9.1.
# Documentation: sklearn/linear_model/_bayes.py: threshold_lambda (10,000) is the "threshold for removing (pruning)
#   weights with high precision"; alpha_1 to lambda_2 (1e-6) are parameters of priors. _theil_sen.py, _ridge.py: tol
#   (1e-3 and 1e-4) is that of the spatial median and the precision of the solution. That any of these is a number in
#   the units of the data is not said, nor that the target is to be standardized. LARS names only eps, a machine
#   precision for its factors.
# Seen: the diabetes data that come with scikit-learn, columns of deviation 1, target of deviation 77. Coefficients of
#   all these models are multiplied by c if the target is. In millions (77e-6) ARDRegression has no coefficient left,
#   R-squared 0 for .51. TheilSenRegressor stops at its first step from the mean of the subsamples to their median: 134
#   for 11, R-squared .42 for .51. Ridge(positive=True) stops early: 4.4 for 0, R-squared .40 for .48. BayesianRidge is
#   no ridge any more: -37.3 for -8.7, where least squares has -37.7. In thousand millions (77e-9)
#   Ridge(positive=True), LassoLarsIC, LassoLarsCV and Lars have only zeros. With numbers of 77e6 BayesianRidge and
#   ARDRegression have 1e-13 of their coefficients, R-squared 0. In thousands ARDRegression selects other columns. No
#   warning. Ridge, RidgeCV, LassoCV, LinearRegression(positive=True) and OrthogonalMatchingPursuit are the same in all
#   units.
# Do instead: divide the target by its standard deviation, and the columns, too, then multiply the coefficients;
#   TransformedTargetRegressor with StandardScaler does it.
# Why it matters: least squares does not know units, so a user does not think of them. Volts (1e-6), tesla (1e-13),
#   moles per litre, euros and populations are such targets, and a pipeline that standardizes the columns leaves them.
# linspec: has none of these models. Least squares and ridge by nine solvers, and their standard errors, agree to 1e-7
#   or better for targets of 1e-30, 1e-13, 1 and 1e30.
# Upstream: scikit-learn pull request 30951 (open) says that the pruning of ARDRegression depends on the scale of the
#   columns. No report of the others was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import (ARDRegression, BayesianRidge, Lars, LassoCV, LassoLarsCV, LassoLarsIC,
                                  LinearRegression, OrthogonalMatchingPursuit, Ridge, RidgeCV, TheilSenRegressor)

print("scikit-learn", sklearn.__version__, "numpy", np.__version__, "(all warnings are errors here)")
X, y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
units = (1.0, 1e-3, 1e-6, 1e-9, 1e6)
models = {
    "Ridge": Ridge(),
    "RidgeCV": RidgeCV(),
    "LassoCV": LassoCV(),
    "LinearRegression(positive)": LinearRegression(positive=True),
    "OrthogonalMatchingPursuit": OrthogonalMatchingPursuit(n_nonzero_coefs=3),
    "ARDRegression": ARDRegression(),
    "BayesianRidge": BayesianRidge(),
    "TheilSenRegressor": TheilSenRegressor(random_state=0),
    "Ridge(positive)": Ridge(positive=True),
    "LassoLarsIC": LassoLarsIC(),
    "LassoLarsCV": LassoLarsCV(),
    "Lars": Lars(n_nonzero_coefs=3),
}
score, size, off = {}, {}, {}
for name, model in models.items():
    right = model.fit(X, y).coef_.copy()
    for unit in units:
        coefficients = model.fit(X, unit * y).coef_ / unit
        score[name, unit] = model.score(X, unit * y)
        size[name, unit] = np.abs(coefficients).max() / np.abs(right).max()
        off[name, unit] = np.abs(coefficients - right).max() / np.abs(right).max()
        if name not in list(models)[:5] and unit in (1.0, 1e-6, 1e-9, 1e6):
            print(f"{name:18s} target of {77 * unit:.0e}: R-squared {score[name, unit]:6.3f}, coefficients "
                  f"{coefficients.round(1) + 0.0}")
    print(f"{name:26s} off by, over the largest coefficient: "
          + ", ".join(f"{77 * unit:.0e} {off[name, unit]:.1e}" for unit in units))

least = LinearRegression().fit(X, y).coef_
print("least squares", least.round(1))
checks = {
    "Ridge, RidgeCV, LassoCV, LinearRegression and matching pursuit are the same in all units": all(
        off[name, unit] < 1e-6 for name in list(models)[:5] for unit in units),
    "77e-6: ARDRegression has no coefficient": size["ARDRegression", 1e-6] == 0,
    "77e-6: TheilSenRegressor is off by more than twice its largest coefficient": off["TheilSenRegressor", 1e-6] > 2,
    "77e-6: Ridge(positive) is off by a third": off["Ridge(positive)", 1e-6] > 1 / 3,
    "77e-6: BayesianRidge is within 2 % of least squares, and was not": all(
        (np.abs(bayesian - least).max() < 0.02 * np.abs(least).max()) == small for bayesian, small in (
            (BayesianRidge().fit(X, 1e-6 * y).coef_ * 1e6, True), (BayesianRidge().fit(X, y).coef_, False))),
    "77e-9: Ridge(positive) and the three by LARS have only zeros": all(
        size[name, 1e-9] == 0 for name in ("Ridge(positive)", "LassoLarsIC", "LassoLarsCV", "Lars")),
    "77e6: BayesianRidge and ARDRegression return next to nothing": all(
        size[name, 1e6] < 1e-6 for name in ("BayesianRidge", "ARDRegression")),
    "R-squared is 0 where there is nothing": all(
        abs(score[name, unit]) < 1e-6 for name, unit in (("ARDRegression", 1e-6), ("LassoLarsCV", 1e-9),
                                                         ("BayesianRidge", 1e6))),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: these models no longer depend on units as described")
EOF
