"""
Least squares finds the same supervised subspace as an eigenproblem, and a classifier sees no difference
========================================================================================================

Sun, Ceran & Ye (2010) show that linear discriminant analysis, orthonormalised partial least squares, canonical
correlations with labels and hypergraph spectral learning need no generalised eigenproblem as large as the data have
columns: least squares and an eigenproblem as large as there are labels find the same directions W, up to a rotation,
with a ridge and without.

The numbers come from ``docs/evidence/claims_on_least_squares.py``, which has recorded them on public data. On the
left, WWᵀ is compared with that of an SVD of the data (the largest relative difference of eleven sets and up to five
techniques each). On the right, support vector machines judge rows that were reduced by either way.
``docs/evidence/experiments.md`` has the verdicts.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

recorded = Path("../../evidence/recorded")  # run this in docs/gallery/papers
equal, use = (
    json.loads((recorded / f"{name}.json").read_text()) for name in ("two_stage_equivalence", "two_stage_use")
)
for found in (equal, use):
    print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
ways = {
    "direct": "the eigenproblem (direct)",
    "two-stage, direct": "two-stage, stage 1 by a factorisation",
    "two-stage, lsqr": "two-stage, stage 1 by LSQR to 1e-14",
    "two-stage": "two-stage by default, stage 1 to 1e-10",
}
worst = {}
for (way, words), marker in zip(ways.items(), "so^D", strict=True):
    rows = [row for row in equal["differences"] if row["way"] == way]
    ridges, worst[way] = rows[0]["ridge"], np.max([row["relative"] for row in rows], axis=0)
    left.semilogy(range(len(ridges)), worst[way], f"{marker}-", markersize=5, label=words)
left.set(xlabel="ridge γ", ylabel="largest ‖W₀W₀ᵀ − WWᵀ‖ / ‖W₀W₀ᵀ‖", ylim=(1e-15, 1e-6))
left.set_xticks(range(len(ridges)), [f"{ridge:g}" for ridge in ridges])
left.legend(fontsize=8)
left.set_title("Both ways find the same subspace")

scores = {}
for row in use["scores"]:
    scores.setdefault((row["data"], row["technique"], row["way"]), []).append(row["score"])
for color, (data, technique) in enumerate([("yeast", "CCA"), ("yeast", "HSL clique"), ("wine", "LDA")]):
    for way, style in (("direct", "s-"), ("two-stage", "x")):
        means = np.mean(scores[data, technique, way], axis=0)
        label = f"{data}, {technique}, {way}"
        right.semilogx(
            use["scores"][0]["ridge"], means, style, color=f"C{color}", fillstyle="none", label=label
        )
right.set(xlabel="ridge γ", ylabel="AUC (yeast), accuracy (wine)", ylim=(0.6, 1.02))
right.legend(fontsize=8)
right.set_title("A classifier of the reduced rows sees no difference")
plt.show()

assert max(worst["two-stage, direct"].max(), worst["two-stage, lsqr"].max()) < 1e-10
assert worst["two-stage"].max() < 1e-8
for (data, technique, _), found in scores.items():
    assert found == scores[data, technique, "direct"]
