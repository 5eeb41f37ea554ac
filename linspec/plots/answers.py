"""Plots of the values of a solution, of its weights or loadings and their intervals, and of the rows in its subspace.

Problem: show how many components there are, which columns contribute to them, and how the rows are distributed.
Method: values are drawn over their number (Cattell's scree), beside values that arise by chance. Signed numbers are
drawn as bars, as intervals, or as a map, on a scale that is symmetric about 0. Rows are drawn as points.
Source: Cattell 1966, doi:10.1207/s15327906mbr0102_10; Horn 1965, doi:10.1007/BF02289447 (comparison with values of
data without structure).
Where we differ: the null values come from permuted rows (`linspec.null_correlations`), not from normal random
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, shown
from linspec.frames import check_order, column_names_of
from linspec.plots.style import (
    BAND,
    COLOURS,
    LINE,
    MARKERS,
    MUTED,
    THIN,
    axes_for,
    check_index,
    legend_beside,
    matrix_of,
    names_of,
    numbers,
)
from linspec.solving.checks import check_choice, check_count
from linspec.solving.solution import weights_by_matrix
from linspec.studies.inference.permutation import ComponentTest, Tested
from linspec.targets import class_codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


GOLDEN = 0.6180339887
"""The golden ratio − 1; the fractional parts of its multiples are evenly distributed (Weyl)."""

POINTS: dict[str, Any] = {"linewidths": 0, "rasterized": True}
"""The style of many points."""


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
    values, noun, label, top = _values(solution)
    test = next((result for result in (null, solution) if isinstance(result, Tested)), None)
    places = np.arange(1, len(values) + 1)
    lowest = 0.0
    captions = {True: "data" if held_out is None else "fitted"}
    real = np.ones(len(values), bool)
    if test is not None:
        p = np.asarray(test.p_values)[: len(values)]
        real = np.append(p, np.ones(len(values) - len(p))) <= alpha
        captions = {True: f"p ≤ {alpha:g}", False: f"p > {alpha:g}"}
    with axes_for(ax) as axes:
        _draw_chance(axes, solution if null is None else null, alpha, requested=null is not None)
        axes.plot(places, values, "-", color=COLOURS[0], linewidth=LINE["linewidth"])
        for which, caption in captions.items():
            if (real == which).any():
                style: Any = {"markerfacecolor": COLOURS[0] if which else "white", "markersize": 5}
                at = real == which
                axes.plot(places[at], values[at], "o", color=COLOURS[0], label=caption, **style)
        if held_out is not None:
            new = numbers(held_out)
            axes.plot(np.arange(1, len(new) + 1), new, "s--", color=COLOURS[1], label="held-out rows", **LINE)
            lowest = min(lowest, *new.tolist())
        if any(extra is not None for extra in (test, null, held_out)):
            axes.legend(loc="best", handletextpad=0.5)
        axes.set(xlabel=noun, ylabel=label, ylim=(1.1 * lowest, top and 1.02 * top))
        axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    return axes


def _layout(answer: Any) -> Any:
    """The declared words of a solution; None for other objects."""
    layout = getattr(type(answer), "layout", None)
    return layout if hasattr(layout, "value") else None


def _values(solution: Any) -> tuple[HostArray, str, str, float | None]:
    """The values of a solution, the noun for one of them, the name of a value, and the upper limit of values."""
    tested = isinstance(solution, Tested)
    layout = _layout(solution.described if tested else solution)
    if layout is not None and layout.value:
        values = numbers(solution.values if tested else getattr(solution, layout.value))
        noun = "number of the pair" if layout.at_most else str(layout.component)
        return values, noun, layout.value_label, layout.at_most
    if layout is not None:
        raise InvalidProblem(
            f"scree draws a decreasing list of values; {type(solution).__name__} has none. Draw its coefficients with "
            "linspec.plots.loadings."
        )
    values = numbers(solution)
    if values.ndim != 1:
        raise InvalidProblem(
            f"scree takes a solution or a list of values; got an array of shape {values.shape}."
        )
    return values, "number", "value", None


def _draw_chance(axes: Axes, of: Any, alpha: float, *, requested: bool) -> None:
    """Draw the median of values by chance, and the band of several permutations: of a test by solving, or as asked."""
    words = "chance"
    if isinstance(of, ComponentTest):
        null = of.drawn
        if of.statistic == "largest":
            null, words = np.repeat(null[:, :1], len(of.values), axis=1), "largest by chance"
    elif not requested or isinstance(of, Tested):
        return
    else:
        remedy = "Pass what linspec.null_correlations returns."
        null = matrix_of(np.atleast_2d(numbers(of)), "null must have a row for each permutation", remedy)
    places, median = np.arange(1, null.shape[1] + 1), words
    if len(null) > 1:
        low, high = np.quantile(null, [alpha, 1 - alpha], axis=0)
        caption = f"{words}, {100 * alpha:g} to {100 * (1 - alpha):g} % of {len(null)} permutations"
        axes.fill_between(places, low, high, color=BAND, linewidth=0, label=caption)
        median = f"{words}, median"
    axes.plot(places, np.median(null, axis=0), label=median, **THIN)


# ---- weights and loadings ---------------------------------------------------------------------


def loadings(  # noqa: PLR0913  # each is a choice of its own
    of: Any,
    *,
    view: str = "",
    data: Any = None,
    confounds: Any = None,
    names: Sequence[str] | None = None,
    component: int | None = None,
    most: int = 25,
    label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw weights or loadings, as a map of all components or as bars of one component.

    Parameters
    ----------
    of : Solution, or array of shape (p, k) or (p,)
        A solution, whose weights are drawn; or any numbers with a row for each column of the data.
    view : str, optional
        For a solution, the name of the matrix, such as "X" or "Y". By default the first.
    data : data of shape (n, p), optional
        For a solution with a method `loadings`: rows of the view. Then loadings are drawn instead of weights: the
        correlations of the columns with the variates, which do not depend on the units of the columns.
    confounds : array of shape (n, c), optional
        The confounds of these rows, if the problem had any.
    names : sequence of str, optional
        A name for each of the p columns. By default the names that the solution or the data have; without
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
    values, caption, known = _numbers_of_columns(of, view, data, confounds)
    layout = _layout(of)
    vector = "component" if layout is None else layout.vector
    values = matrix_of(
        values[:, None] if values.ndim == 1 else values,
        "loadings draws p x k numbers",
        "Pass those of one ridge of a path.",
    )
    p, k = values.shape
    check_count("most", most, 1)
    if component is not None:
        check_index("component", component, k, least=-k)
    words = names_of((known or range(p)) if names is None else names, p, "columns")
    label, bars = label or caption, component is not None or k == 1
    drawn = values[:, [component or 0]] if bars else values
    largest = np.argsort(-np.abs(drawn).max(axis=1), kind="stable")[:most]
    largest = largest if bars else np.sort(largest)  # a map keeps the order of the columns
    titles = [f"{vector} {(component or 0) % k + 1}"] if bars and k > 1 else []
    titles += [f"the {len(largest)} largest of {p} columns"] if len(largest) < p else []
    words, title = [words[i] for i in largest], ", ".join(titles)
    if bars:
        return _columns(ax, words, drawn[largest, 0], label, title)
    with axes_for(ax, _size(len(largest), k)) as axes:
        _map(axes, values[largest], words, label, vector)
        axes.set_title(title, loc="left")
    return axes


def _numbers_of_columns(
    of: Any, view: str, data: Any, confounds: Any
) -> tuple[HostArray, str, Sequence[str] | None]:
    """The numbers to draw, their label, and the names of the columns if they are known."""
    layout = _layout(of)
    if layout is None:
        return numbers(of), "value", None
    there = weights_by_matrix(of)
    if not there and data is None:
        raise InvalidProblem(
            f"{type(of).__name__} has no weights of columns. Pass data, to draw loadings, or an array of numbers."
        )
    if data is not None and not hasattr(of, "loadings"):
        raise MissingCapability(f"{type(of).__name__} has no loadings. Leave data out, to draw its weights.")
    views = tuple(there) or ("X", "Y")  # functions of two views have only loadings
    view = view or views[0]
    check_choice("view", view, views)
    known = (getattr(of, "column_names", None) or {}).get(view)
    if data is not None:
        vector = "variate" if layout.vector == "pair" else layout.vector
        adjusted = {} if confounds is None else {"confounds": confounds}
        correlations = numbers(of.loadings(**{view: data}, **adjusted))
        return correlations, f"correlation with the {vector}", known or column_names_of(data)
    weights, axis = there[view]
    return np.moveaxis(numbers(weights), axis, 0), "weight" if layout.value else "coefficient", known


def _size(rows: int, columns: int = 1) -> tuple[float, float]:
    """Width and height in inches of a figure with `rows` names and `columns` components."""
    return 4.8 if columns == 1 else min(3.2 + 0.55 * columns, 12.0), min(
        max(1.1 + 0.24 * rows, LEAST_HEIGHT), 14.0
    )


def _columns(
    ax: Axes | None,
    names: Sequence[str],
    sizes: Any,
    label: str,
    title: str,
    places: Any = None,
    ends: Any = None,
) -> Axes:
    """Draw a number of each column of the data, from top to bottom: as a bar, or with the ends of its interval."""
    places = range(len(sizes)) if places is None else places
    colours = [COLOURS[0] if size >= 0 else COLOURS[1] for size in sizes]
    with axes_for(ax, _size(places[-1] + 1)) as axes:
        if ends is None:
            axes.barh(places, sizes, height=0.7, color=colours)
        else:
            low, high = ends
            faces = np.where((low <= 0) & (high >= 0), "white", colours)
            axes.hlines(places, low, high, colors=colours, linewidth=1.4)
            axes.scatter(sizes, places, s=24, c=faces.tolist(), edgecolors=colours, zorder=3)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.set(ylim=(places[-1] + 0.5, -0.5), xlabel=label)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=6)
        axes.ticklabel_format(axis="x", scilimits=SHORT, useMathText=True)
        _name_rows(axes, names, places)
        axes.set_title(title, loc="left")
    return axes


def _name_rows(axes: Axes, names: Sequence[str], places: Any) -> None:
    """Write the names of columns of the data beside the y axis, in a small size if they are many."""
    axes.set_yticks(places, list(names))
    axes.tick_params(axis="y", length=0, **({"labelsize": 6} if len(names) > FEW_ROWS else {}))


def _map(axes: Axes, values: HostArray, names: Sequence[str], label: str, vector: str) -> None:
    """Draw a matrix as a map: red and blue are opposite signs, and 0 is white.

    Red and blue look alike in black and white, so the cells of a small map also show the numbers.
    """
    scale = float(np.nanmax(np.abs(values))) or 1.0
    image = axes.imshow(values, cmap="RdBu_r", vmin=-scale, vmax=scale, aspect="auto")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    _name_rows(axes, names, range(len(names)))
    axes.set_xticks(range(values.shape[1]), [str(j + 1) for j in range(values.shape[1])])
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(vector)
    if axes.figure is not None:
        bar = axes.figure.colorbar(image, ax=axes, label=label, shrink=0.8, pad=0.02, aspect=25)
        bar.outline.set_visible(False)


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
        If `bootstrap` is no result of `linspec.bootstrap`, or has no loadings and `kind` asks for them.
    InvalidOption
        If `matrix`, `component`, `count` or `kind` is invalid.
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
    check_choice("kind", kind, ("weights", "loadings"))
    if not hasattr(bootstrap, f"{kind}_table") or not hasattr(bootstrap, "draws"):
        raise InvalidProblem(
            f"intervals draws a result of linspec.bootstrap that has {kind}; got {type(bootstrap).__name__}. Draw "
            'weights without intervals with linspec.plots.loadings; only those of a CCA have kind="loadings".'
        )
    check_count("count", count, 1)
    rows = getattr(bootstrap, f"{kind}_table")(matrix, library="")
    check_index("component", component, len(bootstrap.agreement))
    vector = bootstrap.solution.layout.vector
    columns = [f"{vector}{component + 1}{part}" for part in ("", " lower", " upper")]
    values, lower, upper = (np.array([row[column] for row in rows]) for column in columns)
    largest = np.argsort(-np.abs(values), kind="stable")[:count]
    names = [str(next(iter(rows[i].values()))) for i in largest]  # the first entry of a row names the column
    title = f"{vector} {component + 1}"
    title += f", {len(largest)} largest of {len(rows)}" if len(largest) < len(rows) else ""
    label = f"{kind.removesuffix('s')}, {100 * bootstrap.level:g} % interval"
    return _columns(ax, names, values[largest], label, title, ends=(lower[largest], upper[largest]))


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
    components = solution.leading_columns(count, matrix)
    check_index("component", component, len(components))
    vector, positive, negative = components[component]
    pairs = [*positive, *reversed(negative)]
    if not pairs:
        raise InvalidProblem(f"leading_columns draws weights other than 0; those of {vector} are 0.")
    gap, stem = int(bool(positive and negative)), solution.layout.vector
    places = np.arange(len(pairs)) + np.repeat([0, gap], [len(positive), len(negative)])
    names, weights = zip(*pairs, strict=True)
    label = "weight" if solution.layout.value else "coefficient"
    title = f"{stem} {component + 1}" if vector == f"{stem}{component + 1}" else vector
    return _columns(ax, [str(name) for name in names], weights, label, title, places)


# ---- rows -------------------------------------------------------------------------------------


def scores(
    points: Any,
    classes: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    label: str = "component",
    ax: Axes | None = None,
) -> Axes:
    """Draw rows in two dimensions, with a colour and a marker for each class.

    Parameters
    ----------
    points : array of shape (n, k)
        Coordinates of rows, such as ``solution.transform(X)``. With one component, classes are drawn one above the
        other.
    classes : sequence of n values, or series, optional
        The class of each row. Rows without a class (None) are grey. The name of a series is the title of the legend.
    components : sequence of two int, default (0, 1)
        The two columns to draw, counted from 0.
    label : str, default "component"
        The axis label without the number of the component.
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
    Z = matrix_of(points, "scores draws an n x k array", "Pass solution.transform(X).")
    names, codes = _codes(classes, len(Z))
    single = Z.shape[1] == 1
    if single:
        spread = 0.6 * (np.arange(len(Z)) * GOLDEN % 1 - 0.5)
        Z, components = np.column_stack([Z[:, 0], codes + spread]), (0, 1)
    if len(components) != 2 or not all(0 <= j < Z.shape[1] for j in components):
        raise InvalidOption(f"components must be two of 0 to {Z.shape[1] - 1}; got {shown(components)}.")
    with axes_for(ax, (5.4, 4.0)) as axes:
        for code in np.unique(codes):
            colour, marker, caption = MUTED, ".", "no class"
            if code >= 0:
                rounds, number = divmod(code, len(COLOURS))
                # When all colours have been used, the markers are shifted, so that many classes remain distinct.
                colour = COLOURS[number]
                marker = MARKERS[(number + rounds) % len(MARKERS)]
                caption = names[code]
            style: dict[str, Any] = {"s": 14 if len(Z) <= MOST_POINTS else 5, "alpha": 0.75, **POINTS}
            axes.scatter(
                *Z[codes == code][:, components].T, color=colour, marker=marker, label=caption, **style
            )
        axes.set_xlabel(f"{label} {components[0] + 1}")
        if single:
            axes.set_yticks(range(len(names)), names)
            axes.grid(visible=False, axis="y")
        else:
            axes.set_ylabel(f"{label} {components[1] + 1}")
            if classes is not None:
                legend_beside(axes, str(getattr(classes, "name", None) or ""))
    return axes


def _codes(classes: Any, rows: int) -> tuple[list[str], HostArray]:
    """The names of the classes in sorted order, and for each row the index of its class (-1 without a class)."""
    if classes is None:
        return [""], np.zeros(rows, int)
    codes, names = class_codes(classes)
    if len(codes) != rows:
        raise InvalidProblem(f"classes must have a value for each of the {rows} rows; got {len(codes)}.")
    return [str(name) for name in names.tolist()], codes


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
    >>> solution = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> axes = ls.plots.variates(*solution.transform(X, Y))
    >>> len(axes.collections) > 0
    True
    """
    clouds = []
    for blocks in filter(None, [(P, Q), held_out]):
        check_order(dict(zip(("P", "Q"), blocks, strict=False)))
        first, second = (numbers(block) for block in blocks)
        if first.ndim != 2 or first.shape != second.shape or not first.size:
            raise InvalidProblem(f"variates must be two n x k arrays; got {first.shape} and {second.shape}.")
        check_index("pair", pair, first.shape[1])
        clouds.append((first[:, pair], second[:, pair]))
    scales = [float(np.std(block)) or 1.0 for block in clouds[0]]
    correlations = [_correlation(*cloud) for cloud in clouds]
    with axes_for(ax, (4.2, 4.2)) as axes:
        for cloud, word, colour, marker in zip(clouds, ("fitted", "held-out"), COLOURS, "o^", strict=False):
            drawn = np.unique(np.linspace(0, len(cloud[0]) - 1, MOST_POINTS).astype(int))
            x, y = (block[drawn] / scale for block, scale in zip(cloud, scales, strict=True))
            style: Any = {"color": colour, "marker": marker, "label": f"{word} rows", **POINTS}
            axes.scatter(x, y, s=12, alpha=0.5, **style)
        axes.axline((0, 0), slope=correlations[0], **THIN)
        captions = [f"{r:.2f} {word}" for r, word in zip(correlations, ("fitted", "held out"), strict=False)]
        axes.set_title(f"pair {pair + 1}: {', '.join(captions)}".replace("-", "−"), fontsize=10)
        axes.set(xlabel="variate of X / st. dev.", ylabel="variate of Y / st. dev.")
        if len(clouds) > 1:
            axes.legend(loc="upper left")
    return axes


def _correlation(x: HostArray, y: HostArray) -> float:
    """The correlation of two variates; 0 if one is constant."""
    x, y = x - np.mean(x), y - np.mean(y)
    return float(x @ y / max(np.linalg.norm(x) * np.linalg.norm(y), np.finfo(np.float64).tiny))
