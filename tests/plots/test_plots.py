"""Pictures of answers: what the artists hold is what the answers hold, and nothing of matplotlib is left changed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, MissingPackage

pytest.importorskip("matplotlib")

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color
from matplotlib.figure import Figure

rng = np.random.default_rng(0)
N = 300
SHARED = rng.standard_normal((N, 2)) * [2.0, 1.0]
X = SHARED @ rng.standard_normal((2, 9)) + rng.standard_normal((N, 9))
Y = SHARED @ rng.standard_normal((2, 7)) + rng.standard_normal((N, 7))
CLASSES = np.array(["ash", "elm", "oak"])[rng.integers(0, 3, N)]
SOLUTION = ls.solve(ls.CCA(X[:200], Y[:200], k=4, ridge=1.0))


@pytest.fixture(autouse=True)
def settings_stay():
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before


def drawn(ax):
    """The axes, after everything in their figure could be drawn."""
    FigureCanvasAgg(ax.figure).draw()
    return ax


def lines(ax) -> dict[str, Any]:
    return {line.get_label(): line for line in ax.get_lines()}


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ends(band, places: int) -> np.ndarray:
    """The lower and the upper end of a band at the places 1, 2, ..."""
    corners = band.get_paths()[0].vertices
    at = [corners[corners[:, 0] == place + 1, 1] for place in range(places)]
    return np.array([[ys.min(), ys.max()] for ys in at]).T


def test_scree_has_the_values_and_the_band_of_chance():
    null = np.sort(rng.random((40, 4)), axis=1)[:, ::-1]
    ax = drawn(ls.plots.scree(SOLUTION, null=null, alpha=0.1))
    np.testing.assert_array_equal(lines(ax)["data"].get_xydata(), [*enumerate(SOLUTION.correlations, 1)])
    np.testing.assert_array_equal(lines(ax)["chance, median"].get_ydata(), np.median(null, axis=0))
    np.testing.assert_allclose(ends(ax.collections[0], 4), np.quantile(null, [0.1, 0.9], axis=0))
    assert "chance, 10 to 90 % of 40 permutations" in words(ax)
    ax = drawn(ls.plots.scree([3.0, 2.0], null=[2.5, 2.4], held_out=[2.0, 1.0]))  # one permutation is a line
    assert not ax.collections
    np.testing.assert_array_equal(lines(ax)["chance"].get_ydata(), [2.5, 2.4])
    np.testing.assert_array_equal(lines(ax)["held-out rows"].get_ydata(), [2.0, 1.0])


@pytest.mark.parametrize("solver", [None, "gram"])
def test_scree_of_a_test_fills_what_is_more_than_chance(solver):
    test = ls.permutation_test(ls.CCA(X, Y, k=4), solver, permutations=99, rng=0)
    count, values = test.components(), getattr(test, "correlations" if solver is None else "values")
    ax = drawn(ls.plots.scree(test))
    full, hollow = lines(ax)["p ≤ 0.05"], lines(ax)["p > 0.05"]
    np.testing.assert_array_equal(full.get_ydata(), values[:count])
    np.testing.assert_array_equal(hollow.get_ydata(), values[count:])
    assert same_color(hollow.get_markerfacecolor(), "white")
    beside = drawn(ls.plots.scree(SOLUTION, null=test))
    np.testing.assert_array_equal(lines(beside)["p ≤ 0.05"].get_ydata(), SOLUTION.correlations[:count])
    if solver is not None:  # the band is that of the largest value, which the others are compared with
        chance = np.quantile(test.drawn[:, 0], [0.05, 0.95])
        np.testing.assert_allclose(ends(ax.collections[0], 4), np.tile(chance, (4, 1)).T)


def ticks(ax) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_a_map_of_loadings_has_the_correlations_and_the_names():
    names = [f"column {i}" for i in range(9)]
    ax = drawn(ls.plots.loadings(SOLUTION, data=X, names=names))
    expected = np.corrcoef(X.T, SOLUTION.transform(X).T)[:9, 9:]
    np.testing.assert_allclose(ax.images[0].get_array(), expected, atol=1e-10)
    low, high = ax.images[0].get_clim()
    assert low == -high == pytest.approx(-np.abs(expected).max())
    assert ticks(ax) == names
    svd = ls.solve(ls.SVD(X, k=2))
    np.testing.assert_array_equal(drawn(ls.plots.loadings(svd)).images[0].get_array(), svd.Vh.T)
    Z = ls.labelled(Y[:60, :2], columns=["pulse", "pain"])
    functions = ls.solve(ls.KernelCCA(X[:60, :2], Z, k=2, ridge=1.0))
    ax = drawn(ls.plots.loadings(functions, view="Y", data=Z))
    assert ticks(ax) == ["pulse", "pain"]
    np.testing.assert_allclose(ax.images[0].get_array(), functions.loadings(Y=Z))


def test_bars_have_the_largest_columns_first():
    ax = drawn(ls.plots.loadings(SOLUTION, view="Y", component=1, most=3))
    weights = SOLUTION.y_weights[:, 1]
    largest = np.argsort(-np.abs(weights))[:3]
    np.testing.assert_array_equal([bar.get_width() for bar in ax.patches], weights[largest])
    assert ticks(ax) == [str(i) for i in largest]
    assert ax.get_title(loc="left") == "pair 2, the 3 largest of 7 columns"
    assert ax.get_xlabel() == "weight"


def test_coefficients_of_several_targets_have_both_names():
    A, B = ls.labelled(X[:, :2], columns=["age", "dose"]), ls.labelled(Y[:, :2], columns=["pulse", "pain"])
    solution = ls.solve(ls.LeastSquares(A, B, [1.0, 10.0]))
    ax = drawn(ls.plots.ridge_path(solution))
    assert words(ax) == ["age, pulse", "age, pain", "dose, pulse", "dose, pain"]
    found = lines(ax)
    np.testing.assert_array_equal(found["dose, pulse"].get_xdata(), [1.0, 10.0])
    np.testing.assert_array_equal(found["dose, pulse"].get_ydata(), solution.x[:, 1, 0])
    assert len({found[word].get_marker() for word in words(ax)}) == 4


NAMES = [f"gene {i}" for i in range(9)]
BOOTSTRAP = ls.bootstrap(ls.CCA(ls.labelled(X, columns=NAMES), Y, k=2), draws=20, rng=0)


@pytest.mark.parametrize("kind", ["weights", "loadings"])
def test_intervals_have_the_ends_and_the_names_of_the_largest_columns(kind: str):
    ax = drawn(ls.plots.intervals(BOOTSTRAP, "X", component=1, count=5, kind=kind))
    ends = (BOOTSTRAP.x_weights if kind == "weights" else BOOTSTRAP.x_loadings)[..., 1]
    P = BOOTSTRAP.solution.transform(X)
    values = BOOTSTRAP.solution.x_weights if kind == "weights" else np.corrcoef(X.T, P.T)[:9, 9:]
    largest = np.argsort(-np.abs(values[:, 1]))[:5]
    bars, points = ax.collections
    segments, (low, high) = np.array(bars.get_segments()), ends[:, largest]
    np.testing.assert_allclose(segments[:, :, 0], np.transpose([low, high]), atol=1e-12)
    np.testing.assert_allclose(points.get_offsets()[:, 0], values[largest, 1], atol=1e-10)
    np.testing.assert_array_equal(points.get_offsets()[:, 1], segments[:, 0, 1])
    assert ticks(ax) == [NAMES[i] for i in largest]
    hollow = [same_color(colour, "white") for colour in points.get_facecolor()]
    assert hollow == ((low <= 0) & (high >= 0)).tolist()
    assert ax.get_title(loc="left") == "pair 2, 5 largest of 9"
    assert ax.get_xlabel() == f"{kind[:-1]}, 95 % interval"


def test_leading_columns_stand_apart_by_sign():
    ax = drawn(ls.plots.leading_columns(BOOTSTRAP.solution, "X", component=1, count=3))
    w = BOOTSTRAP.solution.x_weights[:, 1]
    above, below = [i for i in np.argsort(-w) if w[i] > 0][:3], [i for i in np.argsort(w) if w[i] < 0][:3]
    order = [*above, *below[::-1]]
    np.testing.assert_array_equal([bar.get_width() for bar in ax.patches], w[order])
    assert ticks(ax) == [NAMES[i] for i in order]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2
    path = ls.solve(ls.LeastSquares(X, Y[:, 0], [1.0, 10.0]))
    assert drawn(ls.plots.leading_columns(path, component=1)).get_title(loc="left") == "x1, ridge 10"


def test_scores_of_each_class_have_a_colour_and_a_marker():
    Z, names = rng.standard_normal((N, 3)), ["ash", "elm", "oak"]
    ax = drawn(ls.plots.scores(Z, CLASSES, components=(2, 0)))
    line = drawn(ls.plots.scores(Z[:, :1], CLASSES))
    for place, name in enumerate(names):
        cloud, points = ax.collections[place].get_offsets(), line.collections[place].get_offsets()
        np.testing.assert_array_equal(cloud, Z[name == CLASSES][:, [2, 0]])
        np.testing.assert_array_equal(points[:, 0], Z[name == CLASSES, 0])
        assert (np.abs(points[:, 1] - place) < 0.5).all()
    assert words(ax) == ticks(line) == names
    ax = drawn(ls.plots.scores(Z[:42], [None, float("nan"), *range(20), *range(20)]))
    assert words(ax)[0] == "no class"
    assert len(ax.collections[0].get_offsets()) == 2
    looks = {(*c.get_facecolor()[0], c.get_paths()[0].vertices.tobytes()) for c in ax.collections}
    assert len(looks) == 21


def test_variates_have_their_correlations():
    fitted, new = SOLUTION.transform(X[:200], Y[:200]), SOLUTION.transform(X[200:], Y[200:])
    ax = drawn(ls.plots.variates(*fitted, held_out=new, pair=1))
    told = [np.corrcoef(P[:, 1], Q[:, 1])[0, 1] for P, Q in (fitted, new)]
    assert ax.get_title() == f"pair 2: {told[0]:.2f} fitted, {told[1]:.2f} held out"
    np.testing.assert_allclose(np.std(ax.collections[0].get_offsets(), axis=0), 1.0)
    assert len(ax.collections[1].get_offsets()) == 100
    assert words(ax) == ["fitted rows", "held-out rows"]


def test_arrays_and_series_of_other_libraries_are_drawn():
    polars, strict = pytest.importorskip("polars"), pytest.importorskip("array_api_strict")
    ax = drawn(ls.plots.scores(strict.asarray(X), polars.Series("tree", CLASSES)))
    assert sum(len(cloud.get_offsets()) for cloud in ax.collections) == N
    assert (words(ax), ax.get_legend().get_title().get_text()) == (["ash", "elm", "oak"], "tree")


def test_a_ridge_path_shows_scores_of_test_rows_or_values_of_fitted_ones():
    problem, ridges = ls.CCA(X[:200], Y[:200], k=2), [10.0, 0.0, 1000.0]
    path = ls.ridge_path(problem, ridges, test=(X[200:], Y[200:]))
    ax = drawn(ls.plots.ridge_path(path))
    curve = ax.get_lines()[0]  # in the order of the ridges
    np.testing.assert_array_equal(curve.get_ydata(), path.totals[[1, 0, 2]])
    np.testing.assert_array_equal(curve.get_xdata(), [0.0, 10.0, 1000.0])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "10", "100", "1000"]
    assert ax.texts[0].get_text() == f"best: {path.best_ridge[0]:g}"
    path = ls.ridge_path(problem, ridges)
    ax, values = drawn(ls.plots.ridge_path(path)), [path.solutions[j].correlations for j in (1, 0, 2)]
    np.testing.assert_array_equal([curve.get_ydata() for curve in ax.get_lines()[:2]], np.transpose(values))


def test_cross_validation_shows_means_errors_folds_and_the_chosen_settings():
    problem = ls.CCA(X, Y, k=2)
    found = ls.cross_validate(problem, ridges=[1.0, 10.0, 100.0], ks=[1, 2], rng=0)
    ax = drawn(ls.plots.cross_validation(found))
    for k, bars in enumerate(ax.containers):
        np.testing.assert_array_equal(bars[0].get_ydata(), found.mean[:, k])
        np.testing.assert_array_equal(bars[0].get_xdata(), [1.0, 10.0, 100.0])
        heights = [abs(b[1] - a[1]) / 2 for a, b in bars[2][0].get_segments()]
        np.testing.assert_allclose(heights, found.standard_error[:, k])
    assert words(ax) == ["k = 1", "k = 2"]
    assert [text.get_text() for text in ax.texts] == ["best, k = 2", "within 1 s.e., k = 2"]
    found = ls.cross_validate(problem, ridges=[3.0], ks=[1, 2], rng=0)  # over k, with each fold
    ax = drawn(ls.plots.cross_validation(found))
    np.testing.assert_array_equal(ax.containers[0][0].get_ydata(), found.mean[0])
    np.testing.assert_array_equal(ax.containers[0][0].get_xdata(), [1, 2])
    folds = [line.get_ydata() for line in ax.get_lines() if line.get_linewidth() == 0.6]
    np.testing.assert_array_equal(folds, found.scores[:, 0])
    labels = {"folds": "mean squared error, held-out rows", "gcv": "generalized cross-validation"}
    for method, label in labels.items():
        found = ls.cross_validate(ls.LeastSquares(X, Y), ridges=[3.0, 900.0], method=method)
        ax = drawn(ls.plots.cross_validation(found, folds=False))
        np.testing.assert_array_equal(ax.containers[0][0].get_ydata(), found.mean[:, 0])
        assert ax.get_ylabel() == label
    for ks in ([1, 2, 3], [2]):  # of a problem without a ridge
        found = ls.cross_validate(ls.SVD(X, 3, center=True), ks=ks, rng=0)
        ax = drawn(ls.plots.cross_validation(found))
        np.testing.assert_array_equal(ax.containers[0][0].get_xdata(), ks)
        np.testing.assert_array_equal(ax.containers[0][0].get_ydata(), found.mean[0])


def test_what_holds_no_numbers_is_not_drawn():
    solution = ls.solve(ls.SVD(X, 2))
    for draw, given in (
        (ls.plots.scree, ls.rotate(solution)),
        (ls.plots.scores, solution),
        (ls.plots.scores, ["a", "b"]),
    ):
        with pytest.raises(ls.errors.InvalidProblem, match="plots draw arrays; got"):
            draw(given)


@pytest.mark.parametrize("against", ["passes", "seconds", "iterations"])
def test_convergence_has_the_history_and_ends_in_the_certificate(against: str):
    problem, options = ls.CCA(X, Y, 2), {"rng": 0, "form": "implicit"}
    runs = {
        "short": ls.solve(problem, "als", max_passes=6, tol=1e-14, **options),
        "long": ls.solve(problem, "als", **options),
        "exact": ls.solve(problem, "gram"),
    }
    ax = drawn(ls.plots.convergence(runs, against=against, tol=1e-6))
    found, column = lines(ax), "iteration" if against == "iterations" else against
    for name in ("short", "long"):
        run, curve = runs[name], found[name]
        np.testing.assert_array_equal(curve.get_ydata(), [*run.history["residual"], run.residual])
        np.testing.assert_array_equal(curve.get_xdata()[:-1], run.history[column])
        assert curve.get_xdata()[-1] >= getattr(run, against)
    assert found["exact"].get_marker() == "D"
    assert words(ax) == ["short", "long", "exact"]
    ends = [line.get_markerfacecolor() for line in ax.get_lines() if line.get_marker() == "o"]
    assert [same_color(colour, "white") for colour in ends] == [True, False]  # short has not converged
    assert ax.get_yscale() == "log"


def test_curves_are_named_by_solvers_and_problems():
    problems = {f"ridge {r:g}": ls.CCA(X, Y, k=1, ridge=r) for r in (1.0, 2.0)}
    one, two = ls.compare(problems["ridge 1"], ["als", "gram"]), ls.compare(problems, ["gram"])
    assert words(drawn(ls.plots.convergence(one))) == ["als", "gram"]
    assert words(drawn(ls.plots.convergence(two))) == ["ridge 1, gram", "ridge 2, gram"]


LEAST_SQUARES = ls.solve(ls.LeastSquares(X, Y))


@pytest.mark.parametrize(
    ("name", "args", "options", "error", "words"),
    [
        ("scree", [SOLUTION], {"null": np.zeros((2, 2, 2))}, InvalidProblem, "a row for each permutation"),
        ("loadings", [SOLUTION], {"view": "A"}, InvalidOption, "view must be one of X, Y"),
        ("loadings", [LEAST_SQUARES], {"data": X}, MissingCapability, "has no loadings"),
        ("intervals", [BOOTSTRAP], {}, InvalidOption, "matrix must be one of 'X', 'Y'; got ''"),
        ("ridge_path", [SOLUTION], {}, InvalidProblem, "several ridges"),
        ("convergence", [SOLUTION], {"against": "days"}, InvalidOption, "passes, seconds, iterations"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, args, options, error, words):
    with pytest.raises(error, match=words):
        getattr(ls.plots, name)(*args, **options)


def test_axes_that_are_given_are_used_and_dressed():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert ls.plots.scree(SOLUTION, ax=left) is left
    assert ls.plots.variates(*SOLUTION.transform(X, Y), ax=right) is right
    assert not left.spines["top"].get_visible()
    drawn(left)
    assert len(figure.axes) == 2


def test_importing_loads_no_matplotlib_and_drawing_no_pyplot(tmp_path):
    code = f"""
import sys, linspec
linspec.plots
print([m for m in sys.modules if m.startswith('matplotlib')])
linspec.plots.loadings([[1, 2], [3, 4]]).figure.savefig({str(tmp_path / "p.png")!r})
print('matplotlib.pyplot' in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["[]", "False"], run.stderr


def test_pictures_without_matplotlib_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match=r"pip install 'linspec\[plots\]'"):
        ls.plots.scree(SOLUTION)
