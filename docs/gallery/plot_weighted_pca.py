"""
Weights count rows: a sample with wrong proportions gives the components of the population
==========================================================================================

A survey has asked two groups of people, one of them ten times too rarely. The components of the sample are
those of the other group. The weight of a row says how many people it represents. With weights the components
are those of the population, up to sampling error, and exactly those of a table in which each row is repeated
accordingly.
"""

import matplotlib.pyplot as plt
import numpy as np

import linspec as ls

rng = np.random.default_rng(0)
shapes = (np.array([[2.0, 0.0], [0.0, 0.4]]), np.array([[0.4, 0.0], [0.0, 3.0]]))
people = [rng.standard_normal((n, 2)) @ shape for n, shape in zip((10_000, 10_000), shapes, strict=True)]
asked = np.vstack([people[0][:1000], people[1][:100]])
stands_for = np.repeat([10, 100], [1000, 100])

everybody = ls.solve(ls.SVD(np.vstack(people), k=1, center=True))
plain = ls.solve(ls.SVD(asked, k=1, center=True))
weighted = ls.solve(ls.SVD(asked, k=1, center=True, sample_weight=stands_for))
repeated = np.cov(np.repeat(asked, stands_for, axis=0), rowvar=False)

figure, panel = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
panel.scatter(
    *asked.T, s=2 * stands_for**0.5, alpha=0.3, linewidths=0, color="#555555", label="rows, by weight"
)
arrows = (
    ("sample", plain, "#D55E00"),
    ("weighted", weighted, "#0072B2"),
    ("population", everybody, "#009E73"),
)
for (name, found, colour), length in zip(arrows, (4, 4, 6), strict=True):
    x, y = length * found.Vh[0] * np.sign(found.Vh[0].sum())
    panel.plot([-x, x], [-y, y], color=colour, linewidth=2.5, label=name, zorder=3 if length == 4 else 2)
panel.set(aspect="equal", xlabel="first answer", ylabel="second answer", xlim=(-7, 7), ylim=(-7, 7))
panel.legend(loc="upper left")
panel.set_title("With weights the component is that of the population")
plt.show()

assert abs(weighted.Vh[0] @ everybody.Vh[0]) > 0.99
assert abs(plain.Vh[0] @ everybody.Vh[0]) < 0.2
values, vectors = np.linalg.eigh(repeated)
assert np.isclose(weighted.explained_variance[0], values[-1])
assert np.isclose(abs(weighted.Vh[0] @ vectors[:, -1]), 1)
