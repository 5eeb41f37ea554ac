#!/usr/bin/env bash
# A term-document matrix built as scipy's manual shows gets wrong weights, norms and variances from scikit-learn
#
# Packages: scipy 1.17.1, scikit-learn 1.9.1, pandas 3.1.1.
# Documentation: scipy.sparse.csr_array (Examples) builds a term-document array word by word, with one stored entry for
#   each word that is read, and says of entries at the same place that they are summed. TfidfTransformer.fit,
#   normalize and StandardScaler of scikit-learn, and DataFrame.sparse.from_spmatrix of pandas say that they take sparse
#   matrices. None of them asks for a canonical one.
# Seen: A word that occurs five times in a document is five entries of 1. toarray(), products and
#   TruncatedSVD see 5. TfidfTransformer counts five documents, so that idf, which is 1 or more, becomes negative.
#   normalize adds five squares of 1 for the square of 5; StandardScaler does so too and returns negative variances.
#   pandas keeps the last entry, a 1, when values are read, but the sum of the column has 5. Only StandardScaler warns,
#   of an invalid square root. The same numbers as a canonical matrix give the right results.
# Do instead: X.sum_duplicates() after building a CSR or CSC array by hand, or after changing its indices (as in
#   pooling columns); or build a COO array, whose tocsr() adds them up.
# Why it matters: one and the same matrix is right in the SVD and wrong in the weights before it, so a latent semantic
#   analysis is wrong at its first step. The same holds for any sum or count that is stored entry by entry.
# Upstream: no report for scikit-learn was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6 scikit-learn==1.9.1 \
    pandas==3.1.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings

import numpy as np
import pandas as pd
import scipy
import scipy.sparse as sp
import sklearn
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, normalize

print("scipy", scipy.__version__, "scikit-learn", sklearn.__version__, "pandas", pd.__version__, "numpy", np.__version__)
words = np.random.default_rng(0).zipf(1.5, size=(200, 30)) % 50      # 200 documents of 30 words
starts = np.arange(0, words.size + 1, words.shape[1])


def as_read():
    return sp.csr_array((np.ones(words.size), words.ravel().copy(), starts.copy()), shape=(200, 50))


def summed():
    X = as_read()
    X.sum_duplicates()
    return X


print("entries", as_read().nnz, "for", summed().nnz, "places; dense forms equal:",
      np.array_equal(as_read().toarray(), summed().toarray()))


def singular_values(X):
    return TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X).singular_values_


def variances(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return StandardScaler(with_mean=False).fit(X).var_


ways = {
    "singular values of the counts": singular_values,
    "idf": lambda X: TfidfTransformer().fit(X).idf_,
    "lengths of the rows after normalize": lambda X: np.linalg.norm(normalize(X).toarray(), axis=1),
    "singular values of tf-idf": lambda X: singular_values(TfidfTransformer().fit_transform(X)),
    "variances by StandardScaler": variances,
    "values in pandas": lambda X: pd.DataFrame.sparse.from_spmatrix(X).to_numpy(),
    "column sums in pandas": lambda X: pd.DataFrame.sparse.from_spmatrix(X).sum().to_numpy(),
}
off, got = {}, {}
for name, way in ways.items():
    got[name], right = way(as_read()), way(summed())
    off[name] = np.abs(got[name] - right).max() / np.abs(right).max()
    where = np.unravel_index(np.argmax(np.abs(got[name] - right)), right.shape)
    print(f"{name:36s} off by {off[name]:.1e}: {got[name][where]:9.4f} for {right[where]:9.4f}")

checks = {
    "products and the SVD are right": off["singular values of the counts"] < 1e-10,
    "idf, lengths and tf-idf are off by more than a third": min(
        off[name] for name in ("idf", "lengths of the rows after normalize", "singular values of tf-idf")) > 1 / 3,
    "StandardScaler returns negative variances": got["variances by StandardScaler"].min() < 0,
    "pandas loses counts in the values but not in the sums": off["values in pandas"] > 0.5
    and off["column sums in pandas"] < 1e-12,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: repeated entries are no longer treated as described")
EOF
