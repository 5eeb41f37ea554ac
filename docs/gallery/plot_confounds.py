"""
Age and sex hide a relation between two views, and partial correlations find it
===============================================================================

Two views of 2000 people both depend on age and sex, strongly. Beyond that they share one weak signal, in known
columns. Ordinary canonical correlations find the confounds: the correlations are large, and the weights have
nothing to do with the signal. ``confounds=`` removes the linear effect of age and sex from every column,
without a copy of the data. Then the first pair is the planted signal.

The correlation in the population is known: without the confounds both columns are 0.8 times the signal plus 0.6 times
noise, so it is 0.64. The residuals of ordinary regressions with NumPy have the same correlation as linspec returns.
"""

import matplotlib.pyplot as plt
import numpy as np

import linspec as ls

rng = np.random.default_rng(0)
n = 2000
age, sex = rng.uniform(20, 80, n), rng.integers(0, 2, n)
confounds = np.column_stack([age, sex])
signal = rng.standard_normal(n)
X, Y = rng.standard_normal((n, 8)), rng.standard_normal((n, 6))
X[:, 3] = 0.8 * signal + 0.6 * X[:, 3]  # variance 1
Y[:, 2] = 0.8 * signal + 0.6 * Y[:, 2]
X += confounds @ rng.standard_normal((2, 8)) * [0.1]
Y += confounds @ rng.standard_normal((2, 6)) * [0.1]

plain = ls.solve(ls.CCA(X, Y, k=1))
partial = ls.solve(ls.CCA(X, Y, k=1, confounds=confounds))

figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", width_ratios=(1, 1.2))
of_plain = plain.transform(X, Y)
of_partial = partial.transform(X, Y, confounds=confounds)
told = ("Plain: the pair is age", "Partial: age has nothing to do with it")
for row, (P, Q), found, words in zip(axes, (of_plain, of_partial), (plain, partial), told, strict=True):
    dots = row[0].scatter(P[:, 0], Q[:, 0], c=age, s=6, cmap="viridis", linewidths=0)
    row[0].set(xlabel="variate of X", ylabel="variate of Y")
    row[0].set_title(f"{words} (correlation {found.correlations[0]:.2f})")
    figure.colorbar(dots, ax=row[0], label="age")
    ls.plots.loadings(
        np.concatenate(
            [weights[:, 0] / np.linalg.norm(weights) for weights in (found.x_weights, found.y_weights)]
        ),
        names=[f"X{i}" for i in range(8)] + [f"Y{i}" for i in range(6)],
        label="weight, of length 1 in each view",
        ax=row[1],
    )
axes[0, 1].set_title("Plain: many columns")
axes[1, 1].set_title("Partial: the planted columns, X3 and Y2")
plt.show()

with_mean = np.column_stack([np.ones(n), confounds])
X_left, Y_left = (Z - with_mean @ np.linalg.lstsq(with_mean, Z)[0] for Z in (X, Y))
P, Q = X_left @ partial.x_weights, Y_left @ partial.y_weights
assert np.isclose(np.corrcoef(P[:, 0], Q[:, 0])[0, 1], partial.correlations[0])
standard_error = (1 - 0.64**2) / np.sqrt(n)
assert abs(partial.correlations[0] - 0.64) < 4 * standard_error
for weights, planted in ((partial.x_weights, 3), (partial.y_weights, 2)):
    assert abs(weights[planted, 0]) > 0.99 * np.linalg.norm(weights)
assert abs(plain.x_weights[3, 0]) < 0.5 * np.linalg.norm(plain.x_weights)
assert abs(np.corrcoef(of_plain[0][:, 0], age)[0, 1]) > 0.9
