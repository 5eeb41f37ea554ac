"""Tables of answers: the certificate first, one row for each component, and nothing that a page would act on."""

from __future__ import annotations

import dataclasses
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import linspec as ls
from linspec.errors import MissingPackage
from linspec.process.plurals import count_of


def rows(n: int = 50, p: int = 6) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, p)) * np.arange(1, p + 1)


class Page(HTMLParser):
    """The texts of cells, in order, and the tags; an element that is not closed is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self._open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_summary_has_the_numbers_of_each_component():
    A = rows()
    solution = ls.solve(ls.SVD(A, k=3, center=True))
    table = solution.summary()
    exact = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)
    assert [row["component"] for row in table] == [1, 2, 3]
    assert [row["singular value"] for row in table] == pytest.approx(exact[:3])
    assert [row["explained variance"] for row in table] == pytest.approx(exact[:3] ** 2 / 49)
    assert [row["explained variance ratio"] for row in table] == pytest.approx(
        exact[:3] ** 2 / (exact**2).sum()
    )
    text = repr(table)
    assert text.index("CONVERGED") < text.index("singular value")
    assert f"{exact[0]:.6g}" in text


def test_summaries_of_the_other_problems():
    X, Y = rows(), rows(p=4)[:, ::-1] + rows(p=4)
    cca = ls.solve(ls.CCA(X, Y, k=2, ridge=1.0)).summary()
    assert set(cca[0]) == {"component", "canonical correlation", "residual", "bound"}
    path = ls.solve(ls.LeastSquares(X, Y, ridge=[0.1, 1.0]))
    assert [row["ridge"] for row in path.summary()] == [0.1, 1.0]
    assert [row["solution"] for row in path.summary()] == [1, 2]
    assert [row["residual"] for row in path.summary()] == path.residuals.tolist()
    one = ls.solve(ls.LeastSquares(X, Y)).summary()
    assert one == []
    assert "CONVERGED" in repr(one)


def test_a_long_table_is_shown_in_part_and_kept_whole():
    A = rows(80, 50)
    table = ls.solve(ls.SVD(A, k=40)).summary()
    assert len(table) == 40
    assert "40 rows in all" in repr(table)
    assert "40 rows in all" in table._repr_html_()


def test_a_summary_becomes_a_frame(monkeypatch):
    table = ls.solve(ls.SVD(rows(), k=2)).summary()
    with monkeypatch.context() as patched:
        patched.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(MissingPackage, match="pip install pandas"):
            table.to_frame()
    pytest.importorskip("pandas")
    frame = table.to_frame()
    assert list(frame.columns) == list(table[0])
    assert frame["singular value"].tolist() == [row["singular value"] for row in table]


def test_html_shows_the_certificate_first_and_is_escaped():
    solution = ls.solve(ls.SVD(rows(), k=2))
    evil = dataclasses.replace(solution, message="<script>alert('x')</script> & more", solver="<b>")
    for shown in (evil, evil.summary()):
        page = Page(shown._repr_html_())
        assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td"}
        assert "<script>" in "".join(page.texts)
        assert page.texts.index("status") < page.texts.index("singular value")
        assert "CONVERGED" in page.texts


def test_html_of_a_problem_shows_its_data_and_numbers():
    page = Page(ls.CCA(rows(), rows(p=4), k=2, ridge=0.5)._repr_html_())
    text = " ".join(page.texts)
    assert "50 x 6" in text
    assert "50 x 4" in text
    assert "0.5" in text


def test_progress_is_shown_where_there_is_no_notebook_and_no_terminal(capsys):
    X, Y = (np.random.default_rng(seed).standard_normal((2000, 40)) for seed in (0, 1))
    ls.solve(ls.CCA(X, Y, k=3), "naive-gradient", form="implicit", tol=1e-300, max_passes=9, progress=True)
    lines = capsys.readouterr().err.split("\r")
    assert lines[1].startswith("naive-gradient: iteration ")
    assert "residual" in lines[1]
    assert lines[-2].isspace()  # and is cleared


def test_one_is_counted_in_the_singular():
    A = rows()
    solution = ls.solve(ls.SVD(A, k=2), "gram")
    assert solution.passes == 1
    path = ls.ridge_path(ls.CCA(A, A[::-1, :3], k=1), [1.0])
    folds = ls.cross_validate(ls.LeastSquares(A, A[:, 0]), ridges=[1.0], splitter=5, rng=0)
    for text in (repr(solution), repr(solution.summary()), repr(path), repr(folds)):
        assert "1 pass" in text
        assert "1 passes" not in text
        assert "1 ridges" not in text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "pass", "1 pass"),
        (2.5, "pass", "2.5 passes"),
        (0, "row", "0 rows"),
        (3_000_000, "row", "3000000 rows"),
        (1, "class", "1 class"),
        (2, "class", "2 classes"),
    ],
)
def test_plurals(number, noun, text):
    assert count_of(number, noun) == text


def facts(solution) -> dict[str, str]:
    return dict(solution.summary().facts)


def test_values_with_a_ridge_are_called_so():
    X, Y = rows(), rows(p=4)[:, ::-1] + rows(p=4)
    for plain, penalised, label in (
        (ls.CCA(X, Y, k=2), ls.CCA(X, Y, k=2, ridge=(0.0, 3.0)), "canonical correlation"),
        (ls.Discriminant(X, Y), ls.Discriminant(X, Y, ridge=2.0), "eigenvalue"),
    ):
        with_ridge, without = ls.solve(penalised), ls.solve(plain)
        assert "with the ridge" in repr(with_ridge)
        assert facts(with_ridge)["ridge"].startswith(
            ("(0, 3)", "2")[label == "eigenvalue"] + f": each {label} is with the ridge"
        )
        assert "ridge" not in repr(without)
        assert "ridge" not in facts(without)
    assert with_ridge.ridge == 2.0
    path = ls.solve(ls.LeastSquares(X, Y, ridge=[0.1, 1.0]))
    assert facts(path)["ridge"] == "(0.1, 1)"


def test_a_summary_shows_the_residual_once_and_what_it_is():
    A = rows()
    for problem, kind in (
        (ls.SVD(A, k=2), "relative"),
        (ls.CCA(A, A[:, ::-1] ** 2, k=2), "squared"),
        (ls.LeastSquares(A, A[:, 0]), "relative gradient"),
        (ls.Discriminant(A, A[:, :2] ** 2), "relative"),
    ):
        solution = ls.solve(problem)
        said = facts(solution)
        assert said["residual"].startswith(f"{solution.residual:.2g} ({kind}, ")
        assert said["residual"].endswith(f"tolerance {solution.tol:.2g}")
        assert "residual 0" not in said["message"]
        assert f"{solution.residual:.2g}" not in said["message"]
        assert f"residual {solution.residual:.2g}" in solution.message  # the message itself has it
    single = ls.solve(ls.SVD(A.astype(np.float32), k=2))
    assert "that products in float32 allow)" in single.message
    assert facts(single)["residual"].endswith("(the least that products in float32 allow)")
    assert facts(single)["message"] == single.status.value


def test_text_behind_the_figures_stays_in_the_message() -> None:
    A = np.random.default_rng(0).standard_normal((40, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = str(ls.solve(ls.SVD(A, k=2), tol=1e-17).summary()).splitlines()
    (residual,) = (line for line in shown if line.startswith("residual"))
    assert residual.endswith("tolerance 1e-17")
