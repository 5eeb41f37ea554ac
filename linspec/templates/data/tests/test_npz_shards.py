"""The contract of every adapter, and the further promises of this one."""

import numpy as np
import pytest
from linspec_npz_shards.npz_shards import NpzShards
from linspec_npz_shards.samples import written

import linspec as ls
from linspec.testing import check_operator, conformance

test_conformance = conformance("operator/npz-shards")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_matrix_of_all_rows(tmp_path, dtype):
    rows = np.random.default_rng(0).standard_normal((95, 8)).astype(dtype)
    data = written(tmp_path, rows, (40, 40, 41))  # the second file has no rows, the third has one
    assert not check_operator(data, entries=rows)
    of_files, of_rows = (ls.solve(ls.SVD(A, k=3, center=True), "gram") for A in (data, rows))
    assert np.array_equal(of_files.Vh, of_rows.Vh)
    assert of_files.passes == of_rows.passes


def test_files_with_other_columns_are_refused(tmp_path):
    np.savez(tmp_path / "three.npz", rows=np.ones((2, 3)))
    np.savez(tmp_path / "four.npz", rows=np.ones((2, 4)))
    data = NpzShards((str(tmp_path / "three.npz"), str(tmp_path / "four.npz")))
    with pytest.raises(ls.errors.InvalidProblem, match=r"four\.npz: rows must be a matrix"):
        ls.as_operator(data)
