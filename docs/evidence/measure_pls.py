"""Print how near partial least squares comes to scikit-learn's, and in what time and memory.

Run `python docs/evidence/measure_pls.py`; `--quick` takes small data. All data are generated: there is no download.

- PLS-SVD, dense: 20,000 rows, 400 and 300 columns with ten common causes, k = 10, against `PLSSVD`;
- regression, dense: 5,000 rows, 400 columns, five right-hand sides, k = 20, against `PLSRegression`, whose power
  method runs to `tol=1e-22` in one row and to its default, 1e-6, in another; and with one right-hand side;
- every k from 1 to 20 on five folds of 5,000 rows and 100 columns, three times, against `PLSRegression` fitted for each
  k and fold, and against the cross-validation of IKPLS (Engstrøm 2024, algorithm 1, one process) where it is installed;
- PLS-SVD, sparse: 50,000 rows, 10,000 and 5,000 columns, where scikit-learn takes no sparse matrix: linspec alone.

error: the largest difference to NumPy's answer, relative to the largest entry: of the weights up to sign, or of the
predictions. CPU s, worst: processor seconds of all threads, median and largest over `--rounds` rounds, in each of which
every method has one turn. MB: the peak of resident memory above that before the solve, in a process of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse
from showing import Claim, Report, arguments, at_most
from sklearn.cross_decomposition import PLSSVD, PLSRegression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from timing import Peak, alternate, apart

import linspec as ls

K, COMPONENTS, FOLDS = 10, 20, 5


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser, "scikit-learn")
    quick = report.given.quick
    n, p, q = (500, 40, 30) if quick else (20_000, 400, 300)
    rounds = 1 if quick else report.given.rounds
    show(report, "PLS-SVD, dense", pairs_by(), exact_pairs, (n, p, q), rounds)
    for columns in (5, 1):
        title = f"regression, dense, {columns} right-hand side{'s' * (columns > 1)}"
        show(report, title, regressions_by(columns), exact_predictions, (n // 4, p, columns), rounds)
    show_folds(report, (n // 4, max(p // 4, 2 * COMPONENTS), 5))
    show_sparse(report, (1000, 300, 200) if quick else (50_000, 10_000, 5_000))
    return report.end()


def show(
    report: Report, title: str, methods: dict[str, Any], exact: Callable[..., Any], sizes: Any, rounds: int
) -> None:
    """Time methods in turns, and print their errors and memory."""
    X, Y = views(*sizes)
    right = exact(X, Y)
    method_calls = {name: partial(method, X, Y) for name, method in methods.items()}
    turns = alternate(method_calls, rounds, enough=60.0, warm=True)
    table = report.table("method", "error::.1e", "CPU s::.3f", "worst::.3f", "MB::.0f", title=title)
    errors = {}
    for name, taken in turns.items():
        errors[name] = max(relative(found, true) for found, true in zip(taken.answer, right, strict=True))
        memory = apart(peak_of, methods[name], sizes).get("memory", np.nan)
        table.row(name, errors[name], taken.median, max(taken.cpu), memory)
    rivals = [name for name in methods if not name.startswith("linspec")]
    claims = [
        at_most(f"{name} is exact", errors[name], 1e-10, own=True)
        for name in methods
        if name.startswith("linspec")
    ]
    for rival in rivals:
        median, worst = turns["linspec auto"].over(turns[rival])
        figures = f"{median:.2f} of its processor seconds in the median, {worst:.2f} at worst"
        claims.append(Claim(f"linspec takes less time than {rival}", median < 1, figures, own=True))
    report.say(claims, title)


def peak_of(method: Callable[..., Any], sizes: tuple[int, int, int]) -> dict[str, float]:
    """The peak of memory of one run, after one on small data."""
    method(*views(200, 30, sizes[2]))
    X, Y = views(*sizes)
    with Peak() as peak:
        method(X, Y)
    return peak.figures()


def views(n: int, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Views with ten common causes of falling strength."""
    rng = np.random.default_rng(0)
    causes = rng.standard_normal((n, 10)) * np.geomspace(3, 1, 10)
    X, Y = (causes @ rng.standard_normal((10, m)) + rng.standard_normal((n, m)) + 1 for m in (p, q))
    return X, Y


def relative(found: np.ndarray, right: np.ndarray) -> float:
    """The largest difference over the largest entry."""
    found = np.asarray(found).reshape(right.shape)
    return float(np.abs(found - right).max() / np.abs(right).max())


# ---- PLS-SVD ---------------------------------------------------------------------------------------


def pairs_by() -> dict[str, Any]:
    """The methods for the pairs."""
    return {
        "linspec auto": partial(pairs_by_linspec, solver="auto"),
        "linspec gram": partial(pairs_by_linspec, solver="gram"),
        "linspec block-krylov, tol 1e-12": partial(pairs_by_linspec, solver="block-krylov", tol=1e-12),
        "scikit-learn PLSSVD": pairs_by_scikit_learn,
    }


def pairs_by_linspec(X: Any, Y: Any, **options: Any) -> tuple[Any, Any]:
    """Weights by one of linspec's solvers."""
    if options["solver"] == "auto":
        options["tol"] = 1e-12
    found = ls.solve(ls.PLS(X, Y, k=K), rng=0, **options)
    return signed(found.x_weights, found.y_weights)


def pairs_by_scikit_learn(X: Any, Y: Any) -> tuple[Any, Any]:
    """Weights by scikit-learn."""
    found = PLSSVD(K, scale=False).fit(X, Y)
    return signed(found.x_weights_, found.y_weights_)


def exact_pairs(X: Any, Y: Any) -> tuple[Any, Any]:
    """Weights by NumPy."""
    U, _, Vt = np.linalg.svd((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)), full_matrices=False)
    return signed(U[:, :K], Vt[:K].T)


def signed(U: Any, V: Any) -> tuple[Any, Any]:
    """Singular vectors; the largest entry of each left one is positive."""
    signs = np.sign(U[np.argmax(np.abs(U), axis=0), np.arange(K)])
    return U * signs, V * signs


# ---- regression ------------------------------------------------------------------------------------


def regressions_by(columns: int) -> dict[str, Any]:
    """The methods for predictions."""
    found = {
        f"linspec {name}": partial(predicted_by_linspec, solver=name) for name in ("auto", "gram", "nipals")
    }
    found["scikit-learn PLSRegression, tol 1e-22"] = partial(predicted_by_scikit_learn, tol=1e-22)
    if columns > 1:
        found["scikit-learn PLSRegression"] = partial(predicted_by_scikit_learn, tol=1e-6)
    return found


def predicted_by_linspec(X: Any, Y: Any, *, solver: str) -> tuple[Any]:
    """Predictions of the training rows with all components."""
    return (ls.solve(ls.PLSRegression(X, Y, k=COMPONENTS), solver).predict(X),)


def predicted_by_scikit_learn(X: Any, Y: Any, *, tol: float) -> tuple[Any]:
    """Predictions of the training rows with all components."""
    model = PLSRegression(COMPONENTS, scale=False, tol=tol, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a power method may not reach 1e-22
        return (model.fit(X, Y).predict(X),)


def exact_predictions(X: Any, Y: Any) -> tuple[Any]:
    """Predictions by explicit deflation with NumPy's singular vectors."""
    left, own = X - X.mean(axis=0), Y - Y.mean(axis=0)
    found = np.zeros_like(Y) + Y.mean(axis=0)
    for _ in range(COMPONENTS):
        t = left @ np.linalg.svd(left.T @ own, full_matrices=False)[0][:, 0]
        found += np.outer(t, own.T @ t / (t @ t))
        left = left - np.outer(t, left.T @ t / (t @ t))
    return (found,)


def show_folds(report: Report, sizes: tuple[int, int, int]) -> None:
    """Every k on every fold, against a fit for each."""
    X, Y = views(*sizes)
    labels = np.zeros(len(X), dtype=int)
    folds = list(KFold(FOLDS).split(X))
    for number, (_, held) in enumerate(folds):
        labels[held] = number
    calls = {
        "linspec": partial(errors_by_linspec, X, Y, labels),
        "scikit-learn": partial(errors_by_fits, X, Y, folds),
    }
    if find_spec("ikpls"):
        calls["IKPLS"] = partial(errors_by_ikpls, X, Y, labels)
    turns = alternate(calls, 3)
    table = report.table("method", "passes", "CPU s::.2f", "worst::.2f", title="every k on five folds")
    for name, taken in turns.items():
        table.row(name, taken.answer[1], taken.median, max(taken.cpu))
    rival = turns.get("IKPLS")
    off = np.abs(turns["linspec"].answer[0] / turns["scikit-learn"].answer[0] - 1).max()
    median, worst = turns["linspec"].over(turns["scikit-learn"])
    report.say(
        [
            at_most("the errors of every k and fold are those of scikit-learn", float(off), 1e-8, own=True),
            Claim(
                "one pass is enough",
                turns["linspec"].answer[1] == 1,
                f"{turns['linspec'].answer[1]:g}",
                own=True,
            ),
            *((less_than_ikpls(turns["linspec"], rival),) if rival else ()),
            Claim(
                "less time than a fit for each",
                median < 1,
                f"{median:.3f} in the median, {worst:.3f} at worst",
                own=True,
            ),
        ],
        "folds",
    )


def errors_by_linspec(X: Any, Y: Any, labels: Any) -> tuple[Any, float]:
    """Mean squared errors, a row for each fold, and the passes."""
    problem = ls.PLSRegression(X, Y, k=COMPONENTS)
    found = ls.cross_validate(problem, ks=range(1, COMPONENTS + 1), splitter=labels)
    return found.scores[:, 0, :], found.passes


def errors_by_fits(X: Any, Y: Any, folds: Any) -> tuple[Any, str]:
    """The same by a fit for each k and fold."""
    found = np.empty((FOLDS, COMPONENTS))
    for i, (training, held) in enumerate(folds):
        for k in range(1, COMPONENTS + 1):
            model = PLSRegression(k, scale=False, tol=1e-22, max_iter=1000).fit(X[training], Y[training])
            found[i, k - 1] = np.mean((model.predict(X[held]) - Y[held]) ** 2)
    return found, ""


def errors_by_ikpls(X: Any, Y: Any, labels: Any) -> tuple[Any, str]:
    """The same by IKPLS, which downdates XᵀX and XᵀY for each fold."""
    from ikpls.fast_cross_validation.numpy import PLS  # an optional rival

    def errors(own: Any, predicted: Any) -> Any:
        return np.mean((predicted - own) ** 2, axis=(1, 2))

    model = PLS(algorithm=1, scale_X=False, scale_Y=False)
    found = model.cross_validate(X, Y, COMPONENTS, labels, errors, n_jobs=1, verbose=0)
    return np.array([found[fold] for fold in range(FOLDS)]), ""


def less_than_ikpls(own: Any, rival: Any) -> Claim:
    """Compare times, and the errors of IKPLS with ours."""
    median, worst = own.over(rival)
    off = np.abs(own.answer[0] / rival.answer[0] - 1).max()
    figures = f"{median:.3f} in the median, {worst:.3f} at worst; its errors differ by {off:.1e}"
    return Claim("less time than IKPLS", median < 1, figures, own=True)


# ---- sparse views ----------------------------------------------------------------------------------


def show_sparse(report: Report, sizes: tuple[int, int, int]) -> None:
    """Time, memory and residual of sparse views in a process of its own."""
    title = "PLS-SVD, sparse"
    table = report.table(
        "solver", "passes::g", "residual::.1e", "CPU s::.2f", "MB::.0f", "status", title=title
    )
    found = apart(sparse_run, sizes)
    table.row(*(found[name] for name in ("solver", "passes", "residual", "cpu", "memory", "status")))
    held = 8e-6 * sizes[1] * sizes[2]
    figures = f"{found['memory']:.0f} MB; XᵀY would take {held:.0f} MB"
    report.say(
        [
            at_most("the residual is within the tolerance", found["residual"], 1e-6, own=True),
            Claim("less than 1 GB above the data", found["memory"] < 1000, figures, own=True),
        ],
        title,
    )


def sparse_run(sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Solve for two sparse views once."""
    X, Y = sparse_views(*sizes)
    with Peak() as peak:
        found = ls.solve(ls.PLS(X, Y, k=K), rng=0)
    return {
        **peak.figures(),
        "solver": found.solver,
        "passes": found.passes,
        "residual": found.residual,
        "status": found.status.name,
    }


def sparse_views(n: int, p: int, q: int) -> tuple[Any, Any]:
    """Words of texts in two languages, each text with one of forty subjects."""
    rng = np.random.default_rng(0)
    subject = rng.integers(0, 40, n)

    def words(columns: int, each: int) -> Any:
        own = (rng.zipf(1.3, (n, each)) % columns + 131 * subject[:, None]) % columns
        rows = np.repeat(np.arange(n), each)
        return scipy.sparse.csr_array((np.ones(own.size), (rows, own.ravel())), shape=(n, columns))

    return words(p, 60), words(q, 30)


if __name__ == "__main__":
    raise SystemExit(main())
