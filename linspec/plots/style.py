"""The look of all pictures: colours, lines, new axes.

Problem: pictures should look alike, be readable in print and with every kind of colour vision, and change no setting of
the program that draws them.
Method: settings hold within a context while artists are made, and axes that are given are dressed one by one. Figures
are made without pyplot, so there is no list of open figures and no window.
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
"""Distinguishable with every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

MUTED, BAND, GRID = "#555555", "#D9D9D9", "#E6E6E6"

DASHED = (0, (4, 3))

THIN: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": DASHED}
"""A line to compare with."""

LINE: dict[str, Any] = {"linewidth": 1.4, "markersize": 4.5}

IN_A_COLUMN = 16
"""Entries below each other in a legend."""

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
    """A figure in this style, in inches; within the context further artists have the style, too."""
    with styled():
        from matplotlib.figure import Figure

        yield Figure(figsize=size, dpi=STYLE["savefig.dpi"], layout="constrained")


@contextmanager
def styled() -> Iterator[None]:
    """Settings of this style, for as long as artists are made.

    Raises
    ------
    MissingPackage
        matplotlib is not installed.
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
    """The axes that were given, in this style, or those of a new figure."""
    with styled():
        if ax is None:
            with new_figure(size) as figure:
                ax = figure.add_subplot()
        else:
            _dress(ax)
        yield ax


def _dress(ax: Axes) -> None:
    """What the style says of axes, for axes that were made without it."""
    for side, spine in ax.spines.items():
        spine.set_visible(side not in ("top", "right"))
        spine.set_linewidth(STYLE["axes.linewidth"])
        spine.set_edgecolor(MUTED)
    ax.tick_params(color=MUTED, labelcolor="black")
    ax.set_axisbelow(True)
    ax.grid(visible=True, color=GRID, linewidth=STYLE["grid.linewidth"])


def whole_numbers(ax: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def bare(ax: Axes) -> None:
    """Axes of an image: without a grid and without a frame."""
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def legend_beside(ax: Axes, title: str = "") -> None:
    """A legend to the right of what is drawn, so that it hides nothing; what is transparent there is opaque here."""
    entries = len(ax.get_legend_handles_labels()[1])
    style: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
    legend = ax.legend(ncols=1 + (entries - 1) // IN_A_COLUMN, title=title or None, **style)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
