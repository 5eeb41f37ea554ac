#!/usr/bin/env bash
# FactorAnalysis finds no factors, without a word, in data whose unit makes the numbers small
#
# Package: scikit-learn 1.9.1.
# Documentation: sklearn/decomposition/_factor_analysis.py says that the estimate is one of maximum likelihood, and that
#   tol is a tolerance for the increase of the log-likelihood. Maximum likelihood does not depend on the unit: data
#   times u give loadings times u and noise variances times u squared. No floor is documented.
# Seen: noise variances are never below 1e-12 (SMALL in fit). The same recording in microvolts and in volts gives
#   different factors: in volts all noise variances are 1e-12 exactly, 25 times too large for the quietest channel.
#   In units a thousand times larger (kilovolts here, or tesla for MEG) the floor exceeds the whole variance:
#   all loadings and all factor scores are zero, and the covariance of the model is 18,000 times too large.
#   fit ends after 3 steps as converged, with no warning. PCA of the same arrays scales exactly.
# Do instead: bring the columns to a standard deviation near 1 by one common factor (or by StandardScaler), and scale
#   components_ and noise_variance_ back.
# Why it matters: EEG in volts has deviations of 1e-5 and sensor noise below 1e-6, MEG in tesla 1e-13. These are the
#   units in which such files are read.
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
from sklearn.decomposition import PCA, FactorAnalysis

print("scikit-learn", sklearn.__version__, "numpy", np.__version__, "(all warnings are errors here)")
rng = np.random.default_rng(0)
noise = np.linspace(0.2, 0.6, 12)
microvolts = rng.standard_normal((4000, 3)) @ (3 * rng.standard_normal((3, 12))) + noise * rng.standard_normal((4000, 12))
covariance = np.cov(microvolts.T, bias=True)

models, distances, variances = {}, {}, {}
for name, unit in (("microvolts", 1.0), ("millivolts", 1e-3), ("volts", 1e-6), ("kilovolts", 1e-9)):
    model = FactorAnalysis(3, tol=1e-10, max_iter=10_000, svd_method="lapack").fit(microvolts * unit)
    models[name] = model.noise_variance_ / unit**2, model.components_ / unit, model.transform(microvolts * unit)
    distances[name] = np.linalg.norm(model.get_covariance() / unit**2 - covariance) / np.linalg.norm(covariance)
    variances[name] = PCA(3).fit(microvolts * unit).explained_variance_ / unit**2
    print(f"{name:10s} steps {model.n_iter_:4d}, noise variances / unit^2 {models[name][0][[0, 5, 11]].round(3)}, "
          f"largest loading / unit {np.abs(models[name][1]).max():.3f}, covariance off by {distances[name]:.1e}")
print("true noise variances", (noise**2)[[0, 5, 11]].round(3))

checks = {
    "microvolts and millivolts agree and fit the covariance": distances["microvolts"] < 1e-3
    and distances["millivolts"] < 1e-3 and np.allclose(models["microvolts"][0], models["millivolts"][0], rtol=1e-2),
    "volts: all noise variances are the floor": np.allclose(models["volts"][0], 1.0, rtol=1e-6),
    "kilovolts: loadings and scores are all zero": not models["kilovolts"][1].any() and not models["kilovolts"][2].any(),
    "kilovolts: the covariance is off by more than a factor of 10,000": distances["kilovolts"] > 1e4,
    "PCA is the same in all units": all(np.allclose(v, variances["microvolts"]) for v in variances.values()),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: FactorAnalysis no longer behaves as described")
EOF
