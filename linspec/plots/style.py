"""The style of all plots: colours, lines, new axes, the checks that plots share.

Problem: plots should have the same style, be readable in print and with every kind of colour vision, and change no
setting of the program that draws them.
Method: settings of matplotlib are changed only within a `with` block in which artists are created, and axes passed by
the caller are styled one by one. Figures are created without pyplot, so there is no list of open figures and no
window.
Source: Okabe & Ito 2008, Color Universal Design (the first six colours).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidOption, InvalidProblem, MissingPackage, shown
from linspec.frames import is_frame
from linspec.registry.options import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#7F7F7F")
"""Colours that are distinguishable with every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

MUTED, BAND, GRID = "#555555", "#D9D9D9", "#E6E6E6"

THIN: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (4, 3))}
"""The style of reference lines."""

LINE: dict[str, Any] = {"linewidth": 1.4, "markersize": 4.5}

SMALL_TEXT: dict[str, Any] = {"fontsize": 8, "textcoords": "offset points"}
"""The style of notes in a plot."""

IN_A_COLUMN = 16
"""Largest number of entries in a column of a legend."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 150,
}


@contextmanager
def axes_for(ax: Axes | None, size: tuple[float, float] = (4.8, 3.6)) -> Iterator[Axes]:
    """Yield the given axes with the style applied, or axes of a new figure; the style holds within the `with` block.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackage(
            "linspec.plots needs matplotlib, which is not installed. Install it with: pip install 'linspec[plots]'"
        ) from error
    with rc_context(STYLE):
        if ax is None:
            ax = Figure(figsize=size, dpi=STYLE["savefig.dpi"], layout="constrained").add_subplot()
        else:
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[:].set(linewidth=STYLE["axes.linewidth"], edgecolor=MUTED)
            ax.tick_params(color=MUTED, labelcolor="black")
            ax.set_axisbelow(True)
            ax.grid(visible=True, color=GRID, linewidth=STYLE["grid.linewidth"])
        yield ax


def legend_beside(ax: Axes, title: str = "") -> None:
    """Add a legend to the right of the axes, where it does not cover data."""
    columns = 1 + (len(ax.get_legend_handles_labels()[1]) - 1) // IN_A_COLUMN
    place: Any = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
    ax.legend(ncols=columns, title=title or None, **place)


# ---- arguments --------------------------------------------------------------------------------


def numbers(values: Any) -> HostArray:
    """Convert values to a float64 array on the host."""
    array = np.asarray(to_host(values) if hasattr(values, "shape") else values)
    if is_frame(values) or array.dtype.kind not in "biuf":
        raise InvalidProblem(
            f"plots draw arrays; got {shown(values)}. Pass the numbers of a table as `table.to_numpy()`, and names."
        )
    return np.asarray(array, dtype=np.float64)


def matrix_of(values: Any, words: str, remedy: str) -> HostArray:
    """Check that values are a matrix with entries; `words` say what is drawn."""
    array = numbers(values)
    if array.ndim != 2 or not array.size:
        raise InvalidProblem(f"{words}; got shape {array.shape}. {remedy}")
    return array


def check_index(name: str, value: Any, count: int, *, least: int = 0) -> None:
    """Raise unless a value is the number of one of `count` components."""
    if not is_number(value, int) or not least <= value < count:
        raise InvalidOption(f"{name} must be from 0 to {count - 1}; got {shown(value)}.")


def names_of(names: Any, count: int, what: str) -> list[str]:
    """Names as strings, one for each of `count` columns or coefficients."""
    words = [str(name) for name in names]
    if len(words) != count:
        raise InvalidProblem(f"names must have one for each of the {count} {what}; got {len(words)}.")
    return words
