"""Plots of the values of a solution, of its weights or loadings, and of the rows in its subspace.

Problem: show how many components there are, which columns contribute to them, and how the rows are distributed.
Method: values are drawn over their number (Cattell's scree), beside values that arise by chance. Signed numbers are
drawn as bars or as a map, on a scale that is symmetric about 0. Rows are drawn as points.
Source: Cattell 1966, doi:10.1207/s15327906mbr0102_10; Horn 1965, doi:10.1007/BF02289447 (comparison with values of
data without structure).
Where we differ: the null values come from permuted rows (`linspec.null_correlations`), not from normal random
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, shown
from linspec.frames import (
    check_order,
    class_vector,
    column_names_of,
    is_frame,
    is_series,
    library_of,
    numbers_of,
    row_names_of,
    without_column,
)
from linspec.plots.style import (
    BAND,
    COLOURS,
    LINE,
    MARKERS,
    MUTED,
    THIN,
    axes_for,
    bare,
    legend_beside,
    whole_numbers,
)
from linspec.solving.solution import weights_by_matrix
from linspec.studies.inference.permutation import ComponentTest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MOST_POINTS", "Cloud", "loadings", "scores", "scree", "variates"]

MOST_POINTS = 2000
"""Largest number of rows that are drawn; if there are more, evenly spaced rows are drawn."""

LEAST_HEIGHT = 2.9
"""Smallest height of a map in inches, so that the label of the colour scale fits."""

FEW_ROWS = 40
"""Largest number of rows of a map (one for each drawn column of the data) for which its cells have text and the names
of its rows have full size."""

SHORT = (-2, 4)
"""Range of powers of ten within which tick labels are written in full; other powers are written once, beside the
axis."""

FAINT = 0.1
"""A map of more than `NUMBERED` components has a minus sign in each cell with a negative number. Cells whose magnitude
is below this fraction of the largest magnitude have none, because they are nearly white."""

NUMBERED = 6
"""Largest number of components for which a map shows numbers in its cells."""

LABELS = ("row", "column", "feature")
"""Headings of the first column of a table that a solution makes. This column has the names or numbers of rows of data,
of columns of data, or of features; it has one of these headings if the data have no heading for the names."""

CLOUD_MARKERS = ("o", "^")
"""Markers of fitted rows and of held-out rows; they can be distinguished without colours."""

GOLDEN = 0.6180339887
"""The golden ratio − 1; the fractional parts of its multiples are evenly distributed (Weyl)."""


# ---- values -----------------------------------------------------------------------------------


def scree(
    solution: Any,
    *,
    null: Any = None,
    held_out: Sequence[float] | None = None,
    alpha: float = 0.05,
    ax: Axes | None = None,
) -> Axes:
    """Draw the values of a solution in decreasing order, beside values that arise by chance.

    Parameters
    ----------
    solution : Solution, PermutationTest, ComponentTest or sequence of float
        A solution with a list of values (correlations, singular values, eigenvalues), a permutation test, whose
        values are drawn, or the values themselves.
    null : array of shape (permutations, k), PermutationTest or ComponentTest, optional
        Values of data without structure, as `linspec.null_correlations` returns them: their median and a band between
        their quantiles `alpha` and 1 − `alpha` are drawn. For a permutation test, values with a p-value above `alpha`
        get hollow marks. A `ComponentTest` also has a band: with the statistic "largest" of the largest value of the
        permuted data, with which it compares every value, otherwise of all their values.
    held_out : sequence of float, optional
        The same values on rows that were not fitted.
    alpha : float, default 0.05
        The quantile of the band, or the level of the test.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidProblem
        If the solution has no list of values, or `null` has a wrong shape.
    InvalidOption
        If `alpha` is not between 0 and one half.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> axes = ls.plots.scree(ls.solve(ls.SVD(A, k=5)))
    >>> axes.get_ylabel() != ""
    True
    """
    if not 0 < alpha < 0.5:
        raise InvalidOption(f"alpha must be between 0 and 0.5; got {shown(alpha)}.")
    values, label, top = _values(solution)
    test = next((given for given in (null, solution) if hasattr(given, "p_values")), None)
    with axes_for(ax) as axes:
        lowest = 0.0
        chance, called = _chance(null, solution)
        if chance is not None:
            _band(axes, chance, alpha, called)
        real = np.ones(len(values), bool)
        if test is not None:
            p = np.asarray(test.p_values)[: len(values)]
            real = np.r_[p, np.ones(len(values) - len(p))] <= alpha
        places = np.arange(1, len(values) + 1)
        axes.plot(places, values, "-", color=COLOURS[0], linewidth=LINE["linewidth"])
        of_all = "fitted" if held_out is not None else "data"
        words = {True: f"p ≤ {alpha:g}" if test is not None else of_all, False: f"p > {alpha:g}"}
        for which, caption in words.items():
            if (real == which).any():
                fill = COLOURS[0] if which else "white"
                style: dict[str, Any] = {"color": COLOURS[0], "markerfacecolor": fill, "markersize": 5}
                axes.plot(places[real == which], values[real == which], "o", label=caption, **style)
        if held_out is not None:
            reached = np.asarray(held_out, dtype=float)
            ks = np.arange(1, len(reached) + 1)
            axes.plot(ks, reached, "s--", color=COLOURS[1], label="held-out rows", **LINE)
            lowest = min(lowest, *reached.tolist())
        axes.set_ylim(1.1 * lowest, top and 1.02 * top)
        if test is not None or null is not None or held_out is not None:
            axes.legend(loc="best", handletextpad=0.5)
        axes.set_xlabel("number of the pair" if top else _word(solution))
        axes.set_ylabel(label)
        whole_numbers(axes)
    return axes


def _values(solution: Any) -> tuple[HostArray, str, float | None]:
    """The values of a solution, the name of a value, and the upper limit of values (or None)."""
    layout = getattr(type(solution), "layout", None)
    if layout is not None and layout.value:
        return _numbers(getattr(solution, layout.value)), layout.value_label, layout.at_most
    if isinstance(solution, ComponentTest):
        _, label, top = _values(solution.solution)
        return solution.values, label, top
    if hasattr(solution, "p_values"):
        return _numbers(solution.correlations), "canonical correlation", 1.0
    if layout is not None:
        raise InvalidProblem(
            f"scree draws a decreasing list of values; {type(solution).__name__} has none. Draw its coefficients with "
            "linspec.plots.loadings."
        )
    values = _numbers(solution)
    if values.ndim != 1:
        raise InvalidProblem(
            f"scree takes a solution or a list of values; got an array of shape {values.shape}."
        )
    return values, "value", None


def _word(solution: Any) -> str:
    """The noun for one value: "component" for most answers, "number" for a list of values."""
    layout = getattr(type(getattr(solution, "solution", solution)), "layout", None)
    return "number" if layout is None else str(layout.component)


def _chance(null: Any, solution: Any) -> tuple[HostArray | None, str]:
    """The values of permuted rows to draw, and their name: the given ones, or those of a test by solving."""
    test = solution if null is None else null
    if isinstance(test, ComponentTest):
        if test.statistic == "largest":
            return np.repeat(test.drawn[:, :1], len(test.values), axis=1), "largest by chance"
        return test.drawn, "chance"
    return None if null is None or hasattr(null, "p_values") else _null(null), "chance"


def _null(null: Any) -> HostArray:
    found = np.atleast_2d(_numbers(null))
    if found.ndim != 2 or not found.size:
        raise InvalidProblem(
            f"null must have a row for each permutation; got shape {found.shape}. Pass what "
            "linspec.null_correlations returns."
        )
    return found


def _band(axes: Axes, null: HostArray, alpha: float, words: str) -> None:
    """Draw the band of the null values and their median; for a single permutation, only a line."""
    places = np.arange(1, null.shape[1] + 1)
    if len(null) > 1:
        low, high = np.quantile(null, [alpha, 1 - alpha], axis=0)
        caption = f"{words}, {100 * alpha:g} to {100 * (1 - alpha):g} % of {len(null)} permutations"
        axes.fill_between(places, low, high, color=BAND, linewidth=0, label=caption)
    axes.plot(places, np.median(null, axis=0), label=f"{words}, median" if len(null) > 1 else words, **THIN)


# ---- weights and loadings ---------------------------------------------------------------------


def loadings(
    of: Any,
    *,
    view: str = "",
    data: Any = None,
    names: Sequence[str] | None = None,
    component: int | None = None,
    most: int = 25,
    label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw weights or loadings, as a map of all components or as bars of one component.

    Parameters
    ----------
    of : Solution, table, or array of shape (p, k) or (p,)
        A solution, whose weights are drawn; a table with the names of the columns, such as
        ``solution.loadings_table()``; or any numbers with a row for each column of the data.
    view : str, optional
        For a solution, the name of the matrix, such as "X" or "Y". By default the first.
    data : data of shape (n, p), optional
        For a solution with a method `loadings`: rows of the view. Then loadings are drawn instead of weights: the
        correlations of the columns with the variates, which do not depend on the units of the columns.
    names : sequence of str, optional
        A name for each of the p columns. By default the names that the solution, the table or the data have; without
        names, numbers from 0.
    component : int, optional
        Draw bars of this component, counted from 0, with the largest bar first. A single component is always drawn as
        bars.
    most : int, default 25
        The largest number of columns to draw; columns with the largest absolute values are chosen.
    label : str, optional
        The label of the axis or of the colour scale.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidProblem
        If the numbers have a wrong shape, or the number of names is not that of the columns.
    InvalidOption
        If `view`, `component` or `most` is invalid.
    MissingCapability
        If `data` are passed with a solution that has no loadings.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> axes = ls.plots.loadings(ls.solve(ls.SVD(A, k=2)), component=0, most=5)
    >>> len(axes.get_yticklabels())
    5
    """
    values, caption, known = _numbers_of_columns(of, view, data)
    layout = getattr(type(of), "layout", None)
    vector = "component" if layout is None else layout.vector
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.size:
        raise InvalidProblem(
            f"loadings draws p x k numbers; got shape {values.shape}. Pass those of one ridge of a path."
        )
    if most < 1:
        raise InvalidOption(f"most must be at least 1; got {shown(most)}.")
    p, k = values.shape
    if component is not None and not -k <= component < k:
        raise InvalidOption(f"component must be from 0 to {k - 1}; got {shown(component)}.")
    names = [str(name) for name in (known or range(p))] if names is None else [str(name) for name in names]
    if len(names) != p:
        raise InvalidProblem(f"names must have one for each of the {p} columns; got {len(names)}.")
    label, bars = label or caption, component is not None or k == 1
    column = values[:, component or 0]
    size = np.abs(column) if bars else np.abs(values).max(axis=1)
    kept = np.argsort(-size, kind="stable")[:most]
    kept = kept if bars else np.sort(kept)  # a map keeps the order of the columns
    with axes_for(ax, _size(len(kept), 1 if bars else k)) as axes:
        if bars:
            _bars(axes, column[kept], [names[i] for i in kept], label)
        else:
            _map(axes, values[kept], [names[i] for i in kept], label, vector)
        caption = "" if len(kept) == p else f"the {len(kept)} largest of {p} columns"
        if bars and k > 1:
            caption = f"{vector} {(component or 0) % k + 1}" + (f", {caption}" if caption else "")
        if caption:
            axes.set_title(caption, loc="left")
    return axes


def _numbers_of_columns(of: Any, view: str, data: Any) -> tuple[HostArray, str, Sequence[str] | None]:
    """The numbers to draw, their label, and the names of the columns if they are known."""
    if is_frame(of):
        labels, _, values = _of_table(of)
        return values, "value", labels
    layout = getattr(type(of), "layout", None)
    if layout is None:
        return _numbers(of), "value", None
    there = weights_by_matrix(of)
    if not there and data is None:
        raise InvalidProblem(
            f"{type(of).__name__} has no weights of columns. Pass data, to draw loadings, or an array of numbers."
        )
    if data is not None and not hasattr(of, "loadings"):
        raise MissingCapability(f"{type(of).__name__} has no loadings. Leave data out, to draw its weights.")
    views = tuple(there) or ("X", "Y")  # functions of two views have only loadings
    view = view or views[0]
    if view not in views:
        raise InvalidOption(f"view must be one of {', '.join(views)}; got {shown(view)}.")
    known = (getattr(of, "column_names", None) or {}).get(view)
    if data is not None:
        vector = "variate" if layout.vector == "pair" else layout.vector
        names = known or column_names_of(data)
        return _numbers(of.loadings(**{view: data})), f"correlation with the {vector}", names
    weights, axis = there[view]
    values = np.moveaxis(_numbers(weights), axis, 0)
    return values, "weight" if layout.value else "coefficient", known


def _size(rows: int, columns: int) -> tuple[float, float]:
    """Width and height in inches of a figure with `rows` names and `columns` components."""
    return (4.8 if columns == 1 else min(3.2 + 0.55 * columns, 12.0)), min(
        max(1.1 + 0.24 * rows, LEAST_HEIGHT), 14.0
    )


def size_of_columns(rows: int) -> tuple[float, float]:
    """Width and height in inches of a figure with a bar or an interval for each of the named columns."""
    return _size(rows, 1)


def column_axis(axes: Axes, names: Sequence[str], label: str, places: Any = None) -> None:
    """Put the names of columns at the vertical axis, from top to bottom, and the numbers at the horizontal one."""
    places = np.arange(len(names)) if places is None else places
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.set_ylim(places[-1] + 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=6)
    axes.ticklabel_format(axis="x", scilimits=SHORT, useMathText=True)
    axes.set_xlabel(label)
    _name_rows(axes, names, places)


def _name_rows(axes: Axes, names: Sequence[str], places: Any) -> None:
    """Write the names of columns of the data beside the y axis, in a small size if they are many."""
    axes.set_yticks(places, list(names))
    axes.tick_params(axis="y", length=0)
    if len(names) > FEW_ROWS:
        axes.tick_params(axis="y", labelsize=6)


def _bars(axes: Axes, values: HostArray, names: Sequence[str], label: str) -> None:
    colours = [COLOURS[0] if value >= 0 else COLOURS[1] for value in values]
    axes.barh(range(len(values)), values, height=0.7, color=colours)
    column_axis(axes, names, label)


def _map(axes: Axes, values: HostArray, names: Sequence[str], label: str, vector: str) -> None:
    """Draw a matrix as a map: red and blue are opposite signs, and 0 is white.

    Red and blue look alike in black and white. So with few components the cells also show the numbers; otherwise
    cells with negative numbers have a minus sign.
    """
    scale = float(np.nanmax(np.abs(values))) or 1.0
    image = axes.imshow(values, cmap="RdBu_r", vmin=-scale, vmax=scale, aspect="auto")
    k = values.shape[1]
    if len(values) <= FEW_ROWS:
        for (i, j), value in np.ndenumerate(values):
            ink = "white" if abs(value) > 0.65 * scale else "black"
            caption = _in_cell(value, scale) if k <= NUMBERED else "−" * bool(value < -FAINT * scale)
            axes.text(j, i, caption, ha="center", va="center", fontsize=8, color=ink)
    bare(axes)
    _name_rows(axes, names, range(len(names)))
    axes.set_xticks(range(k), [str(j + 1) for j in range(k)])
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(vector)
    if axes.figure is not None:
        bar = axes.figure.colorbar(image, ax=axes, label=label, shrink=0.8, pad=0.02, aspect=25)
        bar.outline.set_visible(False)


def _in_cell(value: float, scale: float) -> str:
    """Format a number of a map with the digits that the largest number needs, and without a minus before zero."""
    if not 1e-3 <= scale < 100:
        return f"{value:.0e}".replace("-", "−")
    digits = 2 if scale >= 0.1 else 3
    return f"{round(float(value), digits) + 0.0:.{digits}f}".replace("-", "−")


# ---- rows -------------------------------------------------------------------------------------


def scores(
    points: Any,
    classes: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw rows in two dimensions, with a colour and a marker for each class.

    Parameters
    ----------
    points : array of shape (n, k), or table
        Coordinates of rows, such as ``solution.transform(X)`` or ``solution.scores_table(X)``. With one component,
        classes are drawn one above the other.
    classes : sequence of n values, or series, optional
        The class of each row. Rows without a class (None) are grey. The name of a series is the title of the legend.
    components : sequence of two int, default (0, 1)
        The two columns to draw, counted from 0.
    label : str, optional
        The axis label without the number of the component. By default the column name of a table, otherwise
        "component".
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidProblem
        If the points are not a matrix, or the number of classes is not that of the rows.
    InvalidOption
        If `components` is invalid.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> axes = ls.plots.scores(ls.solve(ls.SVD(A, k=2, center=True)).transform(A))
    >>> axes.get_xlabel()
    'component 1'
    """
    check_order({"points": points, "classes": classes})
    _, columns, Z = _of_table(points) if is_frame(points) else (None, None, _numbers(points))
    if Z.ndim != 2 or not Z.size:
        raise InvalidProblem(f"scores draws an n x k array; got shape {Z.shape}. Pass solution.transform(X).")
    names, codes = _codes(classes, len(Z))
    one = Z.shape[1] == 1
    if one:
        spread = 0.6 * (np.arange(len(Z)) * GOLDEN % 1 - 0.5)
        Z, components = np.column_stack([Z[:, 0], codes + spread]), (0, 1)
    if len(components) != 2 or not all(0 <= j < Z.shape[1] for j in components):
        raise InvalidOption(f"components must be two of 0 to {Z.shape[1] - 1}; got {shown(components)}.")
    with axes_for(ax, (5.4, 4.0)) as axes:
        size = 14 if len(Z) <= MOST_POINTS else 5
        for code in sorted(set(codes.tolist())):
            own = Z[codes == code][:, components]
            colour = MUTED if code < 0 else COLOURS[code % len(COLOURS)]
            # When all colours have been used, the markers are shifted, so that many classes remain distinct.
            marker = "." if code < 0 else MARKERS[(code % len(COLOURS) + code // len(COLOURS)) % len(MARKERS)]
            style: dict[str, Any] = {"s": size, "linewidths": 0, "alpha": 0.75, "rasterized": True}
            caption = "no class" if code < 0 else names[code]
            axes.scatter(*own.T, color=colour, marker=marker, label=caption, **style)
        axes.set_xlabel(_called(components[0], label, columns))
        if one:
            axes.set_yticks(range(len(names)), names)
            axes.grid(visible=False, axis="y")
        else:
            axes.set_ylabel(_called(components[1], label, columns))
            if names != [""]:
                legend_beside(axes, str(getattr(classes, "name", None) or ""))
    return axes


def _called(j: int, label: str, columns: Sequence[str] | None) -> str:
    """The axis label of component j; the column name "direction1" of a table becomes "direction 1"."""
    if label or columns is None:
        return f"{label or 'component'} {j + 1}"
    name = columns[j]
    stem = name.removesuffix(str(j + 1))
    return f"{stem} {j + 1}" if stem.isalpha() and stem != name else name


def _of_table(given: Any) -> tuple[Sequence[str] | None, Sequence[str] | None, HostArray]:
    """The row labels of a table, the names of its columns, and its numbers.

    For polars and pyarrow the labels are the first column, if it holds text or has a heading of `LABELS`.
    """
    first = (column_names_of(given) or ("",))[0]
    labels = row_names_of(given)
    if library_of(given) != "pandas":
        others, column = without_column(given, first)
        texts = class_vector(column)
        if texts.dtype.kind not in "biuf" or first in LABELS:
            given, labels = others, texts.tolist()
    frame = numbers_of(given, "the table")
    values = frame.values.toarray() if hasattr(frame.values, "toarray") else frame.values
    return None if labels is None else [str(name) for name in labels], frame.columns, _numbers(values)


def _codes(classes: Any, rows: int) -> tuple[list[str], HostArray]:
    """The names of the classes in sorted order, and for each row the index of its class (-1 without a class)."""
    if classes is None:
        return [""], np.zeros(rows, int)
    if is_series(classes):
        given = class_vector(classes).tolist()
    else:
        given = np.asarray(to_host(classes)).tolist() if is_array(classes) else list(classes)
    if len(given) != rows:
        raise InvalidProblem(f"classes must have a value for each of the {rows} rows; got {len(given)}.")
    known = sorted(
        {value for value in given if not _nothing(value)}, key=lambda value: (str(type(value)), value)
    )
    number = {value: code for code, value in enumerate(known)}
    codes: HostArray = np.array([-1 if _nothing(value) else number[value] for value in given], int)
    return [str(value) for value in known], codes


def _nothing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124  # NaN alone differs from itself


@dataclass(frozen=True)
class Cloud:
    """Paired variates of some rows: column i of P belongs to column i of Q.

    Attributes
    ----------
    label : str
        The name of this set of rows.
    P, Q : numpy.ndarray of shape (n, k)
    """

    label: str
    P: Any
    Q: Any

    @property
    def correlations(self) -> list[float]:
        """The correlation of each pair of variates over these rows; 0 if a variate is constant."""
        P, Q = (np.asarray(block, dtype=np.float64) for block in (self.P, self.Q))
        P, Q = P - P.mean(axis=0), Q - Q.mean(axis=0)
        lengths = np.linalg.norm(P, axis=0) * np.linalg.norm(Q, axis=0)
        return [
            float(c / size) if size > 0 else 0.0 for c, size in zip((P * Q).sum(axis=0), lengths, strict=True)
        ]


def variates(
    P: Any,
    Q: Any,
    *,
    held_out: tuple[Any, Any] | None = None,
    pair: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the two variates of a pair against each other.

    Parameters
    ----------
    P, Q : array of shape (n, k)
        Variates of the fitted rows, as ``solution.transform(X, Y)`` returns them.
    held_out : (array, array), optional
        Variates of held-out rows.
    pair : int, default 0
        The pair to draw, counted from 0.
    ax : matplotlib.axes.Axes, optional
        The axes to draw into; by default axes of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Variates are drawn in units of the standard deviations of the fitted rows, with a regression line; the title
        states the correlations. If there are more than 2000 rows, evenly spaced rows are drawn.

    Raises
    ------
    InvalidProblem
        If the blocks differ in shape.
    InvalidOption
        If `pair` is invalid.
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> found = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> axes = ls.plots.variates(*found.transform(X, Y))
    >>> len(axes.collections) > 0
    True
    """
    check_order({"P": P, "Q": Q})
    clouds = [Cloud("fitted rows", _numbers(P), _numbers(Q))]
    if held_out is not None:
        check_order(dict(zip(("P", "Q"), held_out, strict=False)))
        clouds.append(Cloud("held-out rows", *(_numbers(block) for block in held_out)))
    for cloud in clouds:
        if cloud.P.ndim != 2 or cloud.P.shape != cloud.Q.shape or not cloud.P.size:
            raise InvalidProblem(
                f"variates must be two n x k arrays; got {cloud.P.shape} and {cloud.Q.shape}."
            )
    k = min(cloud.P.shape[1] for cloud in clouds)
    if not 0 <= pair < k:
        raise InvalidOption(f"pair must be from 0 to {k - 1}; got {shown(pair)}.")
    with axes_for(ax, (4.2, 4.2)) as axes:
        cloud_panel(axes, clouds, pair)
        axes.set_ylabel("variate of Y / st. dev.")
        if len(clouds) > 1:
            opaque(axes.legend(loc="upper left"))
    return axes


def cloud_panel(axes: Axes, clouds: Sequence[Cloud], pair: int) -> None:
    """Draw one pair of variates for one or more sets of rows, in units of the standard deviations of the first set."""
    scales = [float(np.std(block[:, pair])) or 1.0 for block in (clouds[0].P, clouds[0].Q)]
    reached = [cloud.correlations[pair] for cloud in clouds]
    for cloud, colour, marker in zip(clouds, COLOURS, CLOUD_MARKERS, strict=False):
        drawn = np.unique(np.linspace(0, len(cloud.P) - 1, MOST_POINTS).astype(int))
        x, y = cloud.P[drawn, pair] / scales[0], cloud.Q[drawn, pair] / scales[1]
        style: dict[str, Any] = {"s": 12, "alpha": 0.5, "linewidths": 0, "rasterized": True}
        axes.scatter(x, y, color=colour, marker=marker, label=cloud.label, **style)
    axes.axline((0, 0), slope=reached[0], **THIN)
    words = ("fitted", "held out")
    caption = ", ".join(f"{value:.2f} {word}" for value, word in zip(reached, words, strict=False))
    axes.set_title(f"pair {pair + 1}: {caption}".replace("-", "−"), fontsize=10)
    axes.set_xlabel("variate of X / st. dev.")


def opaque(legend: Any) -> None:
    """Enlarge the marks in a legend, and make them opaque."""
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
        handle.set_sizes([24.0])


def _numbers(values: Any) -> HostArray:
    """Convert values to a float64 array on the host."""
    found: HostArray = np.asarray(to_host(values) if hasattr(values, "shape") else values, dtype=np.float64)
    return found
