"""Problems and moments as Python objects: what they show, and that they survive pickle."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls

ROOT = Path(ls.__file__).parent.parent
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
Y = X[:, :3] @ RNG.standard_normal((3, 4)) + RNG.standard_normal((40, 4))
SPARSE = scipy.sparse.random(40, 6, 0.4, random_state=0, format="csr")

PROBLEMS = {
    "cca": lambda A: ls.CCA(A, Y, 2, ridge=(1.0, 2.0)),
    "svd": lambda A: ls.SVD(A, 2, center=True),
    "least-squares": lambda A: ls.LeastSquares(A, Y, [0.5, 5.0]),
    "discriminant": lambda A: ls.Discriminant(A, Y, 2),
}
VALUES = {"cca": "correlations", "svd": "S", "least-squares": "x", "discriminant": "eigenvalues"}


def slices():
    """A module's function: pickle takes it by its name."""
    yield X[:15]
    yield X[15:]


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture
def path(tmp_path) -> Path:
    np.save(tmp_path / "X.npy", X)
    return tmp_path / "X.npy"


def answer(problem):
    return np.asarray(getattr(ls.solve(problem, rng=0), VALUES[problem.name]))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "kind", ["array", "float32", "integers", "sparse", "csc", "path", "centred", "slices"]
)
def test_a_problem_survives_pickle(kind, name, path):
    data = {
        "array": X,
        "float32": X.astype(np.float32),
        "integers": (10 * X).astype(np.int16),
        "sparse": SPARSE,
        "csc": SPARSE.tocsc(),
        "path": path,
        "centred": ls.as_operator(X).centered(X.mean(axis=0)),
        "slices": slices,
    }[kind]
    problem = PROBLEMS[name](data)
    copy = again(problem)
    assert repr(copy) == repr(problem)
    np.testing.assert_array_equal(answer(copy), answer(problem))


def test_arrays_of_another_library_survive_with_their_library():
    problem = ls.LeastSquares(strict.asarray(X), strict.asarray(Y))
    copy = again(problem)
    assert copy.A.home == problem.A.home
    np.testing.assert_array_equal(answer(copy), answer(problem))


def test_moments_keep_what_they_hold(path):
    for moments in (ls.Moments(X, Y, center=True), ls.Moments(path, center=True)):
        moments.products(X[:6, :2])
        passes = moments.passes
        copy = again(moments)
        np.testing.assert_array_equal(copy.products(X[:6, :2])[0], moments.products(X[:6, :2])[0])
        assert copy.held
        assert copy.passes == passes
    shared = ls.CCA(ls.Moments(X, Y, center=True), k=2)
    assert again(shared).shared.X is not shared.shared.X
    np.testing.assert_array_equal(answer(again(shared)), answer(shared))


def test_a_file_is_pickled_as_its_place_and_not_as_its_entries(tmp_path):
    entries = RNG.standard_normal((3000, 8))
    rows, columns = tmp_path / "rows.npy", tmp_path / "columns.npy"
    np.save(rows, entries)
    np.save(columns, np.asfortranarray(entries))
    mapped = np.load(rows, mmap_mode="r")
    for data, expected in (
        (rows, entries),
        (columns, entries),
        (mapped[100:900, 1:7], entries[100:900, 1:7]),
        (mapped[::-3, ::2], entries[::-3, ::2]),
        (mapped[5:20].T, entries[5:20].T),
    ):
        pickled = pickle.dumps(ls.SVD(data, 2))
        assert len(pickled) < 2000
        np.testing.assert_array_equal(pickle.loads(pickled).A.dense(), expected)
    # The copy reads the file: it sees what is written there later.
    copy = again(ls.SVD(rows, 2))
    np.save(rows, 2 * entries)
    np.testing.assert_array_equal(copy.A.dense(), 2 * entries)


def test_a_problem_goes_to_another_process(path):
    pickled = path.with_name("problem.pickle")
    problem = ls.CCA(path, SPARSE, 2, ridge=1.0)
    pickled.write_bytes(pickle.dumps(problem))
    script = (
        "import pickle, sys, linspec as ls; from pathlib import Path\n"
        "problem = pickle.loads(Path(sys.argv[1]).read_bytes())\n"
        "print(ls.solve(problem, 'gram').correlations.tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(pickled)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ls.solve(problem, "gram").correlations.tobytes().hex()


def test_what_cannot_be_pickled_says_so_as_python_does():
    with pytest.raises(TypeError, match="generator"):
        pickle.dumps(ls.SVD(slices(), 2))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ls.SVD(lambda: slices(), 2))  # noqa: PLW0108 (a lambda is what is tried)


def test_what_problems_and_moments_show(path):
    shown = repr(ls.CCA(X.astype(np.float32), SPARSE, 3, ridge=(0.5, 2)))
    for fact in ("CCA(", "X=", "40 x 6, float32", "Y=", "float64", "k=3", "ridge=(0.5, 2.0)", "center=True"):
        assert fact in shown
    assert "MappedOperator(40 x 6, float64), k=2, center=False, left=True)" in repr(
        ls.SVD(path, 2, left=True)
    )
    assert "ridge=0.5" in repr(ls.LeastSquares(X, Y, 0.5))
    assert len(repr(ls.LeastSquares(X, Y, np.geomspace(1, 2, 500)))) < 300
    assert "H=DenseOperator(40 x 4, float64), k=2" in repr(ls.Discriminant(X, Y, 2))
    shown = repr(ls.Moments(X, Y, center=True, form="implicit"))
    assert re.fullmatch(r"Moments\(X=.*40 x 6.*, Y=.*40 x 4.*, center=True, form='implicit'\)", shown)
    assert repr(ls.Moments(lambda: slices())).startswith("Moments(X=StreamedOperator(? x 6")  # noqa: PLW0108


def test_looking_at_a_problem_reads_no_entry():
    class Blind(ls.LinearOperator):
        shape, dtype = (9, 3), np.dtype(np.float64)

        def _matmat(self, V):
            raise AssertionError("read")

        _rmatmat = _matmat

    assert "9 x 3" in repr(ls.SVD(Blind(), 1))
    assert "9 x 3" in repr(ls.Moments(Blind()))


def test_every_package_says_that_it_is_typed():
    packages = [ROOT / "linspec", *(ROOT / "plugins").glob("linspec_*")]
    assert len(packages) > 1
    assert [package.name for package in packages if not (package / "py.typed").is_file()] == []


# ---- parameters that there are not ---------------------------------------------------------------


ELSEWHERE = [
    # what scikit-learn, SciPy, cca-zoo and CCA packages in R call them
    (lambda: ls.SVD(X, n_components=2), "n_components", "'k'"),
    (lambda: ls.CCA(X, Y, n_components=2), "n_components", "'k'"),
    (lambda: ls.CCA(X, Y, latent_dimensions=2), "latent_dimensions", "'k'"),
    (lambda: ls.Discriminant(X, Y, n_components=2), "n_components", "'k'"),
    (lambda: ls.Discriminant(X, Y, n_componets=2), "n_componets", "'k'"),
    (lambda: ls.LeastSquares(X, Y, alpha=1.0), "alpha", "'ridge'"),
    (lambda: ls.CCA(X, Y, 2, c=0.1), "'c'", "'ridge'"),
    (lambda: ls.CCA(X, Y, 2, l2=0.1), "l2", "'ridge'"),
    (lambda: ls.Discriminant(X, Y, 2, reg=0.1), "reg", "'ridge'"),
    (lambda: ls.CCA(X, Y, 2, fit_intercept=True), "fit_intercept", "'center'"),
    (lambda: ls.SVD(X, 2, centre=True), "centre", "'center'"),
    (lambda: ls.SVD(X, K=2), "'K'", "'k'"),
    (lambda: ls.SVD(X=X, k=2), "'X'", "'A'"),
    (lambda: ls.LeastSquares(X=X, y=Y), "'X'", "'A'"),
    (lambda: ls.LeastSquares(X, y=Y), "'y'", "'B'"),
    (lambda: ls.CCA(X, y=Y, k=2), "'y'", "'Y'"),
    (lambda: ls.Discriminant(X, y=Y), "'y'", "'H'"),
    (lambda: ls.SVD(X, 2, random_state=0), "random_state", "linspec.solve. Pass rng="),
    (lambda: ls.CCA(X, Y, 2, max_iter=9), "max_iter", "linspec.solve. Pass max_iterations="),
]


@pytest.mark.parametrize("make, given, meant", ELSEWHERE, ids=[given for _, given, _ in ELSEWHERE])
def test_a_name_from_another_library_ends_in_the_name_here(make, given, meant):
    with pytest.raises(TypeError) as caught:
        make()
    message = str(caught.value)
    assert given in message.split(".", maxsplit=1)[0]
    assert meant in message


def test_without_a_likely_name_the_parameters_are_listed():
    with pytest.raises(
        TypeError, match=r"'zebra'\. Its parameters: A, B, ridge, center, scale, sample_weight, confounds\."
    ):
        ls.LeastSquares(X, Y, zebra=1)
    with pytest.raises(TypeError, match=r"'fit_intercept'\. Did you mean 'center'"):
        ls.LeastSquares(X, Y, fit_intercept=True)  # not a parameter that this problem has by another name


def test_a_problem_of_someone_else_suggests_its_own_parameters():
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class Sparse(ls.SVD):
        penalty: float = 1.0

    assert Sparse(X, 2, penalty=2.0).penalty == 2.0
    with pytest.raises(TypeError, match=r"Sparse has no parameter 'penalt'\. Did you mean 'penalty'"):
        Sparse(X, 2, penalt=2.0)
    with pytest.raises(TypeError, match="Did you mean 'k'"):
        Sparse(X, n_components=2)


@pytest.mark.parametrize("problem", [ls.CCA, ls.SVD, ls.LeastSquares, ls.Discriminant])
def test_signatures_stay_visible(problem):
    fields = [field.name for field in dataclasses.fields(problem)]
    assert list(inspect.signature(problem).parameters) == fields


# ---- without k -----------------------------------------------------------------------------------


def wide_slices():
    yield X.T[:2]
    yield X.T[2:]


@pytest.mark.parametrize(
    "data, entries", [(X, X), (X.T.copy(), X.T), (SPARSE, SPARSE.toarray()), (wide_slices, X.T)]
)
def test_an_svd_without_k_has_every_singular_value(data, entries):
    found = ls.solve(ls.SVD(data))
    np.testing.assert_allclose(found.S, np.linalg.svd(entries, compute_uv=False), rtol=1e-10)
    assert found.status is ls.Status.CONVERGED


def test_a_cca_without_k_has_every_pair():
    bases = [np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y)]
    exact = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    for solver in ("direct", "gram", "auto"):
        found = ls.solve(ls.CCA(X, Y), solver)
        np.testing.assert_allclose(found.correlations, exact, atol=1e-10)
        assert found.x_weights.shape == (6, 4)


def test_without_k_a_lower_rank_is_no_shortage():
    low = X[:, :3] @ RNG.standard_normal((3, 6))
    found = ls.solve(ls.SVD(low), "direct")
    assert len(found.S) == 3
    assert found.status is ls.Status.CONVERGED
    assert ls.solve(ls.SVD(low, 6), "direct").status is ls.Status.RANK_DEFICIENT
    centred = ls.solve(ls.SVD(X.T, center=True), "direct")
    assert len(centred.S) == 5  # of 6 rows, about their mean
    both = ls.solve(ls.CCA(low, Y), "gram")
    assert len(both.correlations) == 3
    assert "asked for" not in both.message


def test_without_k_more_than_would_fit_is_refused():
    tall = scipy.sparse.eye_array(5000, 4200, format="csr")
    for make in (lambda: ls.SVD(tall), lambda: ls.CCA(tall, tall)):
        with pytest.raises(
            ls.errors.InvalidProblem, match=r"k must be given for .*4200 columns.* up to 4096"
        ):
            make()
    assert ls.SVD(tall[:, :4096]).k == 4096
    assert ls.SVD(tall, 4200).k == 4200  # whoever asks for it
