"""The style of all plots: colours, lines, new axes.

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

from linspec.errors import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#7F7F7F")
"""Colours that are distinguishable with every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

MUTED, BAND, GRID = "#555555", "#D9D9D9", "#E6E6E6"

DASHED = (0, (4, 3))

THIN: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": DASHED}
"""The style of reference lines."""

LINE: dict[str, Any] = {"linewidth": 1.4, "markersize": 4.5}

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
def new_figure(size: tuple[float, float]) -> Iterator[Any]:
    """Yield a new figure of the given size in inches; artists created within the `with` block have the style, too."""
    with styled():
        from matplotlib.figure import Figure

        yield Figure(figsize=size, dpi=STYLE["savefig.dpi"], layout="constrained")


@contextmanager
def styled() -> Iterator[None]:
    """Apply the settings of the style `STYLE` within a `with` block.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingPackage(
            "linspec.plots needs matplotlib, which is not installed. Install it with: pip install 'linspec[plots]'"
        ) from error
    with rc_context(STYLE):
        yield


@contextmanager
def axes_for(ax: Axes | None, size: tuple[float, float] = (4.8, 3.6)) -> Iterator[Axes]:
    """Yield the given axes with the style applied, or axes of a new figure; the style holds within the `with` block."""
    with styled():
        if ax is None:
            with new_figure(size) as figure:
                ax = figure.add_subplot()
        else:
            _dress(ax)
        yield ax


def _dress(ax: Axes) -> None:
    """Apply the style to axes that were created with other settings."""
    for side, spine in ax.spines.items():
        spine.set_visible(side not in ("top", "right"))
        spine.set_linewidth(STYLE["axes.linewidth"])
        spine.set_edgecolor(MUTED)
    ax.tick_params(color=MUTED, labelcolor="black")
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=GRID, linewidth=STYLE["grid.linewidth"])


def whole_numbers(ax: Axes) -> None:
    """Restrict ticks of the horizontal axis to integers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def bare(ax: Axes) -> None:
    """Remove grid and frame from the axes of an image."""
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def legend_beside(ax: Axes, title: str = "") -> None:
    """Add a legend with opaque marks to the right of the axes, where it does not cover data."""
    entries = len(ax.get_legend_handles_labels()[1])
    style: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
    legend = ax.legend(ncols=1 + (entries - 1) // IN_A_COLUMN, title=title or None, **style)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
