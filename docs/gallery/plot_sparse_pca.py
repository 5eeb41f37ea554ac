"""
Centred principal components of sparse counts take a fifth of the dense memory
==============================================================================

Principal components describe deviations from the means. Sparse counts become dense if the means are subtracted,
and therefore many programs do not centre. Their first component is then nearly the vector of means: it says which words
are frequent, and nothing about documents. linspec corrects the products instead of the entries, and needs
memory only for the sparse matrix and its Gram matrix.

The answer is the same as that of scikit-learn on the dense centred matrix. The memory is measured by ``tracemalloc``,
which includes NumPy's arrays.
"""

import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

import linspec as ls

texts = ls.datasets.planted_word_views(
    0, n=20_000, p=1000, q=1000, shared=5, counts=True, strength=(0.3, 0.25)
)
counts = texts.X


def with_peak(work):
    """Return the result of work, and the largest number of megabytes that it held."""
    tracemalloc.start()
    result = work()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return result, peak


ours, our_peak = with_peak(lambda: ls.solve(ls.SVD(counts, k=6, center=True), rng=0))
peer, peer_peak = with_peak(lambda: PCA(6, svd_solver="covariance_eigh").fit(counts.toarray()))
plain = ls.solve(ls.SVD(counts, k=6), rng=0)  # the means left in

# %%
# Without centring the first vector is nearly the vector of means. With centring it is a difference between topics.

means = np.asarray(counts.mean(axis=0)).ravel()
cosine = abs(plain.Vh[0] @ means) / np.linalg.norm(means)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
bars = left.barh(
    ["linspec,\nsparse", "scikit-learn,\ndense"], [our_peak, peer_peak], color=["#0072B2", "#D55E00"]
)
left.bar_label(bars, fmt=" %.0f MB")
left.set(xlabel="peak memory / MB", xlim=(0, 1.25 * peer_peak))
left.set_title(f"The same components\nin {our_peak / peer_peak:.0%} of the memory")
ls.plots.scores(plain.transform(counts), texts.topics + 1, label="component", ax=middle)
middle.get_legend().remove()
middle.set_title(f"Not centred: the first vector is\nthe means (cosine {cosine:.3f})")
ls.plots.scores(ours.transform(counts), texts.topics + 1, label="component", ax=right)
right.get_legend().set_title("topic")
right.set_title("Centred: the first vectors\ntell topics apart")
plt.show()

assert np.allclose(ours.explained_variance, peer.explained_variance_, rtol=1e-6)
assert np.allclose(np.abs(np.sum(ours.Vh[:4] * peer.components_[:4], axis=1)), 1, atol=1e-5)
assert our_peak < peer_peak / 4
assert cosine > 0.98
