"""
SPCA and lazy SPCA are equally good for a classifier, and better than random projections
========================================================================================

Wojnowicz (2017) classifies rows that are reduced to k numbers by a random projection (RP), by stochastic
principal components (SPCA), or by lazy SPCA. His claims: SPCA and lazy SPCA are equally accurate, and both more
accurate than RP at every k.

The numbers were recorded by ``docs/evidence/claims_on_svd.py``. The data are posts of 20 newsgroups, and
pairs of products and queries; the accuracy is that of a logistic regression on held-out rows.
``docs/evidence/experiments.md`` says which claims held, with more seeds and more k.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

path = Path("../../evidence/recorded") / "lazy_accuracy.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

sets = {"newsgroups": "20 newsgroups", "homedepot": "products and queries"}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
reached = {}
for panel, (name, words) in zip(axes, sets.items(), strict=True):
    for method, marker in (("RP", "^-"), ("spca", "s-"), ("lazy-spca", "o--")):
        rows = [row for row in found[name] if (row["method"], row["matrix"]) == (method, "very sparse, 1/√p")]
        ks = [row["k"] for row in rows]
        reached[name, method] = [row["accuracy"] for row in rows]
        size = 9 if method == "spca" else 5  # lazy-spca lies upon it
        panel.semilogx(
            ks, reached[name, method], marker, markersize=size, markerfacecolor="none", label=method
        )
    true = [row for row in found[name] if row["method"] == "block-krylov"]
    panel.semilogx(
        [row["k"] for row in true],
        [row["accuracy"] for row in true],
        color="#555555",
        linestyle=":",
        label="true components",
    )
    panel.set(xlabel="k", ylabel="accuracy on rows held out", xticks=ks, xticklabels=ks)
    panel.minorticks_off()
    panel.set_title(words)
figure.suptitle("SPCA and lazy SPCA coincide; random projections are behind at every k")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

for name in sets:
    lazy, spca, projected = (reached[name, method] for method in ("lazy-spca", "spca", "RP"))
    assert max(abs(a - b) for a, b in zip(lazy, spca, strict=True)) < 0.003
    assert all(a > b for a, b in zip(lazy, projected, strict=True))
