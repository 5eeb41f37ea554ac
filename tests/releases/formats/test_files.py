"""Files of other libraries are taken with the numbers that these read back, or refused with words that lead there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from releases.conftest import Seen
from releases.formats.write_files import ROWS

import linspec as ls

pytestmark = pytest.mark.filterwarnings("default")


def numbers(data: Any) -> Any:
    """All numbers of what a library returns."""
    data = data.toarray() if sp.issparse(data) else data
    return np.asarray(data.to_pandas() if hasattr(data, "to_pandas") else data, dtype=float)


def taken(data: Any, arguments: dict[str, Any]) -> Any:
    """What linspec makes of data."""
    return ls.open_rows(data, **arguments) if isinstance(data, str | Path) else ls.as_operator(data)


def difference(operator: Any, exact: Any) -> float:
    """The largest difference of numbers, and of singular values, relative to the largest number."""
    exact = numbers(exact)
    size = np.nanmax(abs(exact))
    if np.isnan(exact).any():
        with pytest.raises(ls.errors.NonFiniteData):
            ls.solve(ls.SVD(operator, 2))
    else:
        values = ls.solve(ls.SVD(operator, min(2, *exact.shape))).S
        np.testing.assert_allclose(values, np.linalg.svd(exact, compute_uv=False)[:2], rtol=1e-5)
        if isinstance(operator, ls.operators.StreamedOperator):
            operator = ls.as_operator(operator.matmat(np.eye(exact.shape[1])))
    got = operator.dense()
    assert got.shape == exact.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    return float(np.nanmax(abs(got - exact)) / size)


@pytest.mark.parametrize("name", ROWS)
def test_a_file_is_taken_or_its_refusal_leads_to_the_numbers(name: str, seen: Seen, tmp_path: Path) -> None:
    distributions, write = ROWS[name]
    worst, refused = 0.0, ""
    for data, arguments, *words, exact in write(tmp_path):
        if words:
            with pytest.raises(ls.errors.LinspecError, match=words[0]):
                taken(data, arguments).matmat(np.eye(4))
            data, arguments, refused = words[1], {}, f"; refused: {words[0]}"
        worst = max(worst, difference(taken(data, arguments), exact))
    assert worst < 1e-7
    seen(name, distributions, f"{worst:.0e}{refused}")
