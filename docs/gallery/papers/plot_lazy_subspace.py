"""
Lazy SPCA finds the subspace of SPCA, up to what squaring loses
===============================================================

Wojnowicz (2017) proves that lazy SPCA, which makes nothing orthonormal that is as long as the data, spans the same
directions as SPCA with the same random matrix (Proposition 2). In floating point it squares the data: of singular
values that fall to σ₁/σ_k it loses eps (σ₁/σ_k)², where SPCA and an exact decomposition lose eps σ₁/σ_k.

The numbers come from ``docs/evidence/claims_on_svd.py``, which has recorded them. On the left, generated matrices of
rank 60: the distance of the returned directions from the true ones. On the right, words of product titles, k = 100, in
the form of the paper and in the default form: the distance of both spans for one random matrix Ω, and for another one.
``docs/evidence/experiments.md`` says what each claim is and whether it held.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

path = Path("../../evidence/recorded") / "lazy_subspace.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
curves = {"direct": "k:", "spca": "C0s-", "lazy-spca": "C1o-"}
lost = {}
for solver, style in curves.items():
    rows = [row for row in found["loss"] if (row["dtype"], row["solver"]) == ("float64", solver)]
    ratios, lost[solver] = np.array(rows[0]["ratio"]), np.max([row["distance"] for row in rows], axis=0)
    left.loglog(ratios, lost[solver], style, label=solver)
eps = np.finfo(float).eps
left.loglog(ratios, eps * ratios, color="#999999", linewidth=0.9, label="eps σ₁/σ_k, eps (σ₁/σ_k)²")
left.loglog(ratios[:5], eps * ratios[:5] ** 2, color="#999999", linewidth=0.9)
left.set(xlabel="σ₁/σ_k", ylabel="distance from the true directions", ylim=(1e-15, 1))
left.legend(fontsize=9)
left.set_title("Laziness squares the loss")

matrices = list(dict.fromkeys(row["matrix"] for row in found["equality"]))
for place, matrix in enumerate(matrices):
    rows = [row for row in found["equality"] if row["matrix"] == matrix]
    for column, marker, words in (
        ("other_seed", "C3x", "another Ω"),
        ("distance", "C2o", "the same Ω"),
    ):
        values = [row[column] for row in rows]
        label = None if place else words
        right.semilogy([place] * len(values), values, marker, fillstyle="none", label=label)
right.set_xticks(range(len(matrices)), matrices)
right.set(ylabel="distance of the spans of SPCA and lazy SPCA", xlabel="kind of Ω", ylim=(1e-15, 100))
right.set_xlim(-0.5, len(matrices) - 0.5)
right.legend()
right.set_title("The same random matrix, the same subspace")
plt.show()

same, other = ([row[column] for row in found["equality"]] for column in ("distance", "other_seed"))
assert max(same) < 1e-8
assert min(other) > 1
assert np.all(lost["spca"] < 10 * eps * ratios)
assert np.all(lost["lazy-spca"][:5] < 10 * eps * ratios[:5] ** 2)
