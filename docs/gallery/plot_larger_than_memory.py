"""
Principal components of a file four times as large as the memory limit
======================================================================

A ``.npy`` file is mapped and read in blocks of rows. Here the memory limit is 24 MB (``LINSPEC_MAX_MEMORY``)
and the file has 96 MB. These numbers are small, so that the example takes seconds, but the ratio is that of a
file of 96 GB on a machine with 24 GB. ``tracemalloc`` measures the memory of the arrays. It does not include
pages of the file that the operating system caches and can discard at any time.

Methods differ in how often they read the file (``passes``), and in the accuracy of the answer. The singular
values are known: 40 columns with standard deviations 6, 5, 4, 3 and otherwise 1.
"""

import os
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import linspec as ls

budget, n, p = 24e6, 300_000, 40
planted = np.array([6.0, 5.0, 4.0, 3.0])

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
rng = np.random.default_rng(0)
rotation = np.linalg.qr(rng.standard_normal((p, p)))[0]
rows = np.lib.format.open_memmap(path, mode="w+", shape=(n, p))
for start in range(0, n, 20_000):  # written in blocks, too
    block = rng.standard_normal((20_000, p))
    block[:, :4] *= planted
    rows[start : start + 20_000] = block @ rotation.T
rows.flush()
del rows
size = path.stat().st_size

# %%
# Set the limit before the first solve. linspec then chooses methods and blocks that keep it.

os.environ["LINSPEC_MAX_MEMORY"] = "24MB"
names = ["gram", "lazy-spca", "spca", "block-krylov"]
found, peaks = {}, {}
for name in names:
    ls.solve(ls.SVD(np.eye(20), k=4), name, rng=0)  # imports are no part of what is measured
    tracemalloc.start()
    found[name] = ls.solve(ls.SVD(path, k=4, center=True), name, rng=0)
    peaks[name] = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
del os.environ["LINSPEC_MAX_MEMORY"]

exact = rotation[:, :4]  # the planted directions
sines = {name: ls.metrics.subspace_distance(found[name].Vh.T, exact) for name in names}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
bars = left.barh(names, [peaks[name] / 1e6 for name in names], color="#0072B2")
told = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
left.bar_label(
    bars,
    padding=4,
    **told,
    labels=[f"{peaks[name] / 1e6:.1f} MB, passes: {found[name].passes:g}" for name in names],
)
left.axvline(budget / 1e6, color="#D55E00", linestyle="--", label="budget")
left.axvline(size / 1e6, color="#555555", label="file")
left.set(xlabel="peak memory / MB", xlim=(0, 1.05 * size / 1e6))
left.legend(loc="upper right", bbox_to_anchor=(0.95, 0.9))
left.set_title("All solvers stay below the budget,\na quarter of the file")
for marker, name in zip("os^D", names, strict=True):
    right.plot(
        range(1, 5), np.sqrt(found[name].explained_variance), marker, label=f"{name}, angle {sines[name]:.3f}"
    )
right.plot(range(1, 5), planted, "_", markersize=24, color="#555555", label="planted")
right.set(xlabel="component", ylabel="standard deviation", xticks=range(1, 5), ylim=(0, 6.5))
right.legend(loc="lower left")
right.set_title("One or two passes without refinement\nare a little off the planted directions")
plt.show()

folder.cleanup()
assert max(peaks.values()) < budget <= size / 4
assert found["gram"].passes == 1
for name in ("gram", "block-krylov"):
    assert np.allclose(np.sqrt(found[name].explained_variance), planted, rtol=0.01)
    assert sines[name] < 0.02
