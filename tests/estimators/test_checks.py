"""scikit-learn's own checks of estimators, on all of them, and (slow) with every solver and every target.

scikit-learn knows its classes CCA and PLSRegression by name, whose `fit_transform(X, y)` returns a pair, and expects a
pair of every class of these names. Ours return the variates of X, as pipelines need it, and are checked under other
names.
"""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import linspec as ls
from linspec.estimators import (
    CCA,
    PCA,
    Discriminant,
    IncompletePCA,
    KernelCCA,
    KernelRidge,
    MultisetCCA,
    PLSRegression,
    ReducedRankRegression,
    Ridge,
    RidgeCV,
    of,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning", "ignore::linspec.errors.AccuracyWarning"
)


class Pairs(CCA):
    """CCA under a name that scikit-learn does not know."""


class Latent(PLSRegression):
    """PLSRegression under a name that scikit-learn does not know."""


VIEWS = [[0], [-1]]
EQUIVALENCE = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
WEIGHTS = dict.fromkeys(EQUIVALENCE, "minibatches are drawn by row, not by weight")
NOT_UNIQUE = dict.fromkeys(EQUIVALENCE, "of fewer rows that count than columns, many weights reach 1")
EQUAL_ROWS = dict.fromkeys(
    ("check_fit2d_1feature", "check_fit_check_is_fitted"),
    "most rows of its y are equal, and their median distance, the default scale of a kernel, is refused",
)
FAMILIES = {
    "cca": lambda solver: Pairs(n_components=1, solver=solver),
    "discriminant": lambda solver: Discriminant(solver=solver),
    "kernel-cca": lambda solver: KernelCCA(solver=solver),
    "kernel-ridge": lambda solver: KernelRidge(solver=solver),
    "least-squares": lambda solver: Ridge(solver=solver),
    "multiset-cca": lambda solver: MultisetCCA(columns=VIEWS, solver=solver),
    "pls-regression": lambda solver: Latent(n_components=1, solver=solver),
    "reduced-rank-regression": lambda solver: ReducedRankRegression(solver=solver),
    "svd": lambda solver: PCA(solver=solver),
}
EVERY_SOLVER = [make(solver) for problem, make in FAMILIES.items() for solver in ls.solvers(problem)]
EVERY_TARGET = [Discriminant(target=name) for name in ("opls", "cca", "hsl", "hsl-clique", "hsl-star")]


def expected(estimator):
    """The checks that fail, and why."""
    by_class = {KernelCCA: EQUAL_ROWS}
    by_solver = {"stochastic-appgrad": WEIGHTS, "lobpcg": NOT_UNIQUE}
    return by_class.get(type(estimator)) or by_solver.get(getattr(estimator, "solver", ""), {})


@parametrize_with_checks(
    [
        *(PCA(), Pairs(n_components=1), Ridge(), RidgeCV(), Discriminant(), KernelCCA(), KernelRidge()),
        *(Latent(n_components=1), ReducedRankRegression(), MultisetCCA(columns=VIEWS), IncompletePCA()),
        *(of("svd")(), of("least-squares")(), of("pls")()),
    ],
    expected_failed_checks=expected,
)
@pytest.mark.slow(keep=200)
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [*EVERY_SOLVER, *EVERY_TARGET], ids=str)
def test_checks_with_every_solver_and_target(estimator):
    known = expected(estimator)
    results = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=known)
    failed = [found for found in results if found["status"] == "failed"]
    assert not [f"{found['check_name']}: {found['exception']}" for found in failed]
