"""Similarity of many representations of the same inputs, such as the layers of neural networks, from one pass.

Problem: layers X₁, …, X_m have a row for each of n inputs, and a column for each unit. How similar are they in pairs,
whatever the rotation of their units? Definitions have n x n matrices; n is far larger than memory.
Method: all measures follow from Gᵢⱼ = XᵢᵀXⱼ of centred columns, which one pass over all layers together makes.

    CKA             ‖Gᵢⱼ‖² / (‖Gᵢᵢ‖ ‖Gⱼⱼ‖)    (1)
    unbiased CKA    Hᵢⱼ / √(Hᵢᵢ Hⱼⱼ),  Hᵢⱼ = ‖Gᵢⱼ‖² − n/(n − 2) Σ‖x‖²‖y‖² + tᵢtⱼ / ((n − 1)(n − 2)),  tᵢ = tr Gᵢᵢ    (2)
    SVCCA           the mean canonical correlation of the leading components that hold a share of tᵢ and of tⱼ    (3)
    PWCCA           Σₖ αₖρₖ / Σₖ αₖ,  αₖ = Σᵤ |hₖᵀxᵤ|    (4)
    Procrustes      2 − 2 ‖Gᵢⱼ‖_* / √(tᵢtⱼ)    (5)

(2) is n(n − 3) HSIC₁ of Song et al.: the kernels XXᵀ without their diagonals. A constant that is added to K in row and
column k does not change it, so the columns may be centred; then K1 = 0, and what remains of 1ᵀK̃L̃1 and of tr K̃L̃ are
sums over rows of x of Xᵢ and y of Xⱼ (`Moments.lengths_of_rows`). In (4) hₖ is the k-th canonical variate of Xᵢ with
length 1 and xᵤ its units. Variates of equal correlations may be turned, which (4) sees: they are the principal axes of
the units in their span. ‖·‖ is the Frobenius norm, ‖·‖_* the sum of singular values.
Source: Kornblith, Norouzi, Lee & Hinton 2019, ICML, eq. 4 (CKA); Song, Smola, Gretton, Bedo & Borgwardt 2012, JMLR
13:1393, eq. 5 (HSIC₁); Nguyen, Raghu & Kornblith 2021, ICLR (unbiased CKA); Raghu, Gilmer, Yosinski & Sohl-Dickstein
2017, NeurIPS (SVCCA); Morcos, Raghu & Bengio 2018, NeurIPS, section 2.2 (PWCCA); Ding, Denain & Steinhardt 2021,
NeurIPS (5); Williams, Kunz, Kornblith & Linderman 2021, NeurIPS (its root is a metric).
Where we differ: no n x n matrix and no batch: Nguyen et al. average (2) over batches, which is the same in expectation.
PWCCA is not symmetric: row i has the weights of layer i, and all its directions above rounding, not 99 % of its
variance; where correlations are equal it does not depend on the basis that arithmetic happens to find. SVCCA counts
variances, and correlations of the smaller number of components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import AccuracyWarning, InvalidProblem, warn
from linspec.frames import library_for_table, table
from linspec.linalg import EPS, eigenpairs, whitening
from linspec.rows import Passes
from linspec.solving.checks import check_choice, check_fraction, several
from linspec.solving.shared_moments import Moments

MEASURES = ("cka", "cka-unbiased", "svcca", "pwcca", "procrustes")

Products = list[list[HostArray]]
"""Gᵢⱼ of all pairs."""

FEWEST = 4
"""The fewest rows of (2)."""

NONE = 1e-12
"""The share of tᵢ² that is rounding in Hᵢᵢ."""

LOST = 1e-6
"""The rounding of canonical correlations from which on a warning is given; those that differ by less are equal."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Similarity:
    """Similarities of layers in pairs.

    Attributes
    ----------
    names : tuple of str
        Those of the m layers.
    values : dict from str to numpy.ndarray of shape (m, m)
        By measure. 1 for equal layers, but 0 for "procrustes", a squared distance up to 2. "pwcca" is not symmetric:
        row i has the weights of layer i. Unbiased CKA is NaN where no two rows of a layer have anything in common.
    rows : float
        n.
    rounding : dict from str to numpy.ndarray of shape (m,)
        For "svcca" and "pwcca", about the relative rounding of the correlations of each layer: large where columns
        nearly depend on each other.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> ls.similarity({"first": X, "turned": X[:, ::-1]}, "procrustes").values["procrustes"].round(9) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """

    names: tuple[str, ...]
    values: dict[str, HostArray]
    rows: float
    rounding: dict[str, HostArray]

    def table(self, measure: str = "", *, library: str | None = None) -> Any:
        """Make a table with a row and a column for each layer; the measure may be left out if there is one."""
        measure = measure or next(iter(self.values))
        check_choice("measure", measure, self.values)
        columns = dict(zip(self.names, self.values[measure].T, strict=True))
        return table("layer", self.names, columns, library_for_table(library))


def similarity(layers: Any, measures: str | Sequence[str] = "cka", *, share: float = 0.99) -> Similarity:
    """Compare representations of the same inputs in pairs: CKA, SVCCA, PWCCA, Procrustes distance; in one pass.

    Parameters
    ----------
    layers : dict of str to data of shape (n, p), or sequence of data
        Two or more, with a row for each input: anything that `linspec.as_operator` takes. For a network whose batches
        have all layers, `linspec.paired` makes one stream of each layer.
    measures : str or sequence of str, default "cka"
        Some of "cka", "cka-unbiased", "svcca", "pwcca" and "procrustes".
    share : float, default 0.99
        The share of the variance of each layer that SVCCA keeps.

    Returns
    -------
    Similarity
        With a matrix of m x m for each measure.

    Raises
    ------
    InvalidProblem
        The layers do not fit, one is constant, or there are too few rows for unbiased CKA: at least 4.
    InvalidOption
        There is no such measure, or `share` is not between 0 and 1.

    Warns
    -----
    AccuracyWarning
        Units of a layer nearly depend on each other, so that canonical correlations have lost digits.

    Notes
    -----
    Memory holds the Gram matrix of all units of all layers. Values of float32 data have the precision of float32.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> def batches():
    ...     for _ in range(5):
    ...         first = rng.standard_normal((100, 4))
    ...         yield first, np.tanh(first @ np.ones((4, 3)) / 2)
    >>> names = ["first", "second"]
    >>> found = ls.similarity(dict(zip(names, ls.paired(batches, names=names))), ["cka", "svcca"])
    >>> found.values["cka"].shape, found.rows
    ((2, 2), 500.0)
    """
    measures = [measures] if isinstance(measures, str) else several("measures", measures)
    for measure in measures:
        check_choice("measures", measure, MEASURES)
    check_fraction("share", share)
    if not isinstance(layers, Mapping):
        layers = {f"X{i + 1}": X for i, X in enumerate(several("layers", layers))}
    names = tuple(several("layers", layers))
    moments = Moments(*layers.values(), center=True, form="implicit", names=names).of_run(Passes())
    unbiased = "cka-unbiased" in measures
    lengths = moments.lengths_of_rows() if unbiased else 0.0
    G = [[to_host(block) for block in row] for row in moments.gram()]
    for i, name in enumerate(names):
        if not moments.variation(i).any():
            raise InvalidProblem(f"{name} must vary; got the same row for every input. Leave this layer out.")
    n = moments.fitted[0].total
    if unbiased and n < FEWEST:
        raise InvalidProblem(f"unbiased CKA needs 4 rows; got {n:g}.")
    cut = max(EPS, *[A.rounding**2 for A in moments.operators])
    traces = [row[i].trace() for i, row in enumerate(G)]
    t = np.outer(traces, traces)
    values = {}
    rounding = {}
    for measure in measures:
        if measure == "procrustes":
            values[measure] = np.maximum(2 - 2 * _norms(G, "nuc") / np.sqrt(t), 0.0)  # (5)
        elif measure.startswith("cka"):
            H = _norms(G, "fro") ** 2
            if measure == "cka-unbiased":
                H += t / ((n - 1) * (n - 2)) - n / (n - 2) * lengths  # (2)
            roots = np.sqrt(np.where(H.diagonal() > NONE * t.diagonal(), H.diagonal(), np.nan))
            values[measure] = H / np.outer(roots, roots)  # (1)
        else:
            projected = measure == "pwcca"
            bases = [
                whitening(row[i], cut) if projected else _leading(row[i], share) for i, row in enumerate(G)
            ]
            values[measure] = _correlations(G, bases, projected=projected)
            rounding[measure] = _rounding(G, bases)
    return Similarity(names=names, values=values, rows=n, rounding=rounding)


def _norms(G: Products, kind: Any) -> HostArray:
    """Frobenius norms, or sums of singular values, of the products of all pairs."""
    norms = np.zeros((len(G), len(G)))
    for i, j in combinations_with_replacement(range(len(G)), 2):
        norms[i, j] = norms[j, i] = np.linalg.norm(G[i][j], kind)
    return norms


def _leading(G: HostArray, share: float) -> HostArray:
    """The leading components that hold a share of the trace, with length 1."""
    values, vectors = eigenpairs(G)
    beyond = np.cumsum(values) <= (1 - share) * values.sum()
    return vectors[:, ~beyond] / np.sqrt(values[~beyond])


def _correlations(G: Products, bases: list[HostArray], *, projected: bool) -> HostArray:
    """(4), or without projections (3), from matrices that make the columns of each layer orthonormal."""
    values = np.zeros((len(G), len(G)))
    for i, j in combinations_with_replacement(range(len(G)), 2):
        U, rho, Vt = np.linalg.svd(bases[i].T @ G[i][j] @ bases[j], full_matrices=False)
        ends = np.flatnonzero(np.diff(rho) < -LOST) + 1
        for first, second, turn in ((i, j, U.T), (j, i, Vt)):
            alpha = np.ones(len(rho))
            if projected:
                units = np.split(turn @ bases[first].T @ G[first][first], ends)
                axes = [np.linalg.svd(part, full_matrices=False)[1:] for part in units]
                alpha = np.concatenate([s * np.abs(Vt).sum(axis=1) for s, Vt in axes])
            values[first, second] = alpha @ np.minimum(rho, 1.0) / alpha.sum()
    return values


def _rounding(G: Products, bases: list[HostArray]) -> HostArray:
    """The rounding of correlations: that of the largest square of a column beside the least square of a direction."""
    rounding = np.array([EPS * (G[i][i].diagonal() @ basis**2).max() for i, basis in enumerate(bases)])
    if rounding.max() > LOST:
        warn(
            f"units of a layer nearly depend on each other: correlations are rounded by {rounding.max():.1g}. See "
            "rounding, leave dependent units out, or compare by svcca, whose share leaves their directions out.",
            AccuracyWarning,
        )
    return rounding
