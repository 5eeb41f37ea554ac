"""Arrays of several libraries and devices: what comes back is what went in, to the bit."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest
from backends import BACKENDS

from linspec import arrays
from linspec.arrays import HOST, Device, all_finite, host_dtype, namespace, to_host
from linspec.errors import LinspecError, UnsupportedData

KIT = {each.name: each for each in BACKENDS if each.is_array and not each.missing()}
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


def test_namespace_of_one_library_and_not_of_two():
    a, b = np.ones(2), strict.ones(2)
    assert namespace(a, a) is HOST.xp
    assert namespace(b) is strict
    with pytest.raises(UnsupportedData, match=r"one library; got array_api_strict, numpy\. Convert"):
        namespace(a, b)


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


@pytest.mark.parametrize("dtype", ["complex64", "object", "U3", "datetime64[s]", "i4,f8", None, "gibberish"])
def test_what_is_no_real_number_is_refused_in_one_voice(dtype):
    with pytest.raises(UnsupportedData, match=r"^X must .*; got dtype .*\. \w+") as caught:
        arrays.working_dtype(dtype, "X")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, LinspecError)


@pytest.mark.parametrize("dtype", REAL_DTYPES)
@pytest.mark.parametrize("name", KIT)
def test_arrays_go_there_and_back(name, dtype):
    if not KIT[name].float64 and dtype == "float64":
        pytest.skip("no float64 there")
    x = np.array([[0, 1, 3], [100, 7, 1]]).astype(dtype)
    there = KIT[name].wrap(x)
    host, device = to_host(there), Device.of(there)
    assert isinstance(host, np.ndarray)
    assert host.dtype == x.dtype
    assert np.array_equal(host, x)
    for source in (x, x[::-1], np.eye(3, dtype=np.float32)) if dtype.startswith("float") else ():
        placed = device.asarray(source, dtype)
        assert Device.of(placed) == device
        assert host_dtype(placed) == np.dtype(dtype)
        assert np.array_equal(to_host(placed), source)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_all_finite_finds_one_bad_entry(value, dtype):
    x = np.ones((50, 4), dtype)
    assert all_finite(x)
    x[31, 2] = value
    assert not all_finite(x)
    x[32, 2] = -value  # a sum of inf and -inf
    assert not all_finite(x)


def test_all_finite_is_not_fooled_by_overflow_or_integers():
    assert all_finite(np.full(10, 3e38, np.float32)), "the sum overflows, the entries do not"
    assert all_finite(np.full(10, 1.7e308))
    assert all_finite(np.full(70000, 60000, np.float16))
    assert all_finite(np.array([2**63 - 1]))
    assert all_finite(strict.asarray([True, False]))
