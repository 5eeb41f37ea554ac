"""Tables of answers: summaries, labels of rows, leading columns, and correlations of columns with components."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem

RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((30, 4)) * [1, 2, 3, 10] + [0, 5, 1, 100]
PEOPLE = [f"person {i}" for i in range(30)]
COLUMNS = list("abcd")


def test_a_summary_has_the_certificate_first_and_then_the_numbers_of_each_component() -> None:
    table = ls.solve(ls.SVD(DATA, k=3, center=True)).summary()
    exact = np.linalg.svd(DATA - DATA.mean(axis=0), compute_uv=False)
    wanted = {
        "component": [1, 2, 3],
        "singular value": exact[:3],
        "explained variance": exact[:3] ** 2 / 29,
        "explained variance ratio": exact[:3] ** 2 / (exact**2).sum(),
    }
    for name, values in wanted.items():
        assert [row[name] for row in table] == pytest.approx(values)
    assert repr(table).index("CONVERGED") < repr(table).index("singular value")
    assert f"{exact[0]:.6g}" in repr(table)


def test_a_summary_shows_the_residual_and_what_it_is() -> None:
    for problem, kind in (
        (ls.SVD(DATA, k=2), "relative"),
        (ls.CCA(DATA, DATA[:, ::-1] ** 2, k=2), "squared"),
        (ls.LeastSquares(DATA, DATA[:, 0]), "relative gradient"),
        (ls.Discriminant(DATA, DATA[:, :2] ** 2), "relative"),
    ):
        solution = ls.solve(problem)
        said = dict(solution.summary().facts)
        assert said["residual"].startswith(f"{solution.residual:.2g} ({kind}, ")
        assert said["residual"].endswith(f"tolerance {solution.tol:.2g}")
        assert said["message"] == solution.message


# ---- labels of rows and names of columns ------------------------------------------------------


def people(library: str) -> Any:
    """The data with the column "who", or of pandas with that index."""
    pytest.importorskip("narwhals", reason="frames are read by narwhals")
    values = {name: DATA[:, j] for j, name in enumerate(COLUMNS)}
    module = pytest.importorskip(library, reason=f"no {library}")
    if library == "pandas":
        return module.DataFrame(values, index=module.Index(PEOPLE, name="who"))
    table = (module.DataFrame if library == "polars" else module.table)({"who": PEOPLE, **values})
    return ls.labelled(table, "who")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_scores_have_the_labels_of_rows(library: str, tmp_path: Path) -> None:
    data = people(library)
    solution = ls.solve(ls.SVD(data, k=2, center=True, left=True))
    table = solution.scores_table()
    weights = solution.weights_table()
    assert {type(given).__module__.partition(".")[0] for given in (table, weights)} == {library}
    assert [row["column"] for row in solution.weights_table(library="")] == COLUMNS
    np.testing.assert_allclose(np.column_stack([weights["component1"], weights["component2"]]), solution.Vh.T)
    assert [*(table.index if library == "pandas" else table["who"].to_numpy())] == PEOPLE
    for rows in (solution.scores_table(library=""), solution.scores_table(data, library="")):
        assert [row["who"] for row in rows] == PEOPLE
    scores = np.column_stack([solution.scores_table(library="pyarrow")[f"component{i}"] for i in (1, 2)])
    np.testing.assert_allclose(scores, solution.transform(DATA), atol=1e-10)
    solution.save(tmp_path / "answer.npz")
    again = ls.load_solution(tmp_path / "answer.npz")
    assert [row["who"] for row in again.scores_table(library="")] == again.row_names.tolist() == PEOPLE
    part = ls.solve(ls.SVD(data, k=2, left=True).on_rows(np.array([4, 2, 9, 7])))
    assert [row["who"] for row in part.scores_table(library="")] == [PEOPLE[i] for i in (4, 2, 9, 7)]


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ([3, 1, 2], [3, 1, 2]),
        (np.array([0.5, 1.5, 2.5]), [0.5, 1.5, 2.5]),
        (["ä\0", None, ""], ["ä\0", None, ""]),
        ([("a", 1), ("a", 2), ("b", 1)], ["a, 1", "a, 2", "b, 1"]),
    ],
)
def test_labels_of_any_kind_are_saved(labels: Any, wanted: list[Any], tmp_path: Path) -> None:
    solution = ls.solve(ls.SVD(ls.labelled(np.diag([3.0, 2, 1]), labels), k=1, left=True))
    solution.save(tmp_path / "answer.npz")
    again = ls.load_solution(tmp_path / "answer.npz")
    assert [row["row"] for row in again.scores_table(library="")] == wanted


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", ""])
def test_labels_of_several_levels_are_one_text_outside_of_pandas(library: str) -> None:
    pytest.importorskip("narwhals", reason="frames are read by narwhals")
    pd = pytest.importorskip("pandas", reason="no pandas")
    pytest.importorskip(library or "pandas", reason=f"no {library}")
    index = pd.MultiIndex.from_product([range(10), list("xyz")], names=["year", "site"])
    frame = pd.DataFrame(DATA, columns=COLUMNS, index=index)
    table = ls.solve(ls.SVD(frame, k=1)).scores_table(frame, library=library)
    if library == "pandas":
        assert table.index.equals(index)
    else:
        labels = [row["row"] for row in table] if not library else [*table["row"].to_numpy()]
        assert labels[:2] == ["0, x", "0, y"]


def test_tables_without_a_frame_are_of_pandas_where_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also those of a saved answer, of studies, and where a polars frame comes later; a request comes first."""
    pd = pytest.importorskip("pandas", reason="no pandas")
    named = ls.labelled(DATA, PEOPLE, columns=COLUMNS)
    problem = ls.SVD(named, k=2)
    ls.solve(problem).save(tmp_path / "answer.npz")
    solution = ls.load_solution(tmp_path / "answer.npz")
    makers = [
        solution.weights_table,
        solution.loadings_table,
        lambda **asked: solution.scores_table(named, **asked),
        ls.compare(problem, ["gram"]).table,
        ls.cross_validate(ls.CCA(DATA[:, :2], DATA[:, 2:], k=1), ridges=[1.0]).table,
    ]
    assert all(isinstance(make(), pd.DataFrame) for make in makers)
    assert list(makers[0]().index) == COLUMNS
    assert list(makers[2]().index) == PEOPLE
    assert all(isinstance(make(library=""), list) for make in makers)
    pl = pytest.importorskip("polars", reason="no polars")
    rows = pl.DataFrame(dict(zip(COLUMNS, DATA.T, strict=True)))
    assert isinstance(solution.scores_table(rows), pl.DataFrame)
    monkeypatch.delitem(sys.modules, "pandas")
    assert all(isinstance(make(), list) for make in makers)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array, lambda X: lambda: iter([X])])
def test_columns_of_any_data_have_names(wrap: Any, tmp_path: Path) -> None:
    words = np.array(["sun", "rain", "price", "wind"])  # as a vectorizer returns them
    solution = ls.solve(ls.SVD(ls.labelled(wrap(DATA), columns=words), k=1))
    assert [row["column"] for row in solution.weights_table(library="")] == list(words)
    solution.save(tmp_path / "answer.npz")
    assert ls.load_solution(tmp_path / "answer.npz").column_names == {"A": tuple(words)}
    pd = pytest.importorskip("pandas", reason="no pandas")
    frame = pd.DataFrame(DATA, columns=COLUMNS)
    assert ls.labelled(frame, columns=words).column_names == tuple(words)
    with pytest.raises(InvalidProblem, match="A must have the columns of the training data"):
        solution.transform(frame)


def test_leading_columns_are_those_of_largest_weight_by_sign() -> None:
    names = [f"w{j}" for j in range(DATA.shape[1])]
    solution = ls.solve(ls.SVD(ls.labelled(DATA, columns=names), k=2))
    found = solution.leading_columns(3)
    assert [entry[0] for entry in found] == ["component1", "component2"]
    for (_, positive, negative), v in zip(found, solution.Vh, strict=True):
        wanted = sorted(zip(v, names, strict=True))
        assert list(negative) == [(name, weight) for weight, name in wanted if weight < 0][:3]
        assert list(positive) == [(name, weight) for weight, name in reversed(wanted) if weight > 0][:3]
    assert repr(found).count("\n") == 3
    two = ls.solve(ls.CCA(DATA[:, :3], DATA[:, 2:], k=1))
    assert two.leading_columns(1, "Y")[0][1][0][0] == 0  # without names, the number of the column
    with pytest.raises(InvalidOption, match="matrix must be one of 'X', 'Y'; got ''"):
        two.leading_columns()
    with pytest.raises(InvalidOption, match="count must be an integer >= 1; got 0"):
        solution.leading_columns(0)


REFUSED: list[tuple[Any, str]] = [
    (lambda: ls.labelled(DATA, columns=["x", "y"]), "a name for each of the 4 columns"),
    (lambda: ls.labelled(DATA, columns="abcd"), "all different; got 'abcd'"),
    (lambda: ls.labelled(DATA, ["x", "y"]), "a label for each of the 30 rows; got"),
    (lambda: ls.labelled(DATA, "who"), "the name of a column of a frame.*got 'who' for ndarray"),
    (lambda: ls.labelled(lambda: iter([DATA]), PEOPLE), "pass their number"),
    (lambda: ls.solve(ls.SVD(DATA, k=1)).scores_table(), "unless the answer has left singular vectors"),
]


@pytest.mark.parametrize("call, words", REFUSED)
def test_labels_that_do_not_fit_are_refused(call: Any, words: str) -> None:
    with pytest.raises(InvalidProblem, match=words):
        call()


# ---- loadings of components -------------------------------------------------------------------


def correlations(data: Any, scores: Any) -> Any:
    """By the definition of Pearson's coefficient."""
    p = data.shape[1]
    return np.corrcoef(np.column_stack([data, scores]).T)[:p, p:]


COUNTS, Z = RNG.integers(0, 3, 30), RNG.standard_normal((30, 1))
ADJUSTED = {
    "centred": {},
    "scaled": {"scale": True},
    "weights and confounds": {"sample_weight": COUNTS.astype(float), "confounds": Z},
}


@pytest.mark.parametrize("case", ADJUSTED)
@pytest.mark.parametrize("solver", ["direct", "gram", "block-krylov"])
def test_loadings_are_correlations_and_need_no_reading(solver: str, case: str) -> None:
    given = ADJUSTED[case]
    solution = ls.solve(ls.SVD(DATA, k=3, center=True, **given), solver)
    rows = np.repeat(np.arange(30), COUNTS) if "sample_weight" in given else np.arange(30)
    taken = np.column_stack([np.ones(len(rows)), Z[rows] * ("confounds" in given)])
    freed = DATA[rows] - taken @ np.linalg.lstsq(taken, DATA[rows], rcond=None)[0]
    beside = {"confounds": Z[rows]} if "confounds" in given else {}
    wanted = correlations(freed, solution.transform(DATA[rows], **beside))
    np.testing.assert_allclose(solution.loadings(), wanted, atol=1e-6)
    beside = {name: value for name, value in given.items() if name != "scale"}
    np.testing.assert_allclose(solution.loadings(DATA, **beside), wanted, atol=1e-10)


def test_loadings_without_centring_are_cosines() -> None:
    sparse = scipy.sparse.csr_array(np.where(DATA > 4, DATA, 0.0))
    solution = ls.solve(ls.SVD(sparse, k=2))
    scores = solution.transform(sparse)
    dense = sparse.toarray()
    lengths = np.linalg.norm(dense, axis=0)
    wanted = np.divide(dense.T @ scores, lengths[:, None], out=np.zeros((4, 2)), where=lengths[:, None] > 0)
    np.testing.assert_allclose(solution.loadings(), wanted / np.linalg.norm(scores, axis=0), atol=1e-10)


def test_loadings_of_a_column_that_does_not_vary_are_zero() -> None:
    still = DATA.copy()
    still[:, 1] = 7.0
    assert not ls.solve(ls.SVD(still, k=2, center=True)).loadings()[1].any()


def test_rows_of_a_slice_of_a_frame_keep_their_labels() -> None:
    """`frame.iloc[::2]` has an index that counts, but not from 0: assigned to the frame, numbers went to other rows."""
    pd = pytest.importorskip("pandas", reason="no pandas")
    frame = pd.DataFrame(DATA, columns=COLUMNS)
    solution = ls.solve(ls.LeastSquares(frame[["a", "b"]], frame["c"], center=True))
    for part in (frame.iloc[::2], frame.iloc[10:], frame.iloc[::-1]):
        table = solution.predictions_table(part[["a", "b"]])
        assert list(table.index) == list(part.index)
    assert list(solution.predictions_table(frame[["a", "b"]]).index) == list(range(30))


EVIL = "\x1b[31mred\x07\u202e\n"
"""A name that colours a terminal, rings its bell, turns its writing round, and begins a line."""


def test_names_are_printed_without_control_characters() -> None:
    X = ls.labelled(DATA, columns=[f"{EVIL}{j}" for j in range(4)])
    Y = ls.labelled(DATA[:, :2] + RNG.standard_normal((30, 2)), columns=[f"y{EVIL}{j}" for j in range(2)])
    for problem, matrices in ((ls.SVD(X, 2), [""]), (ls.LeastSquares(X, Y), [""]), (ls.CCA(X, Y, 2), "XY")):
        solution = ls.solve(problem)
        shown = [repr(solution.leading_columns(2, matrix)) for matrix in matrices]
        for text in (*shown, repr(problem), repr(solution), str(solution.summary())):
            assert not [mark for mark in text if not (mark.isprintable() or mark == "\n")]
        assert all("red" in text and text.count("\n") == 3 for text in shown)
