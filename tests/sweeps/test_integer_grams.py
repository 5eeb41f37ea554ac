"""Gram matrices of integers beside integer arithmetic, which does not round."""

from __future__ import annotations

from fractions import Fraction

import array_api_strict
import numpy as np
import pytest

import linspec as ls
from linspec import as_operator
from linspec.arrays import HOST
from linspec.operators.row_blocks import RowBuffer
from linspec.operators.row_model import RowModel
from linspec.sweeps.gram_matrices import GramMatrices
from linspec.sweeps.integer_grams import FEWEST_ROWS, integer_grams

RNG = np.random.default_rng(5)
N = 5000  # more than one block, and a number that none divides
DRAWN = {
    "bool": lambda p: RNG.random((N, p)) < 0.3,
    "genotypes": lambda p: RNG.integers(0, 3, (N, p)).astype(np.int8),
    "bytes": lambda p: RNG.choice(np.array([0, 3, 254, 255], np.uint8), (N, p)),
    "signed bytes": lambda p: RNG.integers(-128, 128, (N, p)).astype(np.int8),
    "counts": lambda p: RNG.poisson(3.0, (N, p)),
    "far from zero": lambda p: RNG.integers(1_000_000, 1_000_300, (N, p)),
    "wider than float32 holds": lambda p: RNG.integers(-3000, 3000, (N, p)).astype(np.int32),
    "growing": lambda p: RNG.integers(0, 2, (N, p)) * np.linspace(1, 5000, N).astype(np.int64)[:, None],
}


def formed(views, about=None, *, center=False, model=None):
    """The Gram and cross matrices of a sweep side by side."""
    rows = about or [None for _ in views]
    task = GramMatrices(HOST, rows, center=center, **({} if model is None else {"model": model}))
    part = task.part([as_operator(A) for A in views])
    return part, part.gram.upper


def in_integers(A, B):
    return A.astype(np.int64).T @ B.astype(np.int64)


@pytest.mark.parametrize("kind", DRAWN)
def test_gram_matrices_about_zero_are_those_of_integer_arithmetic(kind):
    A, B = DRAWN[kind](7), DRAWN[kind](4)
    _, found = formed([A, B])
    for S, (X, Y) in zip([*found[0], *found[1]], [(A, A), (A, B), (B, B)], strict=True):
        np.testing.assert_array_equal(S, in_integers(X, Y))


@pytest.mark.parametrize("kind", DRAWN)
def test_gram_matrices_about_the_means_are_those_of_fractions(kind):
    A, B = DRAWN[kind](3), DRAWN[kind](2)
    part, found = formed([A, B], center=True)
    sums = [[int(s) for s in Z.sum(axis=0, dtype=np.int64)] for Z in (A, B)]
    exact = [
        [float(Fraction(int(g)) - Fraction(a * b, N)) for g, b in zip(row, sums[1], strict=True)]
        for row, a in zip(in_integers(A, B), sums[0], strict=True)
    ]
    lengths = [np.sqrt(np.diag(found[i][0])) for i in (0, 1)]
    np.testing.assert_allclose((found[0][1] - exact) / np.outer(*lengths), 0, atol=1e-14)
    largest = float(np.abs(A.astype(float)).max())
    np.testing.assert_allclose(part.means[0] / largest, np.array(sums[0]) / N / largest, atol=1e-15)


def test_a_constant_column_has_no_spread_and_known_rows_are_subtracted():
    A = RNG.integers(0, 256, (N, 4)).astype(np.uint8)
    A[:, 1] = 77
    _, ((S,),) = formed([A], center=True)
    assert not S[1].any()
    row = np.array([1.1, 76.9, 127.3, 0.0])
    _, ((S,),) = formed([A], [row])
    np.testing.assert_allclose(S, (A - row).T @ (A - row), rtol=1e-13)


def test_weights_count_rows_of_integers():
    A, w = DRAWN["bytes"](5), RNG.integers(0, 3, N).astype(float)
    _, ((S,),) = formed([A], center=True, model=RowModel(center=True, weights=w))
    rows = np.repeat(A, w.astype(int), axis=0).astype(float)
    rows -= rows.mean(axis=0)
    np.testing.assert_allclose(S, rows.T @ rows, rtol=1e-12)


def test_only_what_float32_holds_is_multiplied_in_float32():
    low, high = np.int64(10**12), 2 * int((2**24 / FEWEST_ROWS) ** 0.5)  # the widest span, and one more
    for span, exact in ((high, True), (high + 2, False)):
        A = np.tile(np.array([[low], [low + span]]), (200, 1))
        assert (integer_grams([A], [RowBuffer()]) is not None) is exact
    most = np.full((300, 1), np.iinfo(np.int64).max)
    floats, nothing = np.ones((300, 1)), np.zeros((300, 0), np.uint8)
    for A in (most, floats, nothing):
        assert integer_grams([A], [RowBuffer()]) is None


def test_files_of_bytes_give_the_answer_of_the_array(tmp_path):
    A = RNG.integers(0, 256, (2000, 12)).astype(np.uint8)
    np.save(tmp_path / "bytes.npy", A)
    of_file = ls.solve(ls.SVD(str(tmp_path / "bytes.npy"), 3, center=True), "gram")
    of_floats = ls.solve(ls.SVD(A.astype(float), 3, center=True), "gram")
    np.testing.assert_allclose(of_file.S, of_floats.S, rtol=1e-13)


@pytest.mark.parametrize("kind", ["bool", "genotypes", "bytes", "signed bytes"])
@pytest.mark.parametrize("center", [False, True])
def test_the_host_forms_gram_matrices_for_a_device_without_float64(kind, center):
    """About zero the sums are exact; about the means they are rounded where blocks are merged."""
    A = DRAWN[kind](6)
    rows = as_operator(array_api_strict.asarray(A, device=array_api_strict.Device("no_float64")))
    S = GramMatrices(HOST, [None], center=center).part([rows]).gram.upper[0][0]
    sums, total = A.sum(axis=0, dtype=np.int64), in_integers(A, A)
    exact = (N * total - np.outer(sums, sums)) / N if center else total
    np.testing.assert_allclose(S, exact, rtol=0, atol=1e-14 * exact.max() if center else 0)


@pytest.mark.parametrize("device", ["device1", "no_float64"])
def test_arrays_on_devices_are_left_to_float64(device):
    rows = array_api_strict.asarray(DRAWN["bytes"](6), device=array_api_strict.Device(device))
    assert integer_grams([rows], [RowBuffer()]) is None
