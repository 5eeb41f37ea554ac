"""
One pass scores every ridge on every fold; a simpler model is as good as the best
=================================================================================

The data are the progress of diabetes after a year, and ten measurements of 442 patients, with their squares and
products: 65 columns that are strongly correlated, so that a ridge helps. ``ls.cross_validate`` fits 25 ridges
on each of ten training sets from one reading of the data. The scores are the same as those of scikit-learn,
which solves 250 regressions.

The scores of neighbouring ridges hardly differ. The one-standard-error rule
takes the largest ridge whose score is within one standard error of the best: a simpler model that is not measurably
worse.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import linspec as ls

data = load_diabetes()
squares = PolynomialFeatures(2, include_bias=False)
A = StandardScaler().fit_transform(squares.fit_transform(data.data))
y = data.target
ridges = np.geomspace(1, 1e5, 25)
folds = KFold(10, shuffle=True, random_state=0)

problem = ls.LeastSquares(A, y, center=True)  # center: with an intercept
found = ls.cross_validate(problem, ridges=ridges, splitter=folds, form="dense")  # Gram matrices: one pass
path = ls.solve(ls.LeastSquares(A, y, ridges, center=True))

# %%
# The largest coefficients along the path, and the scores on held-out rows.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
ls.plots.ridge_path(path, names=squares.get_feature_names_out(data.feature_names), ax=left)
left.set_title("Coefficients shrink as the ridge grows")
ls.plots.cross_validation(found, ax=right)
simple = found.one_standard_error.ridge
right.set_title(f"A ridge of {simple:.0f} is as good as the best, {found.best.ridge:.0f}", pad=20)
plt.show()

peer = [-cross_val_score(Ridge(r), A, y, cv=folds, scoring="neg_mean_squared_error").mean() for r in ridges]
assert np.allclose(found.mean[:, 0], peer, rtol=1e-8)
assert found.passes == 1
assert simple > found.best.ridge

lengths = np.linalg.norm(path.x, axis=1)  # a theorem: the coefficients get shorter as the ridge grows
assert (np.diff(lengths) < 0).all()
