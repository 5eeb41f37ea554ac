"""
The obvious gradient leaves the canonical pairs, and AppGrad stays
==================================================================

Ma, Lu & Foster (2015) show that exact canonical pairs are no fixed point of the obvious gradient method, which takes a
step from normalised weights and normalises the result (Proposition 2.1). AppGrad takes its steps with weights of their
own that are never normalised, and exact pairs are a fixed point of it (Proposition 2.2).

The numbers come from ``docs/evidence/claims_on_cca.py``, which has recorded them: left and right halves of 60,000
images of digits, twenty pairs, 2000 steps of equal length. Captured is the sum of the correlations over that of the
exact solution. ``docs/evidence/experiments.md`` has the stochastic form, other data, and the verdicts.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

path = Path("../../evidence/recorded") / "cca_gradients.json"  # run this in docs/gallery/papers
found = json.loads(path.read_text())
print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

curves = {
    row["method"]: row for row in found["captured"] if (row["part"], row["data"]) == ("naive", "images")
}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
last = {}
for panel, start in zip(axes, ("random start", "exact start"), strict=True):
    for solver, style in (("naive-gradient", "C3s-"), ("appgrad", "C0o-")):
        course = curves[f"{solver}, {start}"]
        panel.plot(course["iteration"], course["captured"], style, markersize=3, label=solver)
        last[solver, start] = course["captured"][-1]
    panel.set(xlabel="steps", xscale="symlog", xlim=(0, None))
    panel.set_title(f"From {'a random start' if start == 'random start' else 'the exact answer'}")
axes[0].set_ylabel("share of the exact correlations")
axes[0].legend()
plt.show()

assert last["appgrad", "exact start"] > 1 - 1e-6
assert last["naive-gradient", "exact start"] < 0.99
assert last["appgrad", "random start"] > last["naive-gradient", "random start"]
