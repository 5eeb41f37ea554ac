"""Print what `d-cca` does on the words of the Penn Treebank: word against next word, one-hot, sparse.

Run `python asv_bench/measure_bigrams.py --data FOLDER`; `--quick` takes a small generated text instead.

929,588 x 10,000 twice, uncentred, k = 20. With ridge 1 the sum of the correlations is known to be 18.696535288289
(an exact computation elsewhere). At ridge 0 the multiplicity of the correlation 1 is the number of connected
components of the graph of words and next words, counted here independently. With ridge 0.01 correlations are repeated
many times, and `lobpcg` is to find all copies. Centred, `d-cca` warns.
"""

from __future__ import annotations

import resource
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from datasets import arguments, bigrams
from scipy.sparse.csgraph import connected_components

import linspec as ls

EXACT_SUM = 18.696535288289134


def main() -> None:
    """Measure and print."""
    given = arguments(main.__doc__ or "").parse_args()
    X, Y = bigrams(given)
    ls.solve(ls.CCA(X[:500], Y[:500], 2, ridge=1.0, center=False), "d-cca")  # everything imported
    data = sum(part.nbytes for A in (X, Y) for part in (A.data, A.indices, A.indptr)) / 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"data {data:.0f} MiB, resident before {before:.0f} MiB")
    for options in ({}, {"tol": 1e-10}):
        begin = time.perf_counter()
        s = ls.solve(ls.CCA(X, Y, 20, ridge=1.0, center=False), "d-cca", rng=0, **options)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        print(
            f"ridge 1 {options}: sum {s.correlations.sum():.9f}, off by {abs(s.correlations.sum() - EXACT_SUM):.1e}; "
            f"leading {np.array2string(s.correlations[:4], precision=6)}; residual {s.residual:.1e}; "
            f"{s.iterations} iterations, {s.passes:g} passes, {time.perf_counter() - begin:.1f} s; "
            f"resident +{grown:.0f} MiB = {grown / data:.1f} times the data"
        )
    C = (X.T @ Y).tocsr()
    graph = scipy.sparse.bmat([[None, C], [C.T, None]])
    labels = connected_components(graph, directed=False)[1]
    present = np.concatenate([np.asarray(X.sum(axis=0)).ravel(), np.asarray(Y.sum(axis=0)).ravel()]) > 0
    print(f"ridge 0: {len(np.unique(labels[present]))} connected components")
    for k, options in ((20, {}), (20, {"tol": 1e-10}), (40, {"tol": 1e-10})):
        s = ls.solve(ls.CCA(X, Y, k, center=False), "d-cca", rng=0, **options)
        print(f"  k = {k} {options}: {s.status.name}, {s.seconds:.1f} s: {s.message}")
    ties(X, Y, 0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s = ls.solve(ls.CCA(X, Y, 20, ridge=1.0), "d-cca", rng=0)
    print(f"centred: {s.status.name}, sum {s.correlations.sum():.6f}; warned {len(caught)} times:")
    for warning in caught[:1]:
        print(f"  {warning.message}")


def ties(X: Any, Y: Any, ridge: float) -> None:
    """Correlations that are repeated many times: by `lobpcg`, and as singular values, of which ARPACK misses some."""
    roots = [1 / np.sqrt(np.asarray(A.multiply(A).sum(axis=0)).ravel() + ridge) for A in (X, Y)]
    T = scipy.sparse.csr_array(
        scipy.sparse.diags_array(roots[0]) @ (X.T @ Y) @ scipy.sparse.diags_array(roots[1])
    )
    exact = ls.solve(ls.SVD(T, 20), "block-krylov", rng=0, tol=1e-10).S
    s = ls.solve(ls.CCA(X, Y, 20, ridge=ridge, center=False), "lobpcg", rng=0, tol=1e-10)
    arpack = scipy.sparse.linalg.svds(T, 20, return_singular_vectors=False, random_state=0)
    copies = np.sum(np.abs(exact - exact[-1]) < 1e-9)
    print(
        f"ridge {ridge}, the last {copies} of 20 alike: sum of the singular values {exact.sum():.9f}, of ARPACK's "
        f"{arpack.sum():.9f}; lobpcg {s.correlations.sum():.9f}, largest difference "
        f"{np.abs(s.correlations - exact).max():.1e}, {s.iterations} steps, {s.passes:g} pass, {s.status.name}"
    )


if __name__ == "__main__":
    main()
