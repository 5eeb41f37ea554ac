"""
Six tests find the two pairs that were planted, and only these
==============================================================

Sample correlations are never zero, even between unrelated views. Two views with six and five columns share two
signals here. There are three ways to distinguish these from chance: correlations of permuted rows
(``ls.null_correlations``), a permutation test of all pairs (``ls.permutation_test``), and the textbook tests
for normal rows, Wilks' Λ and others (``ls.significance``).

A test is correct if its p-values are uniform for unrelated views. 500 pairs of unrelated views show that those
of Wilks' Λ are uniform; the F of Roy's root, which many programs print, is far from it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import kstest

import linspec as ls

rng = np.random.default_rng(0)
shared = rng.standard_normal((300, 2)) * [1.0, 0.6]
X = rng.standard_normal((300, 6))
Y = rng.standard_normal((300, 5))
X[:, :2] += shared
Y[:, :2] += shared

problem = ls.CCA(X, Y)
permuted = ls.permutation_test(problem, permutations=999, rng=0)
table = ls.significance(problem, permutation=permuted)
null = ls.null_correlations(problem, permutations=200, rng=0)
print(table)

# %%
# Beside chance
# -------------

tests = {
    "permutations": permuted.uncorrected,
    "Wilks, Rao's F": table.wilks.p_values,
    "Wilks, Bartlett": table.bartlett.p_values,
    "Pillai": table.pillai.p_values,
    "Hotelling-Lawley": table.hotelling_lawley.p_values,
    "Roy, Tracy-Widom": table.tracy_widom.p_values,
}
steps = np.arange(1, 6)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ls.plots.scree(permuted, null=null, ax=left)
left.set_title("Two pairs are beyond chance")
for offset, (name, p) in zip(np.linspace(-0.25, 0.25, 6), tests.items(), strict=True):
    right.semilogy(steps + offset, p, "o", label=name)
right.axhline(0.05, color="#555555", linestyle="--")
right.annotate("0.05", (5.4, 0.05), va="bottom", ha="right", color="#555555")
right.set(xlabel="hypothesis: this correlation and all later ones are zero", ylabel="p-value", xticks=steps)
right.legend(loc="lower right")
right.set_title("Six tests reject the first two hypotheses")

for p in tests.values():
    assert (p[:2] < 0.05).all()
    assert p[2] > 0.05
assert permuted.components() == table.components() == 2

# Wilks' Λ from its definition: the determinant of all columns over those of the views.
R = np.corrcoef(X, Y, rowvar=False)
by_definition = np.linalg.det(R) / np.linalg.det(R[:6, :6]) / np.linalg.det(R[6:, 6:])
assert np.isclose(table.wilks.values[0], by_definition)

# %%
# Unrelated views
# ---------------

of_wilks, of_roy = [], []
for _ in range(500):
    nothing = ls.significance(ls.CCA(rng.standard_normal((100, 6)), rng.standard_normal((100, 5))))
    of_wilks.append(nothing.wilks.p_values[0])
    of_roy.append(nothing.roy.p_values[0])
uniform = kstest(of_wilks, "uniform").pvalue
false_alarms = np.mean(np.array(of_roy) < 0.05)

figure, panel = plt.subplots(figsize=(5.4, 4), layout="constrained")
for p, name in ((of_wilks, "Wilks, Rao's F"), (of_roy, "Roy, F as usually printed")):
    panel.step(np.sort(p), np.arange(1, 501) / 500, label=name)
panel.plot([0, 1], [0, 1], "--", color="#555555", label="right size")
panel.set(xlabel="p-value", ylabel="share of 500 views without relation")
panel.legend()
panel.set_title(f"Wilks' test is right; Roy's F at 5 % rejects\n{false_alarms:.0%} of true hypotheses")
plt.show()

assert uniform > 0.01
assert false_alarms > 0.3
