"""
Preconditioned conjugate gradients reach ridge regression's risk on all three spectra
=====================================================================================

Lu's thesis (2015, section 2.4.1) compares methods for ridge regression on three spectra: singular values that
fall steeply, that hardly fall, or that hardly fall after fifteen large ones (Figures 2.1 to 2.3). The numbers
were recorded by ``docs/evidence/claims_on_least_squares.py`` with two repeats at ridge 1;
``docs/evidence/experiments.md`` says which claims held, with twenty repeats.

The risk of an estimate is its mean squared distance from the noiseless truth, divided by that of exact ridge
regression: 1 is as good as exact. As published, gradient descent, SVRG and LING reach 1 on the last two
spectra, and principal components on none, because this ridge is small. Conjugate gradients with a Nyström
preconditioner, a later method, reach 1 on all three.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

path = Path("../../evidence/recorded") / "ridge_risk.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], sep="\n  ")

spectra = ("steep", "flat", "spiked")
curves = {
    "gd": "gradient descent",
    "svrg as printed": "SVRG",
    "pcr": "principal components",
    "ling as printed": "LING",
    "cg": "conjugate gradients",
    "nystrom-pcg, 20": "the same, Nyström, rank 20",
}
least = {}
figure, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained", sharey=True)
for panel, spectrum in zip(axes, spectra, strict=True):
    for curve, words in curves.items():
        rows = [row for row in found["means"] if (row["model"], row["curve"]) == (spectrum, curve)]
        flops, risk = np.array([(row["flops"], row["risk"]) for row in rows]).T
        panel.loglog(flops, risk, "o-", markersize=3, label=words)
        least[spectrum, curve] = risk.min()
    panel.axhline(1, color="#555555", linestyle="--", linewidth=0.9)
    panel.set(xlabel="flops")
    panel.set_title(f"{spectrum} spectrum")
axes[0].set_ylabel("risk, over that of exact ridge regression")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=9)
plt.show()

there = {curve: [least[spectrum, curve] < 1.1 for spectrum in spectra] for curve in curves}
assert there["gd"] == [False, True, True]
assert there["pcr"] == [False, False, False]
assert there["ling as printed"] == [False, True, True]
assert there["nystrom-pcg, 20"] == [True, True, True]
