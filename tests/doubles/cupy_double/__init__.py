"""A double of CuPy: `cupy` and `cupyx` over NumPy and SciPy, for machines without a GPU.

Problem: linspec promises to run on CuPy, and the machines of its tests have no GPU.
Method: a double that has the names and signatures of a real release, dumped from its wheel by `dump.py`, and that is as
strict as CuPy where libraries of arrays differ. `array_api_compat.cupy` is the real one and takes it for CuPy.

- A name that CuPy lacks raises AttributeError, a keyword that it lacks TypeError. What CuPy has and the double lacks
  raises NotImplementedError: the double has what linspec uses.
- Results without dimensions are arrays of the device. ``__array__`` raises TypeError; arrays of host and device do not
  meet in one operation.
- ``float``, ``bool``, ``int`` and what else makes the host wait is counted, by file and line, or raises
  `ImplicitSync` (``ACCOUNT.strict``). Transfers are counted with their bytes.
- There are two devices. What launches a kernel while another device than that of its arrays is current raises
  ValueError, as CuPy does between devices without peer access; results lie on the current device.
- A factorisation that fails gives NaN, unless ``cupyx.errstate(linalg="raise")`` asks for the error. CuPy gives what
  cuSOLVER has left there, finite or not.
- Operations in place on overlapping memory raise `Overlap`.
- `cupyx.scipy.sparse` has CSR and CSC matrices. `sum_duplicates`, which every product calls, changes a matrix itself.

Source: the files of CuPy 13.4.0 and 14.2.0 that are named at each behaviour.
What it cannot judge: kernels (all arithmetic is NumPy's), speed, memory and its fragmentation, races between streams
and between threads, the order in which sums are added up, what cuSOLVER leaves behind a failure, and drivers. A test
that passes here says that linspec calls CuPy as CuPy wants to be called, not that CuPy answers well.
"""

from __future__ import annotations

import sys
from types import ModuleType

from doubles.cupy_double import devices, functions, matrices, surface
from doubles.cupy_double.account import ACCOUNT, ImplicitSync
from doubles.cupy_double.arrays import Overlap

__all__ = ["ACCOUNT", "ImplicitSync", "Overlap", "install"]


def install(version: str = surface.VERSIONS[-1]) -> ModuleType:
    """Put the double into `sys.modules`, as the `cupy` and `cupyx` of this process, with the names of a release."""
    if "cupy" in sys.modules or "array_api_compat.cupy" in sys.modules:
        raise RuntimeError("cupy is imported already; the double must come before it.")
    api = surface.load(version)
    cupy = surface.module("cupy", __version__=f"{version}+double")
    cuda = devices.modules(api)
    cupy.cuda, cupy.linalg, cupy.fft = cuda["cupy.cuda"], functions.linalg(api), surface.module("cupy.fft")
    functions.fill(cupy, api)
    for module in (cupy, cupy.linalg, cupy.fft):
        surface.stand_for_the_rest(module, api)
    sparse = matrices.modules(api)
    sys.modules.update({"cupy": cupy, "cupy.linalg": cupy.linalg, "cupy.fft": cupy.fft, **cuda, **sparse})
    return cupy
