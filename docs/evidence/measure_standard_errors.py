"""Compare the standard errors of linspec with those of statsmodels, and of formulas in long double, on random designs.

Run `python docs/evidence/measure_standard_errors.py` where statsmodels is installed; `--quick` takes five designs. No
data are needed.

Sixty designs of 40 to 400 rows and 2 to 8 columns, whose units go from 1e-3 to 1e3, with unequal variances, clusters,
an intercept, and in turn nothing else, weights that count rows, weights of a survey, or two confounds. The figures are
the worst differences over designs and coefficients, relative ones of the errors, of t if it is above 1, and of ends of
intervals in units of the errors: from statsmodels (OLS with the rows repeated, WLS, or OLS with the confounds as
columns), and of the errors from an orthogonal factorisation in long double. In the last column three columns have means
of 1e6 times their deviation: there statsmodels loses digits itself, so that linspec is compared with long double alone.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from showing import Report, arguments, at_most

import linspec as ls

DESIGNS, QUICK, BOUND = 60, 5, 1e-8
KINDS = {
    "classical": "nonrobust",
    **{name: name for name in ("HC0", "HC1", "HC2", "HC3")},
    "clustered": "cluster",
}
CASES = "plain", "counts", "survey", "confounds"


def orthonormal(A: Any) -> tuple[Any, Any]:
    """Q and R by Gram-Schmidt, twice, in the precision of A."""
    Q, R = np.zeros_like(A), np.zeros((A.shape[1],) * 2, A.dtype)
    for j in range(A.shape[1]):
        v = A[:, j].copy()
        for _ in range(2):
            c = Q[:, :j].T @ v
            v -= Q[:, :j] @ c
            R[:j, j] += c
        R[j, j] = np.sqrt(v @ v)
        Q[:, j] = v / R[j, j]
    return Q, R


def by_formulas(D: Any, y: Any, w: Any, kind: str, groups: Any) -> Any:
    """Standard errors of all columns of a design whose first column is 1, in long double."""
    means = np.append(0, np.average(D[:, 1:], axis=0))
    wide, root = (D - means).astype(np.longdouble), np.sqrt(w.astype(np.longdouble))
    Q, R = orthonormal(wide * root[:, None])
    (n, k), L = Q.shape, np.zeros_like(R)
    for j in reversed(range(k)):
        L[j] = (np.eye(k)[j] - R[j, j + 1 :] @ L[j + 1 :]) / R[j, j]
    L[0] -= means[1:] @ L[1:]
    v = root * y
    e, h = v - Q @ (Q.T @ v), (Q**2).sum(axis=1)
    if kind == "classical":
        meat = np.eye(k) * (e @ e) / (n - k)
    elif kind == "clustered":
        s = np.array([Q[groups == g].T @ e[groups == g] for g in np.unique(groups)])
        meat = s.T @ s * len(s) / (len(s) - 1) * (n - 1) / (n - k)
    else:
        power = {"HC2": 1, "HC3": 2}.get(kind, 0)
        meat = (Q.T * (e**2 / (1 - h) ** power)) @ Q * (n / (n - k) if kind == "HC1" else 1)
    return np.sqrt(np.einsum("ij,jk,ik->i", L, meat, L))


def differences(seed: int, kind: str, models: Any) -> dict[str, float]:
    """The largest relative differences for one design."""
    rng = np.random.default_rng(seed)
    n, p, case = int(rng.integers(40, 400)), int(rng.integers(2, 9)), CASES[seed % len(CASES)]
    units = 10.0 ** rng.uniform(-3, 3, p)
    A, groups, Z = rng.standard_normal((n, p)), rng.integers(0, 15, n), rng.standard_normal((n, 2))
    y = A @ rng.standard_normal(p) + Z[:, 0] + rng.standard_normal(15)[groups]
    y += (1 + np.abs(A[:, 0])) * rng.standard_normal(n)
    counts = rng.integers(1, 4, n).astype(float)
    w = {"counts": counts, "survey": rng.uniform(0.1, 3, n)}.get(case)
    Z = Z if case == "confounds" else Z[:, :0]
    by = {"groups": groups} if kind == "clustered" else {}
    meaning = "precision" if case == "survey" and kind == "classical" else "counts" if w is None else case
    i = np.repeat(np.arange(n), counts.astype(int)) if case == "counts" else np.arange(n)
    v = w if case == "survey" else np.ones(len(i))
    found: dict[str, float] = {}
    for means, name in ((0.0, "exact"), (1e6, "large means")):
        X = (A + means * (np.arange(p) < 3)) * units
        problem = ls.LeastSquares(X, y, center=True, sample_weight=w, confounds=Z if Z.size else None)
        ours = ls.standard_errors(problem, kind, weights=meaning, **by)
        D = np.column_stack([np.ones(n), X, Z - Z.mean(axis=0)])[i]
        exact = by_formulas(D, y[i], v, kind, groups[i])[: p + 1]
        found[name] = float(np.max(np.abs(ours.errors / exact - 1)))
        if models is None or means:
            continue
        more = {"cov_kwds": {"groups": groups[i]}} if by else {}
        theirs = models.WLS(y[i], D, weights=v).fit(cov_type=KINDS[kind], use_t=True, **more)
        bse, t, ends = (part[: p + 1] for part in (theirs.bse, theirs.tvalues, theirs.conf_int()))
        gaps = {
            "errors": ours.errors / bse - 1,
            "t": (ours.t - t) / np.maximum(np.abs(t), 1),
            "ends": (ours.intervals.T - ends) / bse[:, None],
        }
        found |= {label: float(np.max(np.abs(gap))) for label, gap in gaps.items()}
    return found


def main() -> int:
    report = Report(arguments(__doc__))
    try:
        import statsmodels.api as models
    except ImportError:
        models = None
    names = ("errors", "t", "ends", "exact", "large means")
    table = report.table("kind", *(f"{name}::.0e" for name in names))
    claims = []
    for kind in KINDS:
        seeds = range(QUICK if report.given.quick else DESIGNS)
        designs = [differences(seed, kind, models) for seed in seeds]
        worst = [max(design.get(name, np.nan) for design in designs) for name in names]
        table.row(kind, *worst)
        value = float(np.nanmax(worst))
        claims.append(at_most(f"{kind}: no relative difference above {BOUND:g}", value, BOUND, own=True))
    report.say(claims)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
