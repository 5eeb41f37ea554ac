"""
Kernel CCA draws the curve that relates two views, and preimages name its columns
=================================================================================

One column of Y is the square of one column of X plus noise. Linear weights do not find this, since x and x² are
uncorrelated. Kernel CCA finds correlated functions of the two columns, and they are the planted ones: a
parabola in x and a line in y.

If the two columns are hidden among thirty others, functions of all columns fit noise. ``PreimageCCA`` uses
kernel functions of single points, with a bound on their entries. Each point then has one large entry: that of
the planted column.
"""

import matplotlib.pyplot as plt
import numpy as np

import linspec as ls

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((2, 1500, 16))
Y[:, 11] = X[:, 4] ** 2 + 0.5 * Y[:, 11]
Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)  # one scale for all columns
train, test = slice(0, 1000), slice(1000, 1500)
x, y = X[:, [4]], Y[:, [11]]

# %%
# The curve
# ---------

linear = ls.solve(ls.CCA(x[train], y[train], k=1, ridge=1.0))
curves = ls.solve(ls.KernelCCA(x[train], y[train], k=1, ridge=1.0), rng=0)
of_lines = linear.score(x[test], y[test]).total
of_curves = curves.score(x[test], y[test]).total
best = np.corrcoef(x[test, 0] ** 2, y[test, 0])[0, 1]  # with the planted function itself

grid = np.linspace(-2.5, 2.5, 200)
f = curves.transform(grid[:, None])[:, 0]
slope, offset = np.polyfit(grid**2, f, 1)  # f has a sign and a scale of its own
f = (f - offset) / slope
straight = np.corrcoef(f, grid**2)[0, 1]

figure, panel = plt.subplots(figsize=(5.6, 4), layout="constrained")
panel.plot(grid, grid**2, color="#D55E00", linewidth=5, alpha=0.4, label="planted: x²")
panel.plot(grid, f, color="#0072B2", label="f, found by kernel CCA")
panel.scatter(x[test, 0], 0 * x[test, 0] - 0.3, marker="|", color="#555555", alpha=0.3, label="new rows")
panel.set(xlabel="x", ylabel="f(x), scaled", xlim=(-2.6, 2.6), ylim=(-0.5, 7))
panel.legend()
panel.set_title(
    f"Correlation of new rows: {of_curves:.3f} by curves,\n{of_lines:.3f} by lines, {best:.3f} by the planted parabola"
)

assert straight > 0.99
assert abs(of_curves - best) < 0.05
assert of_lines < 0.2

# %%
# The columns
# -----------

square = ls.kernels.polynomial(2, 0.0)
all_columns = ls.solve(ls.KernelCCA(X[train], Y[train], k=1, ridge=1.0), rng=0)
line = ls.kernels.linear()
sparse = ls.PreimageCCA(
    X[train], Y[train], k=1, kernel_x=square, kernel_y=line, bound_x=("ratio", 1.2), bound_y=("ratio", 1.2)
)
points = ls.solve(sparse, rng=0)
reached = [found.score(X[test], Y[test]).correlations[0] for found in (all_columns, points)]

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for panel, point, planted, view in zip(
    axes, (points.x_preimages, points.y_preimages), (4, 11), "XY", strict=True
):
    entries = np.abs(point[:, 0])
    panel.bar(range(16), entries, color=["#D55E00" if i == planted else "#0072B2" for i in range(16)])
    panel.set(xlabel=f"column of {view}", ylabel="entry of the point", xticks=range(0, 16, 2))
    panel.set_title(f"{view}: column {entries.argmax()}, as planted")
figure.suptitle(
    f"Correlation of new rows: {reached[1]:.2f} by points, {reached[0]:.2f} by functions of all columns"
)
plt.show()

x_columns, y_columns = points.supports(0.2)
assert list(np.flatnonzero(x_columns)) == [4]
assert list(np.flatnonzero(y_columns)) == [11]
assert reached[1] > reached[0]
