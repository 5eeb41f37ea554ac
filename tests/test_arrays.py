"""Arrays of several libraries and devices: what comes back is what went in, to the bit."""

from __future__ import annotations

import sys
import types

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS as KIT

from linspec import arrays
from linspec.arrays import (
    HOST,
    Home,
    all_finite,
    from_host,
    host_dtype,
    is_array,
    namespace,
    to_host,
    to_host_together,
    triangular_factor,
)
from linspec.errors import LinspecError, UnsupportedData


def readonly(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


def on(device: str):
    return lambda x: strict.asarray(np.array(x), device=strict.Device(device))


BACKENDS = {
    "numpy": np.array,
    "numpy-readonly": readonly,
    "strict": on("CPU_DEVICE"),
    "strict-device1": on("device1"),
    "strict-no-float64": on("no_float64"),
    **{each.name: each.wrap for each in KIT if each.name in {"cupy", "cupy-device1"} and not each.missing()},
}
REAL_DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
)


def lacks(backend: str, dtype: str) -> bool:
    return backend == "strict-no-float64" and dtype == "float64"


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


# ---- what counts as an array ----------------------------------------------------------------------


def test_arrays_of_the_supported_libraries_are_arrays(backend):
    assert is_array(BACKENDS[backend](np.ones((2, 2), np.float32)))


@pytest.mark.parametrize("thing", [[[1.0]], 1.0, None, "text", scipy.sparse.eye_array(2), range(3)])
def test_other_things_are_not(thing):
    assert not is_array(thing)


def test_lazy_arrays_are_left_to_adapters(monkeypatch):
    """dask follows the standard only in part: its arrays must not be taken for ours."""

    class Lazy:
        def __array_namespace__(self, api_version=None):
            return np

    module = types.ModuleType("dask.array")
    module.Array = Lazy
    package = types.ModuleType("dask")
    package.array = module
    monkeypatch.setitem(sys.modules, "dask", package)
    monkeypatch.setitem(sys.modules, "dask.array", module)
    assert not is_array(Lazy())


def test_namespace_of_one_library_and_not_of_two():
    a, b = np.ones(2), strict.ones(2)
    assert namespace(a, a) is HOST.xp
    assert namespace(b) is strict
    with pytest.raises(UnsupportedData, match=r"one library; got array_api_strict, numpy\. Convert"):
        namespace(a, b)


# ---- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_host_dtype_is_the_numpy_dtype(backend, dtype):
    if lacks(backend, dtype):
        pytest.skip("no float64 there")
    assert host_dtype(BACKENDS[backend](np.ones(2, dtype))) == np.dtype(dtype)


@pytest.mark.parametrize(
    "dtype", [np.dtype(d) for d in (*REAL_DTYPES, "float16", "longdouble", ">f8", ">i2")]
)
def test_working_dtype_holds_every_value_it_can(dtype):
    found = arrays.working_dtype(dtype)
    assert found in (np.dtype("float32"), np.dtype("float64"))
    assert found.isnative
    if dtype.kind in "iub" and dtype.itemsize <= 2:
        info = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        values = np.arange(info[0], info[1] + 1)
        assert np.array_equal(values.astype(dtype).astype(found).astype(np.int64), values)
        assert found == np.float32, "short integers need no more"
    elif dtype.kind == "f":
        assert found.itemsize == min(max(dtype.itemsize, 4), 8)
    else:
        assert found == np.float64


@pytest.mark.parametrize(
    "dtype",
    [
        "complex64",
        "complex128",
        "object",
        "U3",
        "S3",
        "datetime64[s]",
        "timedelta64[s]",
        "i4,f8",
        None,
        "gibberish",
    ],
)
def test_what_is_no_real_number_is_refused_in_one_voice(dtype):
    with pytest.raises(UnsupportedData, match=r"^X must .*; got dtype .*\. \w+") as caught:
        arrays.working_dtype(dtype, "X")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, LinspecError)


# ---- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_to_host_gives_the_same_numbers(backend, dtype):
    if lacks(backend, dtype):
        pytest.skip("no float64 there")
    x = np.array([[0, 1, 3], [100, 7, 1]]).astype(dtype)
    host = to_host(BACKENDS[backend](x))
    assert isinstance(host, np.ndarray)
    assert host.dtype == x.dtype
    assert np.array_equal(host, x)


def test_to_host_does_not_copy_numpy():
    x = readonly(np.ones(3))
    assert to_host(x) is x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_place_brings_anything_home(backend, dtype):
    if lacks(backend, dtype):
        pytest.skip("no float64 there")
    home = Home.of(BACKENDS[backend](np.ones(1, np.float32)))
    for source in (np.arange(6).reshape(2, 3), readonly(np.eye(2)), np.eye(3, dtype=np.float32)[::-1]):
        placed = home.place(source, dtype)
        assert Home.of(placed) == home
        assert host_dtype(placed) == np.dtype(dtype)
        assert np.array_equal(to_host(placed), source)


def test_place_between_devices_of_one_library():
    """float64 is narrowed before it goes where there is none, and widened after it has come from there."""
    x = np.array([[1.0, 1e-9 + 1]])
    poor, rich = (Home(strict, strict.Device(name)) for name in ("no_float64", "device1"))
    there = poor.place(rich.place(x), np.float32)
    assert Home.of(there) == poor
    back = rich.place(there)
    assert Home.of(back) == rich
    assert host_dtype(back) == np.float64
    assert np.array_equal(to_host(back), x.astype(np.float32))


def test_place_refuses_another_library():
    class Foreign:
        dtype = "float64"
        shape = (1,)

        def __array_namespace__(self, api_version=None):
            return types.ModuleType("foreign")

    with pytest.raises(UnsupportedData, match="cannot be multiplied with data of array_api_strict"):
        Home(strict, strict.Device("CPU_DEVICE")).place(Foreign())


def test_place_leaves_the_source_alone():
    x = np.arange(4.0)
    placed = Home(strict, strict.Device("CPU_DEVICE")).place(x)
    placed[0] = 7.0
    assert x[0] == 0.0


@pytest.mark.parametrize("device", ["no_float64", "no_x64"])
def test_blocks_live_on_the_host_where_the_device_has_no_float64(device):
    home = Home(strict, strict.Device(device))
    assert home.blocks == HOST
    assert Home(strict, strict.Device("device1")).blocks == Home(strict, strict.Device("device1"))
    assert HOST.blocks == HOST


def test_from_host_keeps_the_dtype_where_there_is_one(backend):
    like = BACKENDS[backend](np.ones(2, np.float32))
    for dtype in ("float32", "float64", "int32"):
        x = np.array([1, 2, 5], dtype)
        found = from_host(x, like=like)
        assert Home.of(found) == Home.of(like)
        assert host_dtype(found) == np.dtype("float32" if lacks(backend, dtype) else dtype)
        assert np.array_equal(to_host(found), x)


def test_zeros_eye_and_concat(backend):
    home = Home.of(BACKENDS[backend](np.ones(1, np.float32)))
    assert np.array_equal(to_host(home.zeros((2, 3), "float32")), np.zeros((2, 3)))
    blocks = home.blocks
    both = blocks.concat([blocks.eye(2), blocks.zeros((2, 1))])
    assert Home.of(both) == blocks
    assert np.array_equal(to_host(both), np.eye(2, 3))
    only = blocks.eye(2)
    assert blocks.concat([only]) is only


# ---- finiteness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_all_finite_finds_one_bad_entry(value, dtype):
    x = np.ones((50, 4), dtype)
    assert all_finite(x)
    x[31, 2] = value
    assert not all_finite(x)
    x[32, 2] = -value  # a sum of inf and -inf
    assert not all_finite(x)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_all_finite_on_devices(backend, value):
    x = np.ones((5, 4), np.float32)
    assert all_finite(BACKENDS[backend](x))
    x[3, 1] = value
    assert not all_finite(BACKENDS[backend](x))


def test_all_finite_is_not_fooled_by_overflow_or_integers():
    assert all_finite(np.full(10, 3e38, np.float32)), "the sum overflows, the entries do not"
    assert all_finite(np.full(10, 1.7e308))
    assert all_finite(np.full(70000, 60000, np.float16))
    assert all_finite(np.array([2**63 - 1]))
    assert all_finite(strict.asarray([True, False]))


def test_small_matrices_travel_together(backend):
    """In both directions, of any shape, together with arrays that are on the host already."""
    home = Home.of(BACKENDS[backend](np.ones(1, np.float32))).blocks
    given = [np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.array(7.0), np.arange(5.0), np.eye(3)]
    there = home.place_together(*given)
    assert all(Home.of(x) == home for x in there)
    back = to_host_together(there[0].T, *there[1:3], given[3], there[4])
    expected = [given[0].T, *given[1:]]
    for x, y in zip(back, expected, strict=True):
        assert isinstance(x, np.ndarray)
        assert x.shape == y.shape
        np.testing.assert_array_equal(x, y)
    assert home.place_together() == to_host_together() == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(9, 4), (4, 4), (3, 5)])
def test_a_triangular_factor_has_the_inner_products(backend, shape):
    home = Home.of(BACKENDS[backend](np.ones(1, np.float32))).blocks
    A = np.random.default_rng(0).standard_normal(shape)
    R = to_host(triangular_factor(home.place(A)))
    assert R.shape == (min(shape), shape[1])
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, A.T @ A, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_synchronize_waits_for_nothing_on_the_host(backend):
    assert arrays.synchronize(BACKENDS[backend](np.ones(1, np.float32))) is None
