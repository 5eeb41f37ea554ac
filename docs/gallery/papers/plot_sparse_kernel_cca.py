"""
Sparse kernel CCA finds related columns among noise, if its starts are screened
===============================================================================

Uurtio, Bhadra & Rousu (2019) claim for gradKCCA that it finds the columns of two views that belong together among 60
to 98 % noise variables, for monotone relations and others. Two columns of each view matter here; the others are noise.

The numbers come from ``docs/evidence/claims_on_cca.py``, which has recorded them. F1 says how well the chosen
columns are those that matter: 1 is perfect. linspec's ``gradkcca`` screens its starts and bounds the ratio of norms;
"published" has its authors' options. ``docs/evidence/experiments.md`` says which claims held, also on many rows and on
images.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

path = Path("../../evidence/recorded") / "sparse_kernel_cca.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

rows = [row for row in found["found"] if row["part"] == "noise"]
methods = {
    "gradkcca": ("o-", "gradkcca"),
    "published": ("s--", "gradkcca as published"),
    "scca-hsic": ("^-", "scca-hsic"),
    "kcca-preimage": ("v:", "kcca-preimage"),
}
medians = {}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for panel, case in zip(axes, ("monotone", "not monotone"), strict=True):
    for method, (style, words) in methods.items():
        chosen = [row for row in rows if (row["case"], row["method"]) == (case, method)]
        sizes = sorted({row["size"] for row in chosen})
        medians[case, method] = [np.median([row["f1"] for row in chosen if row["size"] == p]) for p in sizes]
        panel.plot([100 * (1 - 2 / p) for p in sizes], medians[case, method], style, label=words)
    panel.set(xlabel="noise variables, %", ylim=(-0.05, 1.05))
    panel.set_title({"monotone": "exponential of a sum", "not monotone": "square of a sum"}[case])
axes[0].set_ylabel("F1 of the chosen columns, median")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

for case in ("monotone", "not monotone"):
    assert min(medians[case, "gradkcca"]) >= 0.85
    assert medians[case, "published"][-1] < 0.6
