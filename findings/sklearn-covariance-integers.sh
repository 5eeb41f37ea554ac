#!/usr/bin/env bash
# EmpiricalCovariance(assume_centered=True) gives variances near zero, some negative, for centred 16-bit integers
#
# Package: scikit-learn 1.9.1.
# Documentation: covariance/_empirical_covariance.py: the maximum likelihood estimator of the covariance.
#   assume_centered: "data are not centered before computation", for data whose mean is almost zero. X is array-like;
#   no dtype is named.
# Seen: with assume_centered the product X'X is taken in the dtype of X. Integers of 8, 16 or 32 bits overflow, and
#   what is left is noise around zero. Four correlated channels as a sound card or an electrode amplifier gives them,
#   int16, deviation 3,000: variances of -6, .1, -5 and -5 for 9 million. Without assume_centered, which hardly matters
#   for data of mean zero, they are right, and so they are as float64. The same with a deviation of 100, with int8, and
#   with int32 of deviation 30,000. ShrunkCovariance, MinCovDet and empirical_covariance have it, too; GraphicalLasso
#   begins with the same matrix. LedoitWolf and OAS are right. Squared Mahalanobis distances of the sample, about 3,
#   are NaN. No warning.
# Do instead: X.astype(float) before fit; or LedoitWolf.
# linspec: sums over rows are float64 whatever the integers; singular values of such data are right to 14 digits.
# Why it matters: sound, EEG and images are integers of 16 and 8 bits, and signals have mean zero by nature, which is
#   what this option is for. Whitening and spatial filters (CSP, Mahalanobis distance) begin with this matrix.
# Upstream: no report of it was found.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np
import sklearn
from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf, MinCovDet, ShrunkCovariance

print("scikit-learn", sklearn.__version__, "numpy", np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
n = 5_000
correlations = np.array([[1, .8, .3, 0], [.8, 1, .3, 0], [.3, .3, 1, .5], [0, 0, .5, 1]])
signal = rng.standard_normal((n, 4)) @ np.linalg.cholesky(correlations).T
estimators = {"EmpiricalCovariance": EmpiricalCovariance, "ShrunkCovariance": ShrunkCovariance,
              "MinCovDet": lambda **options: MinCovDet(random_state=0, **options), "LedoitWolf": LedoitWolf, "OAS": OAS}
ratios, distances, smallest = {}, {}, {}
for dtype, deviation in (("int16", 3_000), ("int16", 100), ("int8", 20), ("int32", 30_000), ("float64", 3_000)):
    X = (signal * deviation).round()
    if dtype != "float64":
        X = X.clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    right = X.astype(float).T @ X.astype(float) / n
    print(f"{dtype}, deviation {deviation:,}, means {X.mean(axis=0).round(1) + 0.0}; right variances",
          np.diag(right).round(1))
    for name, estimator in estimators.items():
        for assumed in (True, False):
            model = estimator(assume_centered=assumed).fit(X)
            variances = np.diag(model.covariance_)
            key = name, dtype, deviation, assumed
            ratios[key] = variances / np.diag(right)
            smallest[key] = np.linalg.eigvalsh(model.covariance_)[0]
            distances[key] = np.median(model.mahalanobis(X[:100].astype(float)))
            if assumed or name == "EmpiricalCovariance":
                print(f"  {name + (' ' if assumed else ', not assumed'):33s} variances {variances.round(3) + 0.0}, "
                      f"smallest eigenvalue {smallest[key]:.3f}, median squared distance {distances[key]:.2f}")

integers = [(dtype, deviation) for name, dtype, deviation, assumed in ratios if dtype != "float64"]
wrong, right = ("EmpiricalCovariance", "ShrunkCovariance", "MinCovDet"), ("LedoitWolf", "OAS")
checks = {
    "three estimators give less than a twentieth of the variances": all(
        np.abs(ratios[name, *kind, True]).max() < 0.05 for name in wrong for kind in integers),
    "EmpiricalCovariance has negative eigenvalues": all(
        smallest["EmpiricalCovariance", *kind, True] < 0 for kind in integers),
    "its median squared distance is NaN or above 100": all(
        not distances["EmpiricalCovariance", *kind, True] < 100 for kind in integers),
    "without assume_centered all are right": all(
        np.abs(ratio - 1).max() < 0.05 for key, ratio in ratios.items() if not key[3]),
    "LedoitWolf and OAS are right": all(np.abs(ratios[name, *kind, True] - 1).max() < 0.01
                                        for name in right for kind in integers),
    "float64 is right": all(np.abs(ratios[name, "float64", 3_000, True] - 1).max() < 0.05 for name in estimators),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: covariances of integers no longer behave as described")
EOF
