"""`linspec --version`: the versions of linspec, its dependencies and the BLAS.

Versions come from the metadata of the distributions, which imports nothing. The BLAS is known only after NumPy and
SciPy have loaded it: they are imported when this option is used, and not before.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from linspec import __version__

__all__ = ["show_versions"]

NEEDED = ("numpy", "scipy", "array-api-compat", "pluggy", "threadpoolctl", "click")
OPTIONAL = (
    *("rich", "matplotlib", "scikit-learn", "narwhals", "pandas", "polars", "pyarrow", "torch"),
    *("cupy", "cupy-cuda12x", "cupy-cuda13x"),
)


def show_versions(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the versions, one on each line, and exit."""
    if not asked or ctx.resilient_parsing:
        return
    click.echo(f"linspec {__version__}")
    rows = [("Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")]
    rows += [(name, _installed(name) or "missing") for name in NEEDED]
    rows += [(name, found) for name in OPTIONAL if (found := _installed(name))]
    rows += [("BLAS", blas) for blas in _blas()]
    width = max(len(name) for name, _ in rows)
    for name, found in rows:
        click.echo(f"  {name:<{width}}  {found}")
    ctx.exit()


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _blas() -> list[str]:
    """Return the BLAS libraries that NumPy and SciPy have loaded, such as "openblas 0.3.31 (Haswell)"."""
    try:
        import numpy as np  # noqa: F401 (it loads its BLAS)
        import scipy.linalg  # noqa: F401
        import threadpoolctl
    except ImportError as error:  # users report versions mostly when an installation is broken
        return [f"unknown: {error}"]
    found = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    named = (
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')})" for pool in found
    )
    return list(dict.fromkeys(named)) or ["unknown to threadpoolctl"]
