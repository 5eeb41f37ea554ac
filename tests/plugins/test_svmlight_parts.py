"""svmlight in several files, and test files of another width: what scikit-learn reads of them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("linspec_files")

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem

RNG = np.random.default_rng(5)
ROWS = (RNG.random((40, 6)) < 0.5) * RNG.integers(1, 5, (40, 6)).astype(float)


def put(path: Path, rows: Any, base: int, labels: Any = None) -> str:
    labels = np.zeros(len(rows), dtype=int) if labels is None else labels
    lines = [
        " ".join([str(label), *(f"{j + base}:{value}" for j, value in enumerate(row) if value)])
        for label, row in zip(labels, rows, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("lacking", [0, 5, None])
def test_parts_share_base_and_width(base: int, lacking: int | None, tmp_path: Path) -> None:
    """One part lacks the first or the last feature."""
    rows = ROWS.copy()
    if lacking is not None:
        rows[20:, lacking] = 0
    parts = [put(tmp_path / f"part{i}.svm", rows[20 * i : 20 * i + 20], base) for i in range(2)]
    for given in (parts, str(tmp_path / "part*.svm")):
        np.testing.assert_array_equal(ls.open_rows(given).dense(), rows)
    np.testing.assert_array_equal(ls.open_rows(parts[::-1]).dense(), np.roll(rows, 20, axis=0))
    peer = pytest.importorskip("sklearn.datasets").load_svmlight_files(parts, zero_based=not base)
    np.testing.assert_array_equal(
        ls.open_rows(parts).dense(), np.vstack([peer[0].toarray(), peer[2].toarray()])
    )


def test_labels_and_classes_of_parts(tmp_path: Path) -> None:
    labels = [[0, 1, 0], [2, 0, 2]]
    parts = [put(tmp_path / f"part{i}.svm", ROWS[:3], 1, labels[i]) for i in range(2)]
    np.testing.assert_array_equal(ls.open_rows(parts, part="classes").dense(), np.eye(3)[[0, 1, 0, 2, 0, 2]])
    np.testing.assert_array_equal(ls.open_rows(parts, part="labels").dense().ravel(), [0, 1, 0, 2, 0, 2])


@pytest.mark.parametrize("base", [0, 1])
def test_test_rows_of_another_width(base: int, tmp_path: Path) -> None:
    train = put(tmp_path / "train.svm", ROWS, base, RNG.integers(0, 9, 40))
    found = ls.solve(ls.LeastSquares(train, ls.open_rows(train, part="labels"), center=True))
    narrow, wide = ROWS[:9].copy(), np.column_stack([ROWS[:9], np.ones(9)])
    narrow[:, [0, 5]] = 0
    for rows in (narrow, wide, np.zeros((3, 6))):
        path = put(tmp_path / "test.svm", rows, base)
        with pytest.raises(InvalidProblem, match=r"6 columns|no features"):
            found.predict(path)
        test = ls.open_rows(path, columns=range(6), base=base)
        np.testing.assert_allclose(found.predict(test), rows[:, :6] @ found.x + found.intercept, atol=1e-10)


def test_the_base_is_what_the_user_says(tmp_path: Path) -> None:
    path, zero = put(tmp_path / "a.svm", ROWS[:, 1:], 1), put(tmp_path / "b.svm", ROWS, 0)  # no index is 0
    np.testing.assert_array_equal(ls.open_rows(path, base=0).dense(), ROWS * (np.arange(6) > 0))
    np.testing.assert_array_equal(ls.open_rows(path, base=1).dense(), ROWS[:, 1:])
    for wrong in (2, True, "0"):
        with pytest.raises(InvalidOption, match="base must be 0, 1 or None"):
            ls.open_rows(path, base=wrong)
    with pytest.raises(InvalidProblem, match="base=1; got the index 0"):
        ls.open_rows(zero, base=1)


def test_a_fault_names_its_file_and_its_row(tmp_path: Path) -> None:
    good, bad = put(tmp_path / "a.svm", ROWS, 1), tmp_path / "b.svm"
    bad.write_text("1 2:1\n0 3:1 3:2\n")
    with pytest.raises(InvalidProblem, match=r"b\.svm, row 1: the index 3 occurs twice"):
        ls.open_rows([good, bad])
    bad.write_text("1 2:1\none 3:1\n")
    with pytest.raises(InvalidProblem, match=r"b\.svm, row 1: one number"):
        ls.open_rows([good, bad], part="labels")
    with pytest.raises(InvalidProblem, match="'labels' and 'classes'; got 'names'"):
        ls.open_rows(good, part="names")
