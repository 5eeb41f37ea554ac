"""
Alternating least squares converges as fast as its theorem says, lazy SPCA saves half the time
==============================================================================================

This page draws numbers that two experiments have recorded, with their command, date and versions.
``docs/evidence/experiments.md`` states each claim and whether it held.

Alternating least squares for canonical correlations (Golub & Zha 1995; Lu 2015, Theorem 3.3.1) multiplies the
angle to the leading pairs by the square of a ratio of correlations in each iteration. Lazy SPCA (Wojnowicz
2017) does not orthonormalise a matrix with as many rows as the data. So it takes less time than SPCA on the
same stream, and the advantage grows with k.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

recorded = Path("../../evidence/recorded")  # run this in docs/gallery/papers
rates, stream = (
    json.loads((recorded / f"{name}.json").read_text()) for name in ("cca_convergence", "lazy_stream")
)
for found in (rates, stream):
    print(found["date"], found["command"], found["versions"], *found["claims"], sep="\n  ")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
exact = [row for row in rates["rates"] if row["case"].endswith("exact")]
for row in exact:
    course = [step for step in rates["steps"] if step["case"] == row["case"]]
    iterations, sines = ([step[name] for step in course] for name in ("iteration", "sine"))
    (line,) = left.semilogy(iterations, sines, ".", markersize=4)
    theorem = [sines[-1] * row["theorem"] ** (i - iterations[-1]) for i in iterations]
    told = f"factor {row['theorem']:.2f} by the theorem, {row['measured']:.3f} measured"
    left.semilogy(iterations, theorem, color=line.get_color(), label=told)
left.set(xlabel="iterations", ylabel="sine of the angle to the leading pairs", ylim=(1e-11, 3))
left.legend(loc="upper right", fontsize=8)
left.set_title("ALS: points are measured, lines are the theorem")

first = min(run["rows"] for run in stream["runs"])
seconds = {}
for solver, marker in (("spca", "s"), ("lazy-spca", "o")):
    runs = [run for run in stream["runs"] if run["solver"] == solver and run["rows"] == first]
    seconds[solver] = [run["cpu"] for run in runs]
    right.loglog([run["k"] for run in runs], seconds[solver], f"{marker}-", label=solver)
ks = [run["k"] for run in runs]
right.set(
    xlabel="k",
    ylabel="CPU seconds of one pass",
    xticks=ks,
    xticklabels=ks,
    yticks=[0.1, 0.3, 1, 3],
    yticklabels=[0.1, 0.3, 1, 3],
)
right.minorticks_off()
right.legend()
ratios = [slow / fast for slow, fast in zip(seconds["spca"], seconds["lazy-spca"], strict=True)]
right.set_title("Lazy SPCA is " + ", ".join(f"{ratio:.1f}" for ratio in ratios) + " times as fast")
plt.show()

assert all(abs(row["measured"] / row["theorem"] - 1) < 0.05 for row in exact)
assert ratios[-1] > ratios[0]
