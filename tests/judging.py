"""Whether an answer is right within what it claims, and held-out scores are those of the exact answer.

Problem: a solver may be off by its tolerance, by what its certificate admits, and by what rounding of the data does.
Method: each error of `truths` has a limit: ten tolerances for the residual, ten times the claimed loss for the value,
1e-4 for lengths, means and scales. What is above its limit by more than five times the effect of rounding is wrong.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from truths import Spectral, Truth, extended, svd, truth_of

import linspec as ls
from linspec import Status

SILENT = 10.0
"""An answer is wrong if its error is above this multiple of what it claims."""


def over(found: dict[str, float], limits: dict[str, float], effects: dict[str, float]) -> dict[str, str]:
    """The errors that exceed their limits by more than rounding of the data explains."""
    return {
        name: f"{error:.2g} (allowed {limits[name]:.2g}, rounding {effects.get(name, 0.0):.2g})"
        for name, error in found.items()
        if name in limits and not error <= limits[name] + 5 * effects.get(name, 0.0)
    }


def faults(truth: Truth, solution: Any) -> dict[str, str]:
    """What is wrong with an answer by one reading of the data."""
    case, residual = truth.case, float(np.nan_to_num(solution.residual))
    usual = max(ls.get_problem(case.problem).tolerance, 100 * truth.unit if truth.unit > 1e-15 else 0.0)
    tol = max(case.tol or usual, solution.tol or 0.0)
    found = truth.errors(truth.answer(solution)) | truth.about(solution)
    grain, explained = found.pop("grain", 0.0), found.pop("explained", 0.0)
    grain += min(tol, found.pop("squared", 0.0))  # what is above the tolerance, linspec must report
    loss = getattr(solution, "loss_estimate", None)
    if case.problem == "cca" and loss is None and len(solution.correlations):
        # Gaps are at most the correlations.
        loss = residual / max(float(solution.correlations[0]), 1e-300)
    claim = max(residual, float(loss or 0.0), 10 * explained)
    least = max(100 * truth.unit, 1e-4 * tol)
    limits = dict.fromkeys(found, 1e-4) | {"law": SILENT * tol, "loss": SILENT * max(claim, least) + grain}
    limits["excess"] = least + grain + explained + tol
    limits |= dict.fromkeys(("short of its share", "beyond its share"), 100 * truth.unit)
    if solution.status is Status.APPROXIMATE:
        limits = {"law": SILENT * max(residual, tol)}
    wrong = over(found, limits, {}) if grain < 1 else {}
    return over(found, limits, truth.effects(truth.answer(solution))) if wrong else {}


def judge(case: Any, solution: Any) -> tuple[str, str]:
    """Judge an answer by the reading of the data that it fits best."""
    claims = solution.status is Status.CONVERGED or (
        solution.converged and solution.status in (Status.RANK_DEFICIENT, Status.DEGENERATE)
    )
    if not claims and (solution.status is not Status.APPROXIMATE or np.isnan(solution.residual)):
        return "flagged", solution.status.name
    if case.problem == "kernel-cca" and solution.residual_kind == "unavailable":
        return "flagged", "functions of random features"
    each = []
    with np.errstate(all="ignore"):
        for truth in truth_of(case).readings():
            each.append(faults(truth, solution))
            if not each[-1]:
                return ("right" if claims else "flagged"), solution.status.name
    return "silent", f"{solution.status.name}, residual {solution.residual:.2g}: {min(each, key=len)}"


def score(truth: Truth, test: Any, answer: dict[str, Any]) -> float:
    """The score of held-out rows by the exact answer of the others; nan where nothing varies."""
    case, w = truth.case, truth.data.get("sample_weight", extended(np.ones(len(test))))[test, 0]
    rows = [part.rows[test] for part in truth.parts.values()]
    if case.problem in ("svd", "cca", "pls"):
        scales = [truth.parts[name].scale[:, None] if case.problem != "svd" else 1 for name in truth.parts]
        scales = [1, 1] if case.problem == "pls" else scales
        P = [X @ (scale * answer[f"W{i}"]) for i, (X, scale) in enumerate(zip(rows, scales, strict=True))]
        if case.problem == "svd":
            return float(np.sum(w @ P[0] ** 2) / np.sum(w @ rows[0] ** 2))
        return float(np.sum((w @ (P[0] * P[1])) / np.sqrt((w @ P[0] ** 2) * (w @ P[1] ** 2))))
    X, Y = truth.parts.values()
    target = truth.data[list(truth.parts)[1]][test]
    if case.problem == "kernel-ridge":
        off = target - truth.K[test] @ answer["dual"][0] - truth.intercept(answer["dual"][0])
    else:
        B = answer.get("coefficients")
        if B is None:  # of equal fitted values the shortest
            shortest, _, _ = svd(truth.views[0].d / X.scale[:, None] * truth.views[0].V)
            W = answer["W0"] if "W0" in answer else answer["x"][0]
            B = shortest @ (shortest.T @ (X.scale[:, None] * W))
        if "W0" in answer:
            B = B @ ((X.entries @ B).T @ Y.entries)
        off = (Y.rows[test] - X.rows[test] @ B) * Y.scale
    return float(1 - np.sum(w @ off**2) / np.sum(w @ (target - w @ target / np.sum(w)) ** 2))


def digits(truth: Spectral) -> float:
    """What a hundred roundings of the entries, before means and confounds are subtracted, may do to a value."""
    shifts = np.prod([part.shift for part in truth.parts.values()])
    return 100 * truth.unit * float(truth.size) * float(shifts)


def judge_folds(case: Any, found: Any, warned: bool) -> tuple[str, str]:
    """Hold every score to that of the exact answer; a fold with tied components, or of no digits, has several."""
    labels, given, wrong = case.study["splitter"], np.asarray(found.scores), []
    said = np.broadcast_to(0.0 if found.rounding is None else found.rounding, given.shape)
    ridges = [{"ridge": ridge} for ridge in case.study.get("ridges", ())] or [{}]
    w = case.parameters.get("sample_weight", np.ones(len(labels)))
    for (i, label), (r, ridge), (j, k) in itertools.product(
        enumerate(np.unique(labels)), enumerate(ridges), enumerate(case.study.get("ks", (None,)))
    ):
        if min(np.count_nonzero(w[labels == label]), np.count_nonzero(w[labels != label])) < 2:
            continue
        part = replace(case, parameters=case.parameters | ridge | ({} if k is None else {"k": k}))
        test, whole = labels == label, truth_of(part, None, labels != label)
        if isinstance(whole, Spectral):
            tied = np.any(whole.s[1 : k + 1] > whole.s[:k][: len(whole.s) - 1] * (1 - 1e-6))
            if tied or (len(whole.s) >= (k or 1) and whole.s[(k or 1) - 1] <= digits(whole)):
                continue
        readings = list(whole.readings())
        exact = [score(truth, test, truth.best()) for truth in readings]
        ranks = [len(view.s) for view in readings[-1].views]
        noisy = truth_of(part, whole.noisy(0), labels != label).cut(ranks)
        blur, size = abs(score(noisy, test, noisy.best()) - exact[-1]), 1 + abs(given[i, r, j])
        off = min(abs(given[i, r, j] - value) for value in exact)
        if off > 1e-4 * size + 10 * blur + 10 * said[i, r, j] * size:  # never for nan: nothing varies
            wrong.append(f"fold {label}, {ridge}, k {k}: {given[i, r, j]:.6g} for {exact[-1]:.6g}")
    uncertain = warned or bool(found.uncertain.any())
    return ("silent" if wrong and not uncertain else "flagged" if uncertain else "right"), "; ".join(wrong)
