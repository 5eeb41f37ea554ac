"""The fuzzer finds nothing in a slice of its trials, and would find a lie; its arithmetic is held to exact answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzz import DRAWN, FAILING, Case, attempt, draw, fuzz, windows
from planted import MADE, planted_case
from test_answers import stated
from truths import EPS, svd, truth_of

import linspec as ls

pytestmark = pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")


@pytest.mark.parametrize("problem", DRAWN)
def test_no_answer_of_a_slice_is_wrong_and_claims_to_be_right(problem: str) -> None:
    found = list(fuzz(range(1 if problem == "deep-cca" else 3), seed=4, problems=(problem,)))
    assert not [why for kind, _, _, why in found if kind in FAILING]
    assert any(kind == "right" for kind, *_ in found) or problem == "deep-cca"


def test_a_trial_is_repeated_by_its_two_numbers() -> None:
    one, other, next_one = (draw(*numbers) for numbers in ((3, 5), (3, 5), (3, 6)))
    assert str(one) == str(other) != str(next_one)
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


@pytest.mark.parametrize("grading", [0, 12, 300])
def test_singular_values_of_graded_columns_are_right_to_their_last_digits(grading: float) -> None:
    H = np.array([[1.0]])
    for _ in range(4):
        H = np.block([[H, H], [H, -H]])  # 16 orthogonal columns of length 4, exactly
    D = np.logspace(0, -grading, 8).astype(np.longdouble)
    U, s, V = svd(H[:, :8] * D)
    np.testing.assert_allclose((s / (4 * D)).astype(float), 1, rtol=1e-17)
    shear = np.eye(8, dtype=np.longdouble) + np.triu(np.ones((8, 8)), 1) / 8
    U, s, V = svd((H[:, :8] @ shear).T)  # wide, and not orthogonal
    assert np.max(np.abs(U * s @ V.T - (H[:, :8] @ shear).T)) < 1e-17
    assert max(np.max(np.abs(W.T @ W - np.eye(8))) for W in (U, V)) < 1e-17


# ---- lies -------------------------------------------------------------------------------------


def case_of(problem: str, **more: Any) -> Case:
    alone = problem in ("deep-cca", "incomplete-pca")
    case = planted_case(problem) if alone else stated(problem, "center", "float64")
    return Case(problem, case.arrays, {**case.parameters, **more})


def told(monkeypatch: pytest.MonkeyPatch, case: Case, lie: Any) -> str:
    """The class of an answer after a lie."""
    options: dict[str, Any] = {}
    if case.problem == "deep-cca":
        pytest.importorskip("torch", reason="no torch")
        options = {"solver": "dcca", "width": 8, "epochs": 3}
    found = ls.solve(case.state(), rng=0, **options)
    with monkeypatch.context() as once:
        once.setattr(ls, "solve", lambda *_, **__: lie(found))
        return attempt(case, "auto")[0]


VALUES = {
    "svd": "S", "discriminant": "eigenvalues", "multiset-cca": "eigenvalues", "pls": "singular_values",
    "reduced-rank-regression": "singular_values", "sumcor-cca": "sums", "least-squares": "x",
    "kernel-ridge": "dual", "pls-regression": "x_weights", "ridge-many-targets": "scores",
    "sparse-cca": "values", "sparse-pca": "values", "sparse-pls": "values", "incomplete-pca": "total_variance",
}  # fmt: skip


@pytest.mark.parametrize("problem", MADE)
def test_right_answers_pass_and_wrong_values_are_caught(problem: str, monkeypatch: Any) -> None:
    name, case = VALUES.get(problem, "correlations"), case_of(problem)
    lie = lambda found: replace(found, **{name: np.asarray(getattr(found, name)) * 1.01})  # noqa: E731
    classes = [told(monkeypatch, case, each) for each in (lambda found: found, lie)]
    assert classes == (["flagged"] * 2 if problem == "deep-cca" else ["right", "silent"])


@pytest.mark.parametrize("other", [0.7, 0.999])
def test_another_number_than_the_share_needs_is_caught(other: float, monkeypatch: Any) -> None:
    case = case_of("svd", k=0.9)
    found = ls.solve(replace(case, parameters={**case.parameters, "k": other}).state())
    assert told(monkeypatch, case, lambda own: own) == "right"
    assert told(monkeypatch, case, lambda _: found) == "silent"


def test_windows_at_another_lag_are_caught(monkeypatch: Any) -> None:
    plain, epochs = case_of("svd"), np.arange(60) // 25
    signal = plain.arrays["A"]
    case = replace(
        plain,
        arrays={"A": windows(signal, [0, 1], epochs)},
        lagged=[("A", "numpy", signal, [0, 1], epochs)],
    )
    others = [([0, 2], epochs), ([0, 1], 0 * epochs)]
    found = [ls.solve(replace(case, lagged=[("A", "numpy", signal, *other)]).state()) for other in others]
    assert told(monkeypatch, case, lambda own: own) == "right"
    assert [told(monkeypatch, case, lambda _, one=one: one) for one in found] == ["silent"] * 2


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("weights", lambda W: W[:, ::-1] * 1.01),
        ("mean", lambda mean: mean + 0.01),
        ("log_likelihood", lambda value: value + 1.0),
        ("explained_variance", lambda values: values * 1.001),
    ],
)
def test_wrong_laws_of_incomplete_rows_are_caught(name: str, lie: Any, monkeypatch: Any) -> None:
    case = case_of("incomplete-pca")
    rng = np.random.default_rng(0)
    case = replace(case, arrays={"X": np.where(rng.random((60, 8)) < 0.2, np.nan, case.arrays["X"])})
    assert told(monkeypatch, case, lambda own: own) == "right"
    changed = lambda own: replace(own, **{name: lie(getattr(own, name))})  # noqa: E731
    assert told(monkeypatch, case, changed) == "silent"
    for method in ("transform", "score_errors", "impute"):
        with monkeypatch.context() as once:
            true = getattr(ls.get_problem("incomplete-pca").solution, method)
            once.setattr(
                ls.get_problem("incomplete-pca").solution, method, lambda *of, true=true: 1.01 * true(*of)
            )
            assert attempt(case, "auto")[0] == "silent"


@pytest.mark.parametrize("problem", ["cca", "svd", "discriminant", "pls", "reduced-rank-regression"])
def test_a_missing_component_is_caught(problem: str, monkeypatch: Any) -> None:
    rows = ("correlations", "singular_values", "eigenvalues", "S", "Vh")
    columns = ("x_weights", "y_weights", "weights", "y_loadings")

    def cut(found: Any) -> Any:
        less = {name: getattr(found, name)[:-1] for name in rows if hasattr(found, name)}
        fewer = {name: getattr(found, name)[:, :-1] for name in columns if hasattr(found, name)}
        return replace(found, **less, **fewer)

    assert told(monkeypatch, case_of(problem), cut) == "silent"


@pytest.mark.parametrize("term", ["sample_weight", "confounds", "scale", "center"])
@pytest.mark.parametrize(
    "problem", ["least-squares", "svd", "cca", "multiset-cca", "pls-regression", "sumcor-cca"]
)
def test_a_term_that_is_forgotten_is_caught(problem: str, term: str, monkeypatch: Any) -> None:
    rng = np.random.default_rng(1)
    # Without a ridge, scales change nothing.
    plain = case_of(problem, center=True, **({} if problem in ("svd", "pls-regression") else {"ridge": 1.0}))
    arrays = {name: X + rng.standard_normal(X.shape[1:]) for name, X in plain.arrays.items()}
    asked, less = {
        "sample_weight": (rng.uniform(0.2, 3, 60), None), "confounds": (rng.standard_normal(60), None),
        "scale": (True, False), "center": (True, False),
    }[term]  # fmt: skip
    case = replace(plain, arrays=arrays, parameters={**plain.parameters, term: asked})
    found = ls.solve(replace(case, parameters={**case.parameters, term: less}).state(), rng=0)
    assert told(monkeypatch, case, lambda _: found) == "silent"


@pytest.mark.parametrize(
    ("problem", "name", "wrong"),
    [
        ("svd", "U", lambda U: -U),
        ("multiset-cca", "agreement", lambda a: a[::-1]),
        ("cca", "y_weights", lambda W: W[:, ::-1]),
        ("least-squares", "x", lambda x: -x),
    ],
)
def test_what_stands_with_the_values_is_judged(problem: str, name: str, wrong: Any, monkeypatch: Any) -> None:
    case = case_of(problem, **({"left": True} if problem == "svd" else {}))
    lie = lambda found: replace(found, **{name: wrong(getattr(found, name))})  # noqa: E731
    assert told(monkeypatch, case, lie) == "silent"


def test_other_lies_are_caught(monkeypatch: Any) -> None:
    plain = case_of("least-squares")
    assert told(monkeypatch, plain, lambda found: {}["x"]) == "foreign"
    short = ls.solve(replace(plain, arrays={name: X[:-1] for name, X in plain.arrays.items()}).state())
    assert told(monkeypatch, plain, lambda _: short) == "silent"  # a row that is not read
    scores = replace(plain, study={"splitter": np.arange(60) % 3, "score": "r2", "ridges": (0.0, 10.0)})
    own = ls.cross_validate(scores.state(), **scores.study)
    assert attempt(scores, "auto")[0] == "right"
    monkeypatch.setattr(ls, "cross_validate", lambda *_, **__: replace(own, scores=own.scores + 1e-3))
    assert attempt(scores, "auto")[0] == "silent"


def test_the_truth_about_an_example_of_a_paper() -> None:
    """Two columns at an angle: ρ = cos, and a ridge r shrinks it by 1 / (1 + r)."""
    x, y = np.array([[1.0, -1, 1, -1]]).T, np.array([[1.0, -1, 0, 0]]).T
    for ridge in (0.0, 4.0):
        truth = truth_of(Case("cca", {"X": x, "Y": y * np.sqrt(2)}, {"k": 1, "ridge": ridge}))
        np.testing.assert_allclose(float(truth.s[0]), np.sqrt(0.5) * 4 / (4 + ridge), rtol=1e-15)
