"""
A certificate bounds the error of each correlation, however early a solver is stopped
=====================================================================================

Four methods compute the canonical correlations of the halves of digits. Each is stopped after 3, 6, 12, 25, 50
and 100 readings of the data. Every answer has a certificate, which is computed from the returned arrays and not
by the solver: for each correlation a distance within which there is an exact one. So you know the error of a
run that you stop early.

The exact correlations are singular values of the whitened cross product, computed by SciPy. By a theorem no
error is larger than its bound. The bounds are also useful: they fall together with the errors.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cholesky, solve_triangular, svdvals
from sklearn.datasets import load_digits

import linspec as ls

images = load_digits().images
X, Y = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
ridge = 100.0
problem = ls.CCA(X, Y, k=4, ridge=ridge)

U, V = X - X.mean(axis=0), Y - Y.mean(axis=0)
factors = [cholesky(Z.T @ Z + ridge * np.eye(32), lower=True) for Z in (U, V)]
half = solve_triangular(factors[0], U.T @ V, lower=True)
exact = svdvals(solve_triangular(factors[1], half.T, lower=True))

# %%
# Most of these answers are unfinished: they warn, and their status says why they ended.

names = ["als", "appgrad", "l-cca", "randomized"]
answers, runs = [], {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
    warnings.simplefilter("ignore", ls.errors.AccuracyWarning)
    for name in names:
        for readings in (3, 6, 12, 25, 50, 100):
            try:
                found = ls.solve(problem, name, rng=0, max_passes=readings, form="implicit")
            except ls.errors.BudgetTooSmall:
                continue
            answers += [
                (name, bound, np.abs(exact - rho).min())
                for rho, bound in zip(found.correlations, found.bounds, strict=True)
            ]
            runs[name] = found
print(f"{len(answers)} correlations with bounds")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
ls.plots.convergence(runs, against="passes", ax=left)
left.set_title("One residual formula for all methods")
for name, colour in zip(names, ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=True):
    bounds, errors = np.array([row[1:] for row in answers if row[0] == name]).T
    right.loglog(bounds, np.maximum(errors, 1e-16), "o", markersize=4, color=colour, label=name)
ends = np.array([1e-4, 1.0])
right.loglog(ends, ends, "--", color="#555555", label="error = bound")
right.set(xlabel="bound of the certificate", ylabel="distance to the next exact correlation")
right.legend()
right.set_title("No error is above its bound")
plt.show()

for _, bound, error in answers:
    assert error <= bound + 1e-12
assert len(answers) > 60
