"""Print what linspec takes beside other libraries and code written by hand, case by case, and whether answers agree.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_peers.py [CASE ...] --data FOLDER [--quick] [--rounds 5]

A case is data, linspec's call, those of its rivals (scikit-learn, cca-zoo where it is installed, NumPy and SciPy by
hand, methods as their papers have them), and figures of an answer that are computed alike for all: the sum of
correlations or of explained variances, an objective with its sign changed, scores. Methods take turns; a first round
does not count. Printed are processor seconds, median and worst, linspec's over the rival's round by round, and how far
the figures are from the best. linspec claims the best figures to 1e-6; that it takes less time than a rival with the
same answer is what is tried. `measure_readme.py` runs some of the cases in processes of their own.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace as Data
from typing import Any, NamedTuple

import datasets
import numpy as np
import published
import scipy.linalg
import scipy.sparse.linalg
import sklearn.cross_decomposition
from scipy.sparse.linalg import svds
from showing import Claim, Report, arguments, at_most
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.extmath import randomized_svd
from timing import alternate

import linspec as ls

K, SAME = 10, 1e-6
LIBRARIES = {"linspec": "linspec", "sklearn": "scikit-learn", "cca_zoo": "cca-zoo", "scipy": "SciPy by hand"}


class Case(NamedTuple):
    """What is asked, the data, figures of an answer (None: it; more is better), and the methods."""

    words: str
    make: Callable[[Any], Data]
    figures: Callable[[Data, Any], Any] | None
    methods: dict[str, Callable[[Data], Any]]


def scores(A: Any, W: Any) -> Any:
    """The centred rows of A times W, block by block."""
    found = np.vstack([A[start : start + 100_000] @ W for start in range(0, A.shape[0], 100_000)])
    return found - found.mean(axis=0)


def span_of(A: Any, W: Any) -> np.ndarray:
    return np.linalg.qr(scores(A, np.asarray(W)))[0]


def digits(_: Any) -> Data:
    """The left and the right half of 1797 images of handwritten digits."""
    left, right = np.split(load_digits().images, 2, axis=2)
    return Data(X=left.reshape(-1, 32).copy(), Y=right.reshape(-1, 32).copy(), ridge=100.0)


def dense(given: Any) -> Data:
    """Two dense views with twenty shared factors."""
    n, p = (2000, 60) if given.quick else (50_000, 400)
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, 20)) * np.linspace(1.0, 0.3, 20)
    X, Y = (shared @ rng.standard_normal((20, p)) + 2.0 * rng.standard_normal((n, p)) for _ in range(2))
    return Data(X=X, Y=Y, ridge=0.0)


def words(given: Any) -> Data:
    """Word counts in two columns of texts on fifty topics; common words and those of the topic, thirty a text."""
    n, vocabularies = (2000, (300, 200)) if given.quick else (50_000, (10_000, 5_000))
    rng, length = np.random.default_rng(0), 30
    topic, views = rng.integers(50, size=(n, 1)), []
    for p in vocabularies:
        word = (p * rng.random((n, length)) ** 3).astype(np.int64)  # the first words are the common ones
        own = rng.random((n, length)) < 0.3
        columns = np.where(own, (word + 997 * topic) % p, word).ravel()
        entries = np.ones(columns.size), columns, np.arange(0, columns.size + 1, length)
        views.append(scipy.sparse.csr_matrix(entries, shape=(n, p)))
        views[-1].sum_duplicates()
    return Data(X=views[0], Y=views[1], ridge=100.0)


def mapped(given: Any) -> Data:
    """A file of float32 rows, 2.0 GB, in the folder that is given; its halves are the views, never read as a whole."""
    n, p = (20_000, 200) if given.quick else (2_500_000, 200)
    path = given.folder / "rows.npy"
    if not path.exists():
        datasets.write_planted(path, n, p, factors=20, weakest=1.0)
    M = np.load(path, mmap_mode="r")
    return Data(X=M[:, : p // 2], Y=M[:, p // 2 :], ridge=0.0)


def weights(found: Any) -> tuple[Any, Any]:
    return found.x_weights, found.y_weights


def cca_linspec(data: Data) -> Any:
    return weights(ls.solve(ls.CCA(data.X, data.Y, K, ridge=data.ridge), rng=0))


def cca_sklearn(data: Data) -> Any:
    """It has no ridge, and deflates: its weights belong to the deflated views, its rotations to the views."""
    model = sklearn.cross_decomposition.CCA(K, scale=False, max_iter=5000).fit(data.X, data.Y)
    return model.x_rotations_, model.y_rotations_


def cca_zoo(data: Data) -> Any:
    """Its shrinkage c stands for (1 - c) S + c I, and S is divided by n - 1: c = r / (n - 1 + r) for our ridge r."""
    from cca_zoo.linear import RidgeCCA

    c = data.ridge / (data.X.shape[0] - 1 + data.ridge)
    return RidgeCCA(K, shrinkage=c).fit([data.X, data.Y]).weights_


def cca_scipy(data: Data) -> Any:
    """Dense Gram matrices, also of sparse views, Cholesky factors and the decomposition of what they leave of XᵀY."""
    n, products = data.X.shape[0], []
    for A, B in ((data.X, data.X), (data.Y, data.Y), (data.X, data.Y)):
        product, (a, b) = A.T @ B, (np.asarray(V.mean(axis=0)).ravel() for V in (A, B))
        product = product.toarray() if scipy.sparse.issparse(product) else product
        products.append(product - n * np.outer(a, b))
    return whitened(*products, data.ridge)


def cca_scipy_mapped(data: Data) -> Any:
    n, p = data.X.shape
    total, G = np.zeros(p + data.Y.shape[1]), 0.0
    for start in range(0, n, 20_000):
        rows = np.hstack([A[start : start + 20_000].astype(np.float64) for A in (data.X, data.Y)])
        total += rows.sum(axis=0)
        G = G + rows.T @ rows
    G = G - np.outer(total, total) / n
    return whitened(G[:p, :p], G[p:, p:], G[:p, p:], data.ridge)


def whitened(Sx: Any, Sy: Any, C: Any, ridge: float) -> Any:
    """Weights from dense Gram matrices."""
    Lx, Ly = (np.linalg.cholesky(S + ridge * np.eye(len(S))) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True).T
    if min(T.shape) > 2000:  # all singular vectors would take minutes
        U, s, Vt = svds(T, k=K)
        order = np.argsort(-s)
        U, Vt = U[:, order], Vt[order]
    else:
        U, _, Vt = np.linalg.svd(T, full_matrices=False)
    pairs = (Lx, U), (Ly, Vt.T)
    return tuple(scipy.linalg.solve_triangular(L, B[:, :K], lower=True, trans=1) for L, B in pairs)


def correlations(data: Data, found: Any) -> float:
    """The sum of the correlations, with the ridge, in the spans of the weights: the same law for all."""
    W, V = (np.asarray(B, dtype=np.float64) for B in found)
    x, y = scores(data.X, W), scores(data.Y, V)
    Tx, Ty = (np.linalg.inv(np.linalg.cholesky(u.T @ u + data.ridge * B.T @ B)) for u, B in ((x, W), (y, V)))
    return float(np.linalg.svd(Tx @ (x.T @ y) @ Ty.T, compute_uv=False).sum())


CCA = {"linspec": cca_linspec, "sklearn": cca_sklearn, "cca_zoo": cca_zoo, "scipy": cca_scipy}


def variance(data: Data, Vh: Any) -> float:
    """The sum of squares of the centred rows in the span of the components."""
    return float(np.sum(scores(data.X, np.linalg.qr(np.asarray(Vh).T)[0]) ** 2))


def length(data: Data, Vh: Any) -> float:
    """The sum of squares of the rows themselves in that span."""
    return float(np.sum((data.X @ np.linalg.qr(np.asarray(Vh).T)[0]) ** 2))


COMPONENTS: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: ls.solve(ls.SVD(data.X, K, center=True), rng=0, tol=1e-8).Vh,
    "sklearn": lambda data: PCA(K, svd_solver="arpack", random_state=0).fit(data.X).components_,
    "scipy": lambda data: svds(published.centred(data.X), k=K, random_state=0)[2],
}

SVD: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: ls.solve(ls.SVD(data.X, data.k), rng=0).Vh,
    "sklearn": lambda data: randomized_svd(data.X, data.k, n_iter=10, random_state=0)[2],
    "ARPACK": lambda data: svds(data.X, data.k, random_state=0)[2],
    "PROPACK": lambda data: svds(data.X, data.k, solver="propack", random_state=0)[2],
    "dashSVD": lambda data: published.dash_svd(data.X, data.k, more=10, powers=11)[2],
    "PCAone's windows": lambda data: published.window_svd(data.X, data.k, more=10, epochs=12)[2],
}


def regression(given: Any) -> Data:
    """Ten targets that depend on the words, with intercepts."""
    X = words(given).X
    rng = np.random.default_rng(1)
    B = 7.0 + X @ rng.standard_normal((X.shape[1], 10)) + 5.0 * rng.standard_normal((X.shape[0], 10))
    return Data(A=X, B=B, ridge=100.0)


def low_rank(given: Any) -> Data:
    """Right-hand sides that share five combinations of the columns, with noise."""
    A, _ = datasets.generated("ridge", 0, *((500, 40) if given.quick else (20_000, 400)))
    rng = np.random.default_rng(0)
    B = A @ rng.standard_normal((A.shape[1], 5)) @ rng.standard_normal((5, 30))
    return Data(A=A, B=B + 20 * rng.standard_normal(B.shape), ridge=1.0)


def objective(data: Data, answer: Any) -> float:
    """The objective of ridge regression with intercepts, its sign changed, so that more is better."""
    rest = data.B - data.A @ answer
    return -float(np.sum((rest - rest.mean(axis=0)) ** 2) + data.ridge * np.sum(answer**2))


def ridge_linspec(data: Data) -> Any:
    problem = ls.LeastSquares(data.A, data.B, ridge=data.ridge, center=True)
    return ls.solve(problem, tol=1e-8, rng=0).x


def ridge_scipy(data: Data) -> Any:
    """SciPy's lsqr, a target after the other, on the centred rows as an operator."""
    A, B = published.centred(data.A), data.B - data.B.mean(axis=0)
    options = {"damp": np.sqrt(data.ridge), "atol": 1e-8, "btol": 1e-8}
    return np.stack([scipy.sparse.linalg.lsqr(A, b, **options)[0] for b in B.T], axis=1)


def reduced_scipy(data: Data) -> Any:
    A, R = data.A - data.A.mean(axis=0), data.B - data.B.mean(axis=0)
    C = A.T @ R
    full = np.linalg.solve(A.T @ A + data.ridge * np.eye(A.shape[1]), C)
    V = np.linalg.eigh(C.T @ full)[1][:, -5:]
    return full @ V @ V.T


RIDGE: dict[str, Callable[[Data], Any]] = {
    "linspec": ridge_linspec,
    "sklearn": lambda data: Ridge(data.ridge, solver="sparse_cg", tol=1e-8).fit(data.A, data.B).coef_.T,
    "scipy": ridge_scipy,
}

REDUCED: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: ls.solve(ls.ReducedRankRegression(data.A, data.B, 5, 1.0)).coefficients(),
    "scipy": reduced_scipy,
}


def kernel_rows(given: Any) -> Data:
    """Rows, others that are held out, and the scale of the kernel."""
    n = 700 if given.quick else 4000
    X, y = datasets.generated("ridge", 0, 2 * n, 26)
    scale = float(ls.KernelOperator(X[:n], "rbf", rng=0).fit().scale)
    return Data(X=X[:n], y=y[:n, 0], new=X[n:], scale=scale, ridge=1e-4 * n)


def kernel_linspec(data: Data) -> Any:
    problem = ls.get_problem("kernel-ridge")(data.X, data.y, data.ridge, ls.kernels.rbf(data.scale))
    return ls.solve(problem, rng=0, tol=1e-10).predict(data.new)


def kernel_sklearn(data: Data) -> Any:
    model = KernelRidge(alpha=data.ridge, kernel="rbf", gamma=1 / (2 * data.scale**2))
    return model.fit(data.X, data.y).predict(data.new)


def covariances(data: Data, found: Any) -> float:
    """The sum of the covariances in the spans of the weights."""
    U, V = (np.linalg.qr(W)[0] for W in found)
    return float(np.linalg.svd(scores(data.X, U).T @ scores(data.Y, V), compute_uv=False).sum())


def pls_sklearn(data: Data) -> Any:
    model = sklearn.cross_decomposition.PLSSVD(K, scale=False).fit(data.X, data.Y)
    return model.x_weights_, model.y_weights_


def four_views(given: Any) -> Data:
    """Views with five normal variables in common."""
    n, p = (600, 20) if given.quick else (20_000, 200)
    rng = np.random.default_rng(0)
    common = rng.standard_normal((n, 5)) * np.linspace(1.5, 0.8, 5)
    views = [common @ rng.standard_normal((5, p)) / 5 + rng.standard_normal((n, p)) + 1.0 for _ in range(4)]
    return Data(views=views)


def multiset_zoo(data: Data) -> Any:
    from cca_zoo.linear import GCCA

    return GCCA(5).fit(data.views).weights_


def multiset_scipy(data: Data) -> Any:
    """Bases of the views, and the leading eigenvectors of all of them together."""
    parts = [np.linalg.svd(V - V.mean(axis=0), full_matrices=False) for V in data.views]
    whole = np.hstack([U for U, _, _ in parts])
    blocks = np.split(np.linalg.eigh(whole.T @ whole)[1][:, -5:], len(parts))
    return [Vt.T @ (block / s[:, None]) for (_, s, Vt), block in zip(parts, blocks, strict=True)]


def common_part(data: Data, found: Any) -> float:
    """The sum of the five largest eigenvalues of the sum of the projections on the scores of each view."""
    bases = np.hstack([span_of(V, W) for V, W in zip(data.views, found, strict=True)])
    return float(np.linalg.eigvalsh(bases.T @ bases)[-5:].sum())


def common_words(given: Any) -> Data:
    """The 2000 commonest words of posts, and the group of each."""
    news = datasets.labelled_news(given, "newsgroups20")
    return Data(X=datasets.tf_idf(news.X)[:, : 200 if given.quick else 2000].tocsr(), labels=news.labels)


def lda_sklearn(data: Data) -> Any:
    model = LinearDiscriminantAnalysis().fit(data.X.toarray(), data.labels)
    return model.scalings_[:, : len(model.classes_) - 1]


def between_classes(data: Data, W: Any) -> float:
    """The share of the scatter of the scores that lies between classes, summed over directions."""
    classes = np.eye(int(data.labels.max()) + 1)[data.labels]
    return float(np.sum((classes.T @ span_of(data.X, W)) ** 2 / classes.sum(axis=0)[:, None]))


def lda_published(data: Data) -> Any:
    """LSQR, a column of targets after the other."""
    targets = np.asarray(ls.as_operator(ls.targets.lda(data.labels)).dense())
    return published.two_stage(data.X, targets, 0.0)


def brain(given: Any) -> Data:
    """Noisy targets of 160 columns, folds and ridges."""
    n, p, m = (300, 32, 30) if given.quick else (1600, 160, 150)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    Y = 0.3 * X @ rng.standard_normal((p, m)) + 3 * rng.standard_normal((n, m)) + 1.0
    return Data(X=X, Y=Y, labels=np.arange(n) % 5, ridges=np.logspace(-1, 4, 20))


def targets_linspec(data: Data) -> Any:
    """The best mean R² for each target, in one pass."""
    problem = ls.get_problem("ridge-many-targets")
    return ls.solve(problem(data.X, data.Y, ridges=data.ridges, splitter=data.labels)).scores


def targets_sklearn(data: Data) -> Any:
    """The same by a fit for each fold and ridge."""
    total = np.zeros((len(data.ridges), data.Y.shape[1]))
    for fold in range(5):
        held = data.labels == fold
        for at, ridge in enumerate(data.ridges):
            predicted = Ridge(ridge).fit(data.X[~held], data.Y[~held]).predict(data.X[held])
            total[at] += r2_score(data.Y[held], predicted, multioutput="raw_values") / 5
    return np.max(total, axis=0)


def sparse_rows(given: Any) -> Data:
    """Sparse rows and a target, ridges and folds."""
    A, b = datasets.generated("ridge", 0, 600 if given.quick else 3000, 500 if given.quick else 2000, 30)
    return Data(A=A, b=b.ravel(), ridges=np.geomspace(1e-2, 1e3, 11), folds=KFold(5))


def folds_linspec(data: Data) -> Any:
    """Mean squared errors by ridge, their sign changed."""
    problem, options = ls.LeastSquares(data.A, data.b), {"ridges": data.ridges, "splitter": data.folds}
    return -ls.cross_validate(problem, score="mse", **options).scores.mean(axis=0)


def folds_sklearn(data: Data) -> Any:
    model, options = (
        Ridge(fit_intercept=False, tol=1e-8),
        {"scoring": "neg_mean_squared_error", "refit": False},
    )
    search = GridSearchCV(model, {"alpha": data.ridges}, cv=data.folds, **options)
    return search.fit(data.A, data.b).cv_results_["mean_test_score"]


def pairs(given: Any) -> Data:
    """Rows of two views with clear correlations, and how often rows are drawn."""
    X, Y = np.random.default_rng(0).standard_normal((2, 1000, 10))
    Y[:, :3] += X[:, :3] * np.array([3.0, 1.5, 0.8])
    return Data(X=X, Y=Y, draws=20 if given.quick else 300)


def draws_linspec(data: Data) -> Any:
    """Ends of the percentile intervals of three correlations."""
    options = {"draws": data.draws, "method": "percentile", "rng": np.random.default_rng(0)}
    return ls.bootstrap(ls.CCA(data.X, data.Y, 3), "gram", **options).correlations


def draws_scipy(data: Data) -> Any:
    """The same rows, a decomposition for each draw, and quantiles."""
    found, rng, n = [], np.random.default_rng(0), len(data.X)
    for _ in range(data.draws):
        counts = rng.multinomial(n, np.full(n, 1 / n))
        rows = (np.sqrt(counts)[:, None] * (A - counts @ A / n) for A in (data.X, data.Y))
        P, Q = (np.linalg.qr(A)[0] for A in rows)
        found.append(np.linalg.svd(P.T @ Q, compute_uv=False)[:3])
    return np.quantile(found, [0.025, 0.975], axis=0)


LDA: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: ls.solve(ls.Discriminant(data.X, ls.targets.lda(data.labels)), rng=0).weights,
    "sklearn": lda_sklearn,
    "LSQR, as published": lda_published,
}
PLS: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: weights(ls.solve(ls.PLS(data.X, data.Y, k=K), rng=0, tol=1e-12)),
    "sklearn": pls_sklearn,
}
MULTISET: dict[str, Callable[[Data], Any]] = {
    "linspec": lambda data: ls.solve(ls.get_problem("multiset-cca")(data.views, k=5), rng=0).weights,
    "cca_zoo": multiset_zoo,
    "scipy": multiset_scipy,
}
DIGITS = {name: CCA[name] for name in ("linspec", "cca_zoo", "scipy")}
KERNEL = {"linspec": kernel_linspec, "sklearn": kernel_sklearn}
MAPPED = {**CCA, "scipy": cca_scipy_mapped}
DRAWS = {"linspec": draws_linspec, "scipy": draws_scipy}
FOLDS = {"linspec": folds_linspec, "sklearn": folds_sklearn}
TARGETS = {"linspec": targets_linspec, "sklearn": targets_sklearn}


def stories(given: Any) -> Data:
    return Data(X=datasets.news_stories(given), k=10 if given.quick else 50)


CASES = {
    "words": Case("CCA with a ridge, sparse, 50,000 x (10,000 + 5,000)", words, correlations, CCA),
    "mapped": Case("CCA, a file of 2 GB, 1 GiB of memory", mapped, correlations, MAPPED),
    "regression": Case("ridge with intercept, sparse, 10 targets", regression, objective, RIDGE),
    "dense": Case("CCA, dense, 50,000 x (400 + 400)", dense, correlations, CCA),
    "components": Case("PCA, sparse, 50,000 x 10,000", words, variance, COMPONENTS),
    "digits": Case("CCA with a ridge, 1797 digits, 32 + 32 columns", digits, correlations, DIGITS),
    "svd": Case("SVD of stories, 50 triplets", stories, length, SVD),
    "reduced-rank": Case("reduced rank, dense", low_rank, objective, REDUCED),
    "kernel": Case("kernel ridge, predictions of rows held out", kernel_rows, None, KERNEL),
    "pls": Case("PLS-SVD, dense", dense, covariances, PLS),
    "multiset": Case("multiset CCA of four views", four_views, common_part, MULTISET),
    "discriminant": Case("LDA of posts", common_words, between_classes, LDA),
    "many-targets": Case("a ridge for each target", brain, None, TARGETS),
    "cross-validation": Case("ridge, every ridge on five folds, sparse", sparse_rows, None, FOLDS),
    "bootstrap": Case("intervals of correlations", pairs, None, DRAWS),
}


def run(report: Report, case: Case, name: str) -> None:
    """One case: a row for each method, and what linspec claims."""
    data, calls = case.make(report.given), {}
    for library, method in case.methods.items():
        if library != "cca_zoo" or importlib.util.find_spec(library):
            calls[library] = partial(method, data)
    turns = alternate(calls, 1 if report.given.quick else report.given.rounds + 1, enough=60.0, warm=True)
    able = {way: taken for way, taken in turns.items() if not taken.said}
    read = case.figures or (lambda _, answer: answer)
    figures = {way: np.ravel(read(data, taken.answer)) for way, taken in able.items()}
    best = max(figures.values(), key=np.sum)
    head = "CPU s::.3f", "worst::.3f", "linspec over it::.2f", "worst::.2f", "off::.1e"
    table, claims = report.table("method", *head, title=f"{name}: {case.words}"), []
    for way, taken in turns.items():
        label = LIBRARIES.get(way, way)
        if taken.said:
            table.row(f"{label}: {taken.said}")
            continue
        off = float(np.abs(figures[way] - best).max() / np.abs(best).max())
        median, worst = turns["linspec"].over(taken)
        table.row(label, taken.median, max(taken.cpu), median, worst, off)
        if way == "linspec":
            text = "linspec's figures are the best"
            claims.append(at_most(text, off, SAME, "off by {value:.1e}", own=True))
        elif off <= SAME:
            text = f"linspec takes less time than {label}, which has the same answer"
            told = f"{median:.2f} of its processor seconds in the median, {worst:.2f} at worst"
            claims.append(Claim(text, median < 1, told))
    report.say(claims, name)


def main() -> int:
    parser = arguments(__doc__)
    names = [name for name in CASES if name != "mapped"]
    parser.add_argument("cases", nargs="*", choices=[*names, []], metavar="CASE", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser)
    for name in report.given.cases or names:
        run(report, CASES[name], name)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
