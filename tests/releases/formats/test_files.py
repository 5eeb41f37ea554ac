"""Files of other libraries are taken with the numbers that these read back, or refused with words that lead there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from releases.conftest import Seen
from releases.formats.write_files import ROWS

import linspec as ls


def difference(operator: Any, exact: Any) -> float:
    """The largest difference of numbers, relative to the largest of them; the singular values are compared, too."""
    exact = np.asarray(exact.toarray() if sp.issparse(exact) else exact, float)
    if np.isnan(exact).any():
        with pytest.raises(ls.errors.NonFiniteData):
            ls.solve(ls.SVD(operator, 2))
        got = operator.dense()
    else:
        values = ls.solve(ls.SVD(operator, min(2, *exact.shape))).S
        np.testing.assert_allclose(values, np.linalg.svd(exact, compute_uv=False)[:2], rtol=1e-5)
        got = operator.matmat(np.eye(exact.shape[1]))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    return float(np.nanmax(abs(got - exact)) / np.nanmax(abs(exact)))


def taken(data: Any, arguments: dict[str, Any]) -> Any:
    return ls.open_rows(data, **arguments) if isinstance(data, str | Path) else ls.as_operator(data)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ROWS)
def test_a_file_is_taken_or_its_refusal_leads_to_the_numbers(name: str, seen: Seen, tmp_path: Path) -> None:
    (distributions, write), refused, worst = ROWS[name], "", 0.0
    if not all(map(find_spec, distributions.split())):
        pytest.skip("versions.toml does not name it here")
    for data, arguments, *words, exact in write(tmp_path):
        if words:
            with pytest.raises(ls.errors.LinspecError, match=words[0]):
                taken(data, arguments).matmat(np.eye(4))
            (refused, data), arguments = words, {}
        worst = max(worst, difference(taken(data, arguments), exact))
    assert worst < 1e-7
    seen(name, distributions, f"{worst:.0e}{refused and f' as the error tells: {refused}'}")
