"""Tables of answers: the certificate first, one row for each component, and nothing that a page would act on."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest

import linspec as ls
from linspec.errors import MissingPackage


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


def facts(solution) -> dict[str, str]:
    return dict(solution.summary().facts)


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
