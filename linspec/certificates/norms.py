"""The norms in which residuals of pencils are measured, for any number of views, and what squares hide from them.

Problem: the norm of Sᵢ⁻¹ of every view i, with Sᵢ = XᵢᵀXᵢ + rᵢI, without a pass of its own.
Method: held Gram matrices or a held triangle give it. Else a sketch rides on the next pass, or random signs beside the
blocks of that pass make a preconditioner. Directions that a Gram matrix has cut are multiplied once by the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from linspec.arrays import Array, is_array, to_host
from linspec.blocks.sparse_loops import SparseMinusThin
from linspec.certificates.linear import sketch_pays
from linspec.certificates.metric import SKETCH_ROWS, Metric, NearDiagonal, Preconditioned
from linspec.linalg import lengths_of, metric_rounding, raised_diagonal
from linspec.process.plurals import count_of
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses
from linspec.status import Status

SIGNS = 50
"""Random signs beyond k beside the first blocks, where nothing better makes a norm."""

WIDEST = 4096
"""Columns of a sparse Gram matrix up to which it is factored."""

SHORT, CUT = 8.0, 32
"""Roundings of the entries from which on a direction is no null direction; and how many are multiplied."""

MOMENT = 2e9
"""Operations of a tenth of a second or two."""

P = TypeVar("P")


def with_norms(
    moments: Moments,
    ridges: Sequence[float],
    W: Sequence[Array],
    count: int,
    product: Callable[[Sequence[Array]], tuple[Sequence[Array], P]],
) -> tuple[P, list[Metric]]:
    """Multiply a block of each view, and make the norms of residuals, in one pass; they are kept with the moments.

    Parameters
    ----------
    moments : Moments
    ridges : sequence of float
    W : sequence of array of shape (pᵢ, m)
    count : int
        Columns of random signs beyond `SIGNS`, as many as vectors are asked for.
    product : callable
        Takes a block for each view; returns SᵢVᵢ of each, and all products.

    Returns
    -------
    object
        All products: their first m columns are those of W.
    list of Metric

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.certificates import with_norms
    >>> from linspec.rows import Moments, Passes
    >>> moments = Moments.of_products({"X": ls.as_operator(np.diag([2.0, 4.0]))}, Passes())
    >>> product = lambda V: (moments.products(*V)[0], "products")
    >>> with_norms(moments, (0.0,), [np.eye(2)], 1, product)[1][0].source
    'preconditioned'
    """
    if moments.metrics is None or any(metric.source != "exact" for metric in moments.metrics):
        moments.metrics = norms_of_held(moments, ridges) or moments.metrics
    if moments.metrics is not None:
        return product(W)[1], moments.metrics
    widths = [int(V.shape[1]) for V in W]
    if moments.sketches and not moments.sketched and sketch_pays(moments, max(widths)):
        moments.sketch_rows = SKETCH_ROWS * max(moments.widths)
    sketched = moments.sketch_rows > 0
    places = [A.device.blocks for A in moments.operators]
    Z = []
    for i, (p, device) in enumerate(zip(moments.widths, places, strict=True)):
        signs = np.random.default_rng(i).integers(0, 2, (p, count + SIGNS)) * 2.0 - 1.0
        Z.append(device.asarray(signs[:, : 0 if sketched else None]))
    SV, products = product([device.concat([V, z]) for device, V, z in zip(places, W, Z, strict=True)])
    moments.metrics = metrics = []
    for i, (ridge, device, m) in enumerate(zip(ridges, places, widths, strict=True)):
        if sketched:
            metrics.append(Metric.of_sketch(moments, i, ridge).on(device))
        else:
            metrics.append(Preconditioned.of_signs(Z[i], SV[i][:, m:], ridge, moments.squares(i), device))
    return products, metrics


def norms_of_held(moments: Moments, ridges: Sequence[float], *, every: bool = False) -> list[Metric] | None:
    """The norms of held Gram matrices or of a held triangle; None if nothing is held, or too much to be factored.

    Parameters
    ----------
    moments : Moments
    ridges : sequence of float
    every : bool, default False
        Whether Gram matrices are factored however large, and as dense ones.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.certificates import norms_of_held
    >>> from linspec.rows import Moments, Passes
    >>> moments = Moments.of_products({"X": ls.as_operator(np.diag([2.0, 4.0]))}, Passes())
    >>> norms_of_held(moments, (0.0,)) is None
    True
    >>> moments.triangle() is not None, float(norms_of_held(moments, (0.0,))[0].lengths(np.array([[0.0], [4.0]]))[0])
    (True, 1.0)
    """
    if not moments.holds:
        return None
    metrics: list[Metric] = []
    for i, (A, ridge) in enumerate(zip(moments.operators, ridges, strict=True)):
        G: Any = None if moments.root is not None else moments.held[i][i]  # type: ignore[index]
        thin = None if G is None or is_array(G) or every else SparseMinusThin.of(G)
        if thin is not None and thin.is_near_diagonal:
            metric: Metric = NearDiagonal.of_thin(thin.G.diagonal(), thin.P, ridge, A.rounding)
        elif thin is not None and len(thin.P) > WIDEST:
            return None
        else:
            metric = Metric.of_held(moments, i, ridge)
        metrics.append(metric.on(A.device.blocks))
    return metrics


def weakest(metrics: Sequence[Metric]) -> str:
    """The source of the norm that is known least: "preconditioned", "sketched" or "exact".

    Parameters
    ----------
    metrics : sequence of Metric
    """
    return min((metric.source for metric in metrics), key=["preconditioned", "sketched", "exact"].index)


def gram_pays(moments: Moments) -> bool:
    """Whether Gram matrices, by which a certificate is exact, take no longer than the passes so far, or a moment.

    Parameters
    ----------
    moments : Moments
    """
    A = moments.operators[0]
    width = sum(moments.widths)
    flops = 2.0 * A.shape[0] * width**2 + 14.0 * width**3
    readable = moments.rereads and all(B.readable for B in moments.operators)
    return not moments.holds and readable and flops <= max(moments.passes.flops, MOMENT)


def noise_of(
    moments: Moments, ridges: Sequence[float], W: Sequence[Array], SW: Sequence[Array]
) -> tuple[tuple[Array, float], ...]:
    """The diagonal of every Sᵢ as a column, as far as it is known, and the rounding of products with Sᵢ.

    Parameters
    ----------
    moments : Moments
    ridges : sequence of float
    W, SW : sequence of array
        Blocks and their products, from which diagonals are estimated where products alone are known.
    """
    noise = []
    for i, (A, ridge) in enumerate(zip(moments.operators, ridges, strict=True)):
        squares, device = moments.squares(i), A.device.blocks
        d = raised_diagonal(W[i], SW[i], ridge, device) if squares is None else device.asarray(squares)
        noise.append((d[:, None] + ridge, metric_rounding(A.shape[1], A.dtype)))
    return tuple(noise)


def short_directions(
    moments: Moments, metrics: Sequence[Metric], missing: str, remedy: str
) -> list[tuple[Status, str]]:
    """Directions that a Gram matrix has cut as null, although rows times them are more than rounding.

    Parameters
    ----------
    moments : Moments
    metrics : sequence of Metric
        Of the first matrices.
    missing : str
        What may be missing, in the plural.
    remedy : str
        What tells such directions, as a sentence.
    """
    notes: list[tuple[Status, str]] = []
    if moments.held is None:
        return notes
    for i, (name, metric) in enumerate(zip(moments.names, metrics, strict=False)):
        if not metric.null.shape[1]:
            continue
        hidden = True
        with suppress(OutOfPasses):
            hidden = not moments.rereads or cuts_short_ones(moments, i, metric)
        if hidden:
            count = count_of(metric.null.shape[1], "direction")
            text = f"{name} has {count} so short that its Gram matrix cannot tell "
            text += f"them from null directions: they were left out, and {missing} may be missing. {remedy}"
            notes.append((Status.ILL_CONDITIONED, text))
    return notes


def cuts_short_ones(moments: Moments, i: int, metric: Metric) -> bool:
    """Whether rows times directions that a Gram matrix has cut as null are more than rounding, by one product.

    What lies along the images of the shortest directions that are kept does not count.

    Parameters
    ----------
    moments : Moments
    i : int
        The matrix.
    metric : Metric
        Of its Gram matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.certificates import Metric, cuts_short_ones
    >>> from linspec.rows import Moments, Passes
    >>> A = np.diag([1.0, 1e-9])[:, [0, 1, 1]] @ np.array([[1.0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    >>> metric = Metric.of_gram(A.T @ A, 0.0, 2e-16)
    >>> metric.rank, cuts_short_ones(Moments.of_products({"A": ls.as_operator(A)}, Passes()), 0, metric)
    (1, True)
    """
    cut = metric.null
    if cut.shape[1] > CUT:
        cut = cut @ np.random.default_rng(0).standard_normal((cut.shape[1], CUT))
    N = to_host(metric.N)
    far = lengths_of(metric.D[:, None] * N)  # 1 / s: rounding turns null directions by eps / s² to such a one
    order = np.argsort(-far)
    rounding = moments.operators[i].rounding * far[order[CUT:]].max(initial=1.0)
    device = moments.operators[i].device.blocks
    with moments.view(i) as alone:
        both = alone.operator().matmat(device.asarray(np.hstack([cut, N[:, order[:CUT]]])))
    images = both[:, : cut.shape[1]]
    basis = both[:, cut.shape[1] :]
    lengths = to_host(device.column_norms(images - basis @ (basis.T @ images)))  # its columns are orthonormal
    sizes = SHORT * math.sqrt(len(cut)) * lengths_of(metric.D[:, None] * cut)
    return bool((lengths > rounding * sizes).any())


def rounding_of(moments: Moments, metrics: Sequence[Metric]) -> float:
    """The error of a value by rounding: of entries times the condition number, of held squares times its square.

    What means and confounds explain was in the squares before it was taken out.
    """
    errors = [0.0]
    for i, (A, metric) in enumerate(zip(moments.operators, metrics, strict=True)):
        lost = moments.error_of_means(i)
        entries = max(float(np.finfo(A.dtype).eps), lost) / metric.least
        unit = 0.0 if moments.held is None else max(moments.unit(i), lost)
        errors.append(max(entries, unit / metric.least**2))
    return min(max(errors), 1.0)
