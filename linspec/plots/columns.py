"""Plots of the columns that matter: weights or loadings with their intervals, and the leading columns of each sign.

Problem: weights and loadings are read by the names of their columns, a few at a time, and with their uncertainty.
Method: the numbers and names are those of the tables, `Bootstrap.weights_table` and `Solution.leading_columns`. The
columns of largest magnitude are drawn one below the other. Signs have different colours, and markers or places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, shown
from linspec.plots.answers import column_axis, size_of_columns
from linspec.plots.style import COLOURS, axes_for
from linspec.solving.checks import check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["intervals", "leading_columns"]

KINDS = ("weights", "loadings")


def intervals(
    bootstrap: Any,
    matrix: str = "",
    *,
    component: int = 0,
    count: int = 20,
    kind: str = "weights",
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest weights or loadings of one component with their bootstrap intervals.

    Parameters
    ----------
    bootstrap : Bootstrap or ComponentBootstrap
        A result of `linspec.bootstrap`.
    matrix : str, optional
        The name of the matrix, "X" or "Y" for a CCA. It may be left out if only one matrix has weights.
    component : int, default 0
        The component, counted from 0.
    count : int, default 20
        The largest number of columns to draw; those with the largest absolute values are chosen, the largest first.
    kind : {"weights", "loadings"}, default "weights"
        The bootstrap of a CCA has both. Weights depend on the units of the columns, loadings do not.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A point for each column, and a line from the lower to the upper end of its interval. Points whose intervals
        contain 0 are hollow. The names of the columns are at the axis.

    Raises
    ------
    InvalidProblem
        If `bootstrap` is no result of `linspec.bootstrap`.
    InvalidOption
        If `matrix`, `component`, `count` or `kind` is invalid.
    MissingCapability
        If loadings are requested and the bootstrap has none.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = ls.labelled(rng.standard_normal((60, 3)) * [3, 2, 1], columns=["age", "dose", "price"])
    >>> axes = ls.plots.intervals(ls.bootstrap(ls.SVD(A, k=2, center=True), draws=20, rng=0))
    >>> [text.get_text() for text in axes.get_yticklabels()][0]
    'age'
    """
    if kind not in KINDS:
        raise InvalidOption(f"kind must be one of {', '.join(KINDS)}; got {shown(kind)}.")
    if not hasattr(bootstrap, "weights_table") or not hasattr(bootstrap, "draws"):
        raise InvalidProblem(
            f"intervals draws a result of linspec.bootstrap; got {type(bootstrap).__name__}. Draw weights without "
            "intervals with linspec.plots.loadings."
        )
    if not hasattr(bootstrap, f"{kind}_table"):
        raise MissingCapability(
            f"{type(bootstrap).__name__} has no intervals of loadings; only those of a CCA have. Take "
            'kind="weights".'
        )
    check_count("count", count, 1)
    rows = getattr(bootstrap, f"{kind}_table")(matrix, library="")
    vector = bootstrap.solution.layout.vector
    _check_component(component, len(bootstrap.agreement))
    name = f"{vector}{component + 1}"
    label = next(iter(rows[0]))  # the first entry of a row names the column
    values, lower, upper = (
        np.array([row[f"{name}{part}"] for row in rows]) for part in ("", " lower", " upper")
    )
    kept = np.argsort(-np.abs(values), kind="stable")[:count]
    with axes_for(ax, size_of_columns(len(kept))) as axes:
        _draw_intervals(axes, values[kept], lower[kept], upper[kept])
        caption = f"{kind.removesuffix('s')}, {100 * bootstrap.level:g} % interval"
        column_axis(axes, [str(rows[i][label]) for i in kept], caption)
        part = f", {len(kept)} largest of {len(rows)}" if len(kept) < len(rows) else ""
        axes.set_title(f"{vector} {component + 1}{part}", loc="left")
    return axes


def _draw_intervals(axes: Axes, values: HostArray, lower: HostArray, upper: HostArray) -> None:
    """Draw a line for each interval, and a point for each value: hollow if the interval contains 0."""
    places = np.arange(len(values))
    holds_zero = (lower <= 0) & (upper >= 0)
    colours = np.where(values >= 0, COLOURS[0], COLOURS[1])
    axes.hlines(places, lower, upper, colors=colours.tolist(), linewidth=1.4)
    faces = np.where(holds_zero, "white", colours)
    axes.scatter(values, places, s=24, c=faces.tolist(), edgecolors=colours.tolist(), zorder=3)


def leading_columns(
    solution: Any,
    matrix: str = "",
    *,
    component: int = 0,
    count: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw bars of the columns with the largest weights of one component, positive and negative ones apart.

    Parameters
    ----------
    solution : Solution
        An answer with weights of columns.
    matrix : str, optional
        As for `Solution.leading_columns`.
    component : int, default 0
        The component, counted from 0.
    count : int, default 10
        The largest number of columns of each sign.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Positive weights are above, the largest first; negative ones are below, the most negative last.

    Raises
    ------
    InvalidProblem
        If the solution has no weights of columns, or none of them differs from 0.
    InvalidOption
        If `matrix`, `component` or `count` is invalid.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = ls.labelled(np.array([[3.0, 1.0, 0.0], [-3.0, 0.0, 1.0]]), columns=["price", "sun", "rain"])
    >>> axes = ls.plots.leading_columns(ls.solve(ls.SVD(A, k=1)))
    >>> [text.get_text() for text in axes.get_yticklabels()]
    ['price', 'sun', 'rain']
    """
    if not hasattr(solution, "leading_columns"):
        raise InvalidProblem(
            f"leading_columns draws an answer with weights of columns; got {type(solution).__name__}."
        )
    found = solution.leading_columns(count, matrix)
    _check_component(component, len(found))
    vector, positive, negative = found[component]
    pairs = [*positive, *reversed(negative)]
    if not pairs:
        raise InvalidProblem(f"leading_columns draws weights other than 0; those of {vector} are 0.")
    gap = bool(positive) and bool(negative)
    places = np.arange(len(pairs)) + np.repeat([0, int(gap)], [len(positive), len(negative)])
    values = np.array([weight for _, weight in pairs])
    with axes_for(ax, size_of_columns(len(pairs) + gap)) as axes:
        colours = [COLOURS[0] if value > 0 else COLOURS[1] for value in values]
        axes.barh(places, values, height=0.7, color=colours)
        label = "weight" if type(solution).layout.value else "coefficient"
        column_axis(axes, [str(name) for name, _ in pairs], label, places)
        stem = solution.layout.vector
        numbered = vector == f"{stem}{component + 1}"
        axes.set_title(f"{stem} {component + 1}" if numbered else vector, loc="left")
    return axes


def _check_component(component: Any, count: int) -> None:
    """Raise unless a component is one of the counted ones."""
    if (
        isinstance(component, bool)
        or not isinstance(component, int | np.integer)
        or not 0 <= component < count
    ):
        raise InvalidOption(f"component must be from 0 to {count - 1}; got {shown(component)}.")
