"""Stability selection: how often a column is kept on half of the rows.

Problem: which columns a problem with sparse weights keeps depends on chance. Those that it keeps on most halves of the
rows are few false ones.
Method: rows fall into blocks at random, and one pass forms the moments of each. A draw merges half of the blocks, and
its complement the other half; rows that have their moments are solved. Of p columns, those that at least a share τ of
the draws keep contain at most

    q²/((2τ − 1) p)                                                                                 (1)

false ones on average, where a draw keeps q of them.
Source: Meinshausen & Bühlmann 2010, J. R. Stat. Soc. B 72:417, doi:10.1111/j.1467-9868.2010.00740.x, Theorem 1; Shah &
Samworth 2013, J. R. Stat. Soc. B 75:55, doi:10.1111/j.1467-9868.2011.01034.x, Theorem 1 (complements, and false columns
as those that a draw keeps with less than the average probability q/p).
Where we differ: halves of blocks, not of single rows, so that the rows are read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from linspec.arrays import HostArray, random_generator, to_host, with_device
from linspec.errors import InvalidOption, shown
from linspec.operators import as_operator
from linspec.registry.options import is_number
from linspec.rows import Cell
from linspec.solving.problem import Problem
from linspec.solving.solution import weights_by_matrix
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.stating import set_matrix, with_values
from linspec.studies.held_out.folds import cells_of, folds_of


@dataclass(frozen=True, eq=False)
class StabilitySelection:
    """Which columns each draw kept.

    Attributes
    ----------
    kept : dict of str to numpy.ndarray of bool, shape (draws, settings, p)
        For each matrix, whether a column has a weight other than zero: the mean over the draws is the share that
        keeps it. Complements stand beside each other.
    passes : float
        Passes over the rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> found = ls.stability_selection(ls.SparsePCA(np.diag([3.0, 1, 2, 1]), k=1, bound=1), pairs=2, blocks=2, rng=0)
    >>> found.kept["A"].shape
    (4, 1, 4)
    """

    kept: Mapping[str, HostArray]
    passes: float

    def stable(self, matrix: str, threshold: float = 0.9) -> tuple[HostArray, float]:
        """The columns that many draws keep with one of the settings, and how many of them are false on average at most.

        Parameters
        ----------
        matrix : str
            The name of the matrix, such as "X".
        threshold : float, default 0.9
            The share of the draws, above ½.

        Returns
        -------
        columns : numpy.ndarray of int
        false : float
            q²/((2 threshold − 1) p), where q of p columns are kept with any of the settings on average.
        """
        if not 0.5 < threshold <= 1:
            raise InvalidOption(f"threshold must be above 0.5 and at most 1; got {shown(threshold)}.")
        each = self.kept[matrix].any(axis=1)
        false = each.sum(axis=1).mean() ** 2 / ((2 * threshold - 1) * each.shape[1])  # (1)
        shares = self.kept[matrix].mean(axis=0).max(axis=0)
        return np.flatnonzero(shares >= threshold), float(false)


@with_device
def stability_selection(
    problem: Problem[Any],
    settings: Sequence[Mapping[str, Any]] = ({},),
    *,
    pairs: int = 50,
    blocks: Any = 20,
    solver: str | Solver = "auto",
    rng: Any = None,
    **options: Any,
) -> StabilitySelection:
    """Find the columns that a problem with sparse weights keeps on most halves of the rows.

    Parameters
    ----------
    problem : Problem
        Such as `linspec.SparsePLS`. Its rows are read once; it must not be known by products alone.
    settings : sequence of mapping, optional
        Values in place of those of the problem, such as ``[{"bound_x": 2.0}, {"bound_x": 3.0}]``. By default those of
        the problem.
    pairs : int, default 50
        Draws of half of the blocks, each with its complement: twice as many draws.
    blocks : int or array of n labels, default 20
        The number of random blocks of rows, at least 2, or the block of each row, which a stream needs. More of them
        are nearer to draws of single rows, and take more memory: a square matrix of all columns each.
    solver : str or Solver, default "auto"
    rng : None, int or numpy.random.Generator
    **options
        Of the solver, and of `linspec.solve`.

    Returns
    -------
    StabilitySelection

    Raises
    ------
    InvalidOption
        `pairs` is no number above 0.
    InvalidProblem
        There are fewer rows than blocks, or a setting does not fit the problem.
    MissingCapability
        A matrix is known by its products alone.

    Notes
    -----
    Draws that have not converged count as they are.

    References
    ----------
    Meinshausen & Bühlmann 2010, doi:10.1111/j.1467-9868.2010.00740.x; Shah & Samworth 2013,
    doi:10.1111/j.1467-9868.2011.01034.x.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 30))
    >>> A[:, [3, 8]] += np.random.default_rng(1).standard_normal((200, 1))
    >>> found = ls.stability_selection(ls.SparsePCA(A, k=1, bound=1.3), rng=0)
    >>> columns, false = found.stable("A")
    >>> columns, false < 1, found.passes
    (array([3, 8]), True, 1.0)
    """
    if not (is_number(pairs, int) and pairs > 0):
        raise InvalidOption(f"pairs must be a number above 0; got {shown(pairs)}.")
    generator = random_generator(rng)
    rows = next(iter(problem.matrices.values())).shape[0]
    cells, _, passes = cells_of(problem, folds_of(blocks, rows, rng=generator))
    kept = {
        name: np.zeros((2 * pairs, len(settings), A.shape[1]), bool) for name, A in problem.matrices.items()
    }
    for pair in range(pairs):
        order = generator.permutation(len(cells))
        for side, half in enumerate((order[: len(cells) // 2], order[-(len(cells) // 2) :])):
            cell = reduce(Cell.merged, [cells[i] for i in half])
            for i, setting in enumerate(settings):
                solution = solve(_standing(problem, cell, setting), solver, rng=generator, **options)
                for name, (W, axis) in weights_by_matrix(solution).items():
                    kept[name][2 * pair + side, i] = np.any(to_host(W) != 0, axis=1 - axis)
    return StabilitySelection(kept, passes)


def _standing(problem: Any, cell: Cell, setting: Mapping[str, Any]) -> Any:
    """The problem on rows of mean 0 that have the moments of a cell, about 0 where the problem does not centre."""
    values, V = np.linalg.eigh(cell.gram)
    half = V.T * np.sqrt(np.maximum(values, 0.0) / 2)[:, None]
    level = np.sqrt(cell.count) * (cell.origin + cell.mean) * (not problem.center)
    edges = np.cumsum([A.shape[1] for A in problem.matrices.values()])
    *parts, confounds = np.split(np.vstack([half, -half, level]), edges, axis=1)
    stated = dict(setting) | {"confounds": confounds if confounds.size else None}
    twin = with_values(problem, sample_weight=None, shared=None, **stated)
    for name, part in zip(problem.matrices, parts, strict=True):
        set_matrix(twin, name, as_operator(part))
    twin.check_sizes()
    return twin
