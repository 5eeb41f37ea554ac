"""
Hadamard sketches keep lengths as the theorem says, and lose coordinates if they are narrow
===========================================================================================

The numbers were recorded by ``docs/evidence/claims_on_svd.py``; ``docs/evidence/experiments.md`` says which claims
held. The sketch of ten orthonormal columns should have all singular values near 1.

Tropp (2011) proves bounds of 0.40 and 1.48 for the subsampled randomized Hadamard transform (SRHT) with about
1500 columns, whatever the ten columns are. With fewer columns it is said to be as good as a Gaussian matrix.
This fails if the ten columns are coordinate vectors: a small sample of the columns of a Hadamard matrix may
have equal rows, and then a direction is lost. Feature hashing (Weinberger et al. 2009) hardly reduces the
accuracy of a classifier of words, if there are enough columns.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

path = Path("../../evidence/recorded") / "sketch_quality.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", sharey=False)
widths = sorted({row["columns"] for row in found["kept"]})
for panel, basis, words in zip(
    axes, ("random", "coordinates"), ("random columns", "coordinates"), strict=False
):
    for matrix, colour in (("srht", "#0072B2"), ("gaussian", "#D55E00")):
        rows = [row for row in found["kept"] if (row["basis"], row["matrix"]) == (basis, matrix)]
        least, largest = ([row[name] for row in rows] for name in ("least", "largest"))
        panel.fill_between(widths, least, largest, color=colour, alpha=0.25, label=matrix)
        panel.plot(widths, least, "o-", widths, largest, "o-", color=colour, markersize=3)
    for bound in (0.40, 1.48):
        panel.axhline(bound, color="#555555", linestyle="--", linewidth=0.9)
    panel.set(xscale="log", xlabel="columns of the sketch", xticks=widths, xticklabels=widths, ylim=(0, 2.2))
    panel.minorticks_off()
    panel.set_title(f"Sketches of {words}")
    panel.legend(loc="upper right")
axes[0].set_ylabel("singular values, fifty draws")
axes[1].set_title("Sketches of coordinates: narrow\nHadamard sketches lose some")

hashed = [row for row in found["accuracy"] if row["m"]]
(whole,) = (row["accuracy"] for row in found["accuracy"] if row["m"] == 0)
axes[2].semilogx([row["m"] for row in hashed], [row["accuracy"] for row in hashed], "o-", label="hashed")
axes[2].axhline(whole, color="#555555", linestyle="--", label="all words")
axes[2].set(xlabel="columns after hashing", ylabel="accuracy on test posts", ylim=(0, 1))
axes[2].legend(loc="lower right")
axes[2].set_title(f"Hashed words: {hashed[-1]['accuracy']:.3f}, all {whole:.3f}")
plt.show()

wide = [row for row in found["kept"] if row["matrix"] == "srht" and row["columns"] == widths[-1]]
assert all(0.40 <= row["least"] <= row["largest"] <= 1.48 for row in wide)
assert min(row["least"] for row in found["kept"] if row["matrix"] == "srht") < 1e-6
assert hashed[-1]["accuracy"] > whole - 0.01
