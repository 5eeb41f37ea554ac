"""The speeds of kernels from which costs are estimated: those that are shipped, or those measured on this machine.

Problem: "auto" compares times of methods that spend them in different kernels, and the ratios of speeds differ between
machines. A measurement in every process would take time and make choices depend on the moment.
Method: the shipped rates are in force until `linspec calibrate` is called. It measures once and writes a file to the
user's cache folder, which every later process reads, once. A file of another machine, or one that cannot be read, does
not count: home folders are shared between machines. `LINSPEC_RATES=shipped` ignores the file.
Source: the cache folder is that of the XDG Base Directory Specification, of Apple's File System Programming Guide, and
of Windows' known folders.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from linspec.errors import InvalidOption

__all__ = ["SHIPPED", "KernelRates", "file", "in_force", "read", "remove", "write"]

VARIABLE = "LINSPEC_RATES"


@dataclass(frozen=True)
class KernelRates:
    """Operations (multiplications and additions) per second of one core, by kind of kernel.

    Attributes
    ----------
    dense : float
        In dense matrix products.
    factor : float
        In QR factorisations and eigen-decompositions.
    cholesky : float
        In Cholesky factorisations, which consist mostly of matrix products.
    sparse : float
        In products of a sparse matrix with a thin block.
    pairs : float
        Pairs of entries per second when a sparse Gram matrix is formed.
    date : str, default ""
        The day of the measurement, as in "2026-01-31"; empty for the shipped rates.
    """

    dense: float
    factor: float
    cholesky: float
    sparse: float
    pairs: float
    date: str = ""

    @property
    def told(self) -> str:
        """Where they come from, in words."""
        return f"measured by `linspec calibrate` on {self.date}" if self.date else "shipped"


SHIPPED = KernelRates(dense=2e10, factor=5e9, cholesky=1.5e10, sparse=1.5e9, pairs=1e8)
"""Those of an ordinary core."""

KERNELS = tuple(field.name for field in fields(KernelRates) if field.name != "date")


@cache
def in_force() -> KernelRates:
    """The rates of this process: what was measured on this machine, if anything, or the shipped ones.

    Raises
    ------
    InvalidOption
        `LINSPEC_RATES` is set to something other than "shipped" or "calibrated".
    """
    setting = os.environ.get(VARIABLE, "").strip() or "calibrated"
    if setting not in ("shipped", "calibrated"):
        raise InvalidOption(
            f"the environment variable {VARIABLE} must be shipped or calibrated; got {setting!r}. Correct it, or unset "
            "it to use the rates of `linspec calibrate` where there are some."
        )
    return SHIPPED if setting == "shipped" else read() or SHIPPED


def file() -> Path:
    """The file of measured rates in the cache folder of the user, whether it exists or not."""
    home = Path("~").expanduser()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "linspec" / "Cache"
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches" / "linspec"
    else:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))  # the specification ignores relative ones
        folder = (given if given.is_absolute() else home / ".cache") / "linspec"
    return folder / "rates.json"


def read() -> KernelRates | None:
    """The measured rates; None if there are none of this machine, or they make no sense."""
    try:
        found = json.loads(file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("machine") != _machine():
        return None
    rates, date = found.get("rates"), found.get("date")
    if not isinstance(rates, Mapping) or not isinstance(date, str) or not date:
        return None
    values: dict[str, Any] = {name: rates.get(name) for name in KERNELS}
    if not all(isinstance(value, int | float) and 0 < value < math.inf for value in values.values()):
        return None
    return KernelRates(**values, date=date)


def write(rates: KernelRates) -> Path:
    """Keep measured rates for later processes.

    Raises
    ------
    OSError
        The folder cannot be written to.
    """
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {name: value for name, value in asdict(rates).items() if name != "date"}
    text = json.dumps({"machine": _machine(), "date": rates.date, "rates": values}, indent=2)
    beside = path.with_name(
        f"{path.name}.{os.getpid()}"
    )  # a process that reads meanwhile sees one or the other
    beside.write_text(text + "\n", encoding="utf-8")
    beside.replace(path)
    return path


def remove() -> bool:
    """Go back to the shipped rates; False if there were no others."""
    path = file()
    there = path.is_file()
    path.unlink(missing_ok=True)
    return there


def _machine() -> str:
    """What tells machines apart that share a home folder."""
    return f"{platform.node()} {platform.machine()}"
