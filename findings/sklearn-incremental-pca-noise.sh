#!/usr/bin/env bash
# IncrementalPCA's noise_variance_ is the right one divided by the number of batches; precisions are 200 times too large
#
# Package: scikit-learn 1.9.1.
# Documentation: sklearn/decomposition/_incremental_pca.py, attribute noise_variance_: the estimated noise covariance
#   of the probabilistic PCA model of Tipping and Bishop (1999). That estimate is the mean of the variances left out.
#   get_covariance() and get_precision() are offered as those of PCA and are built on it.
# Seen: after each batch only n_components directions are kept. The variances that are left out come from the last
#   batch alone, but are divided by the number of all rows. So noise_variance_ is about (last batch) / (all rows) of the
#   right one: 1/200 here with the default batch of 5 rows per column. Components and explained variances are right
#   to four digits, so nothing looks wrong. The mean squared Mahalanobis distance of new rows, which should be the
#   number of columns (20), is 3412. One batch of all rows gives what PCA gives.
# Do instead: noise = (var_.sum() * n / (n - 1) - explained_variance_.sum()) / (columns - components), with n the rows
#   seen. This needs only attributes of the fitted model. Do not use get_covariance() or get_precision().
# Why it matters: batches are used where data are large. Outlier scores, likelihoods and whitening by the precision are
#   then off by the number of batches, and two runs with other batch sizes disagree.
# Upstream: scikit-learn issue 8541 was the same attribute of PCA, since mended there. No report for IncrementalPCA was
#   found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import sklearn
from sklearn.decomposition import PCA, IncrementalPCA

print("scikit-learn", sklearn.__version__, "numpy", np.__version__)
rng = np.random.default_rng(0)
columns, k = 20, 3
loadings = 3 * rng.standard_normal((k, columns))
X, new = (rng.standard_normal((rows, k)) @ loadings + rng.standard_normal((rows, columns)) for rows in (20_000, 2_000))


def looked_at(name, model):
    model.fit(X)
    Z = new - model.mean_
    distance = np.einsum("ij,jk,ik->i", Z, model.get_precision(), Z).mean()
    print(f"{name:32s} noise variance {model.noise_variance_:.5f}, mean squared distance of new rows {distance:9.2f}, "
          f"explained variances {model.explained_variance_.round(1)}")
    return model, distance


exact, _ = looked_at("PCA", PCA(k))
default, far = looked_at("IncrementalPCA, default batches", IncrementalPCA(k))
hundred, _ = looked_at("IncrementalPCA, batches of 1000", IncrementalPCA(k, batch_size=1000))
whole, near = looked_at("IncrementalPCA, one batch", IncrementalPCA(k, batch_size=len(X)))
n = default.n_samples_seen_
mended = (default.var_.sum() * n / (n - 1) - default.explained_variance_.sum()) / (columns - k)
print(f"from var_ and explained_variance_ of the default: noise variance {mended:.5f}")

checks = {
    "noise_variance_ with 200 batches is below a hundredth of PCA's": default.noise_variance_ < exact.noise_variance_ / 100,
    "noise_variance_ with 20 batches is below a tenth of PCA's": hundred.noise_variance_ < exact.noise_variance_ / 10,
    "distances of new rows are more than 100 times too large": far > 100 * columns,
    "one batch agrees with PCA": np.isclose(whole.noise_variance_, exact.noise_variance_) and abs(near - columns) < 1,
    "explained variances agree to 1e-3": np.allclose(default.explained_variance_, exact.explained_variance_, rtol=1e-3),
    "the formula above mends it": np.isclose(mended, exact.noise_variance_, rtol=1e-3),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: IncrementalPCA.noise_variance_ no longer behaves as described")
EOF
