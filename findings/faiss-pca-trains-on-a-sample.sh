#!/usr/bin/env bash
# faiss.PCAMatrix.train(X) reads only 1000 rows per column, so the components depend on the order of the rows
#
# Package: faiss-cpu 1.15.1.
# Documentation: faiss/VectorTransform.h says of PCAMatrix.train that it trains "on n vectors". Of the field
#   max_points_per_d it only says that it is a ratio of training vectors to dimension. Its default is 1000.
#   Nothing says that other rows are left out, and without verbose nothing is printed.
# Seen: 400,000 rows of 8 columns. 40 of the rows lie far out along one direction, which has by far the largest
#   variance of all. train() draws 8,000 rows (2 %) with a fixed seed and takes no others. In the order given, it
#   draws none of the 40 and the direction is lost. Other orders of the same rows give other components and
#   variances between a fifth of the right one and more than twice it. The eigenvalues are sums of squares of the
#   drawn rows only, so dividing them by the number of rows passed gives variances 50 times too small.
#   "PCA4,Flat" of index_factory trains in the same way.
# Do instead: set max_points_per_d to the number of rows before train(). Divide the eigenvalues by the rows used.
# Why it matters: this is a plain PCA to its users. Rare rows and outliers decide its first components, and a sample
#   of 2 % finds or misses them by chance. A tool that reads all rows gives another answer, and both look right.
# Upstream: no report of it was found. The sampling of faiss.Kmeans is well known and prints a line; this one is not.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.4.6
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys

import faiss
import numpy as np

print("faiss", faiss.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
n, d, far = 400_000, 8, 40
X = rng.standard_normal((n, d)).astype(np.float32)
X[rng.choice(n, far, replace=False), 5] += 200.0
variances, directions = np.linalg.eigh(np.cov(X.T.astype(float)))
right, first = variances[-1], directions[:, -1]
print(f"all rows:   largest variance {right:.3f}, the second {variances[-2]:.3f}")


def trained(rows, per_column=None):
    pca = faiss.PCAMatrix(d, 1)
    if per_column is not None:
        pca.max_points_per_d = per_column
    pca.train(np.ascontiguousarray(rows))
    used = min(len(rows), pca.max_points_per_d * d)
    direction = faiss.vector_to_array(pca.A).reshape(1, d)[0]
    return faiss.vector_to_array(pca.eigenvalues), used, abs(float(direction @ first))


seen = []
for order in range(6):
    rows = X if order == 0 else X[rng.permutation(n)]
    eigenvalues, used, cosine = trained(rows)
    seen.append((eigenvalues[0] / used, cosine))
    name = "as given  " if order == 0 else f"shuffled {order}"
    print(f"{name}: largest variance {seen[-1][0]:.3f}, cosine with the right direction {cosine:.3f}, "
          f"sum of eigenvalues / rows passed {eigenvalues.sum() / n:.4f}")
eigenvalues, used, cosine = trained(X, per_column=n)
print(f"with max_points_per_d = {n}: largest variance {eigenvalues[0] / n:.3f}, cosine {cosine:.3f}")

estimates = np.array([variance for variance, _ in seen])
checks = {
    "the sample misses the first component in the order given": seen[0][1] < 0.9 and estimates[0] < right / 2,
    "other orders of the same rows disagree by more than a factor of two": estimates.max() > 2 * estimates.min(),
    "all rows give the right answer": abs(eigenvalues[0] / n / right - 1) < 1e-3 and cosine > 0.999,
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: faiss.PCAMatrix no longer behaves as described")
EOF
