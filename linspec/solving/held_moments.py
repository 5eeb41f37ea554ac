"""Second moments of rows that come in batches, from which problems are solved.

Problem: rows come over months or from several places, and cannot be kept or brought together. Answers should be those
for all rows.
Method: linear problems depend on the rows only by their means and second moments. These are held as a few rows that
have the same means and second moments (`linspec.sweeps.held_rows`), of all matrices and confounds side by side. A
problem on these rows, with weights, is the problem on all rows: every solver, ridge, scale and certificate works.
Each batch is checked as a problem of the same class, so that batches may be of every kind of data.
Where we differ: estimators with `partial_fit` keep a state of one method. This one serves all problems and all numbers
of them: k, ridge, centre and scale are chosen when the problem is made, not before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

import linspec
from linspec import registry
from linspec.arrays import HOST, Array, Home, to_host
from linspec.errors import InvalidFile, InvalidOption, InvalidProblem, shown
from linspec.frames import check_names
from linspec.moments.row_reduction import triangle_of
from linspec.operators import DenseOperator
from linspec.operators.row_model import RowModel
from linspec.process.whole_files import named_file, replaced
from linspec.registry.options import is_number
from linspec.solving import archive
from linspec.solving.checkpoints import check_state
from linspec.solving.problem import Problem
from linspec.sweeps.held_rows import HeldRows, about_mean, standing
from linspec.sweeps.triangles import Discarded, TrianglePart
from linspec.sweeps.views import views_of

__all__ = ["HeldMoments"]

VERSION = 1
"""Version of the fields of a file; the format of the file has a version of its own."""

CONFOUNDS = "confounds"
"""The name of the confounds, whose columns are held behind those of the matrices."""

FIELDS: Mapping[str, Any] = {
    "problem": str,
    "numbers": Mapping,
    "rank?": int,
    "R": "m one+columns",
    "origin": "columns",
    "rows": int,
    "total": float,
    "discarded": tuple,
    "widths": Mapping,
    "names": Mapping,
    "library": str,
    "vector": bool,
}
"""Fields of a file, declared as for `check_state`."""


class HeldMoments:
    """Means and second moments of all rows so far: rows are added, and problems for all of them are solved.

    Parameters
    ----------
    problem : str or type
        The problem or its name, such as ``linspec.CCA`` or "cca". Its answer must follow from second moments: problems
        with kernels or networks are refused.
    rank : int, optional
        Hold only the leading combinations of the rows, between `rank` and twice as many, for a matrix with too many
        columns for a square matrix of them. What is discarded is bounded, and the residual of an answer contains the
        bound: it does not converge beyond it. Only for `linspec.SVD`, without confounds and scale.
        By default nothing is discarded, and there are at most as many rows as columns.
    **numbers
        Arguments of the problem other than data, such as `k`, `ridge` or `center`: the defaults of `problem`.

    Attributes
    ----------
    total : float
        The number of all rows, or the sum of their weights.
    rank : int or None
    discarded : tuple of float
        Bounds of the norm and of the trace of what the held Gram matrix lacks; zeros without `rank`.

    Raises
    ------
    InvalidProblem
        The problem does not follow from second moments, or cannot have a rank.
    UnknownName
        There is no problem of this name.
    InvalidOption
        The rank is not an integer above 0.

    Notes
    -----
    All is held in float64, also for rows in float32. The cost of n rows of p columns (those of all matrices and
    confounds) is about 2np² operations, and p² numbers of memory; with a rank r, about 8npr operations and 2pr numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((1000, 10)) * np.geomspace(10, 1, 10)
    >>> held = ls.HeldMoments(ls.SVD, center=True)
    >>> for batch in np.array_split(A, 50):
    ...     held.add(batch)
    >>> solution = ls.solve(held.problem(k=3))
    >>> bool(np.allclose(solution.S, ls.solve(ls.SVD(A, k=3, center=True)).S, rtol=1e-12)), held.total
    (True, 1000.0)
    """

    def __init__(self, problem: str | type[Problem[Any]], *, rank: int | None = None, **numbers: Any) -> None:
        made: Any = registry.get_problem(problem) if isinstance(problem, str) else problem
        if not (isinstance(made, type) and issubclass(made, Problem)):
            raise InvalidProblem(
                f"HeldMoments takes a class of problems, such as linspec.SVD, or its name; got {shown(problem)}. "
                "Pass the class here, and the data to add."
            )
        if not made.stated.adjusts_rows:
            raise InvalidProblem(
                f"{made.__name__} does not follow from second moments of rows, so rows cannot be added. Solve it on "
                "all rows."
            )
        if rank is not None and not (is_number(rank, int) and rank > 0):
            raise InvalidOption(f"rank must be an integer above 0; got {shown(rank)}.")
        if rank is not None and not made.bounds_discarded:
            raise InvalidProblem(
                f"{made.__name__} has no bound for what a rank discards; got rank={rank}. Leave rank out."
            )
        self._class, self.rank, self._numbers = made, rank, dict(numbers)
        self._part: TrianglePart | None = None
        self._home: Home = HOST
        self._widths: dict[str, int] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._library, self._vector = "", False
        self.total: float = 0.0

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {width} columns" for name, width in self._widths.items()) or "no rows"
        return f"HeldMoments({self._class.__name__}, {columns}, total={self.total:g})"

    @property
    def discarded(self) -> Discarded:
        """Bounds of the norm and of the trace of what the held Gram matrix lacks."""
        return Discarded() if self._part is None else self._part.discarded

    # ---- rows ---------------------------------------------------------------------------------

    def add(self, *matrices: Any, sample_weight: Any = None, confounds: Any = None) -> None:
        """Add rows.

        Parameters
        ----------
        *matrices : data of shape (n, p)
            The matrices of the problem, in its order, of any kind of data; of a problem of several views, one list of
            them. They must have the columns of the rows before, with names in any order.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        confounds : array of shape (n, c) or (n,), optional
            The confounds of these rows; all batches must have the same ones, or none.

        Raises
        ------
        InvalidProblem
            The data do not fit the problem, or not the rows before. Nothing is added then.
        NonFiniteData
            An entry is not finite; nothing is added.
        """
        if self.rank is not None and confounds is not None:
            raise InvalidProblem("confounds need all second moments; got a rank. Leave out rank or confounds.")
        batch = self._batch(matrices, sample_weight, confounds)
        sides = dict(batch.matrices)
        if batch.confounds is not None:
            sides[CONFOUNDS] = DenseOperator(batch.confounds)
        views = views_of(list(sides.items()), center=False)
        home = batch.home.blocks
        task = HeldRows(home, center=True, model=RowModel(True, batch.sample_weight), rank=self.rank)
        part = about_mean(triangle_of(task, views), home)
        for view, (a, b) in zip(views, _edges(view.operator.shape[1] for view in views), strict=True):
            if view.adjustment.shift is not None:
                part.origin[a:b] -= home.place(view.adjustment.shift)
        more = HeldMoments(self._class, rank=self.rank)
        more._part, more._home = part, home
        more._widths = {view.name: view.operator.shape[1] for view in views}
        more._names, more._library = dict(batch.column_names), batch.frame_library
        more._vector = batch.vector
        more.total = task.model.total(part.rows)
        self.merge(more)

    def merge(self, other: HeldMoments) -> None:
        """Add all rows of other moments, such as those of another place; `other` stays as it is.

        Raises
        ------
        InvalidProblem
            They are moments for another problem, of other columns, or with another rank. Nothing is added then.
        """
        if not isinstance(other, HeldMoments) or other._class is not self._class or other.rank != self.rank:
            raise InvalidProblem(
                f"moments can be merged for one problem and one rank; got {self!r} with rank {self.rank}, and "
                f"{shown(other)}{f' with rank {other.rank}' if isinstance(other, HeldMoments) else ''}."
            )
        if other._part is None:
            return
        if self._part is None:
            self._widths, self._names, self._library = dict(other._widths), dict(other._names), other._library
            self._vector = other._vector
            self._part, self._home, self.total = other._part, other._home, other.total
            return
        self._check_columns(other)
        order, home = self._order_of(other), self._home
        index = home.xp.asarray(np.append(0, 1 + order), device=home.device)
        theirs = TrianglePart(
            home.xp.take(home.place(other._part.R), index, axis=1),
            home.xp.take(home.place(other._part.origin), index[1:] - 1, axis=0),
            *(1, other._part.rows, other._part.discarded),
        )
        task = HeldRows(home, center=True, rank=self.rank)
        self._part = about_mean(task.merge(self._part, theirs), home)
        self._names = {**other._names, **self._names}
        self._library = self._library or other._library
        self.total += other.total

    def _batch(self, matrices: tuple[Any, ...], sample_weight: Any, confounds: Any) -> Any:
        """Return a problem on some rows, with k = 1, because a batch may have few rows."""
        stated = self._class.stated
        if len(matrices) != len(stated.matrix_names):
            raise InvalidProblem(
                f"add takes the matrices {', '.join(stated.matrix_names)} of {self._class.__name__}; got "
                f"{len(matrices)}. Pass them in this order."
            )
        numbers = {**self._numbers, **({stated.count: 1} if stated.count else {})}
        given = dict(zip(stated.matrix_names, matrices, strict=True))
        batch = self._class(**given, **numbers, sample_weight=sample_weight, confounds=confounds)
        if batch.shared is not None:
            raise InvalidProblem("rows are added; got moments, which have none. Pass the data, or call merge.")
        self._check(batch)
        batch.in_range(batch.looked_at())
        return batch

    def _check(self, problem: Any) -> None:
        """Refuse a problem that cannot be solved from these moments."""
        problem.check_held()
        if self.rank is not None and problem.scale:
            raise InvalidProblem("scale needs the lengths of all columns; got a rank. Leave out rank or scale.")

    def _check_columns(self, other: HeldMoments) -> None:
        for name in dict.fromkeys([*self._widths, *other._widths]):
            ours, theirs = self._widths.get(name, 0), other._widths.get(name, 0)
            if ours != theirs:
                raise InvalidProblem(
                    f"{name} must have the columns of the rows before; those have {ours}, got {theirs}. "
                    "Pass the same columns in each batch."
                )
            ours, theirs = self._names.get(name), other._names.get(name)
            if ours and theirs and set(ours) != set(theirs):
                check_names(theirs, ours, name, "the rows before")

    def _order_of(self, other: HeldMoments) -> Any:
        """Return the columns of `other` in the order of these moments: by name, where both have names."""
        found = []
        for name, (a, b) in zip(self._widths, _edges(self._widths.values()), strict=True):
            ours, theirs = self._names.get(name), other._names.get(name)
            found += [a + theirs.index(one) for one in ours] if ours and theirs else range(a, b)
        return np.asarray(found)

    # ---- problems -----------------------------------------------------------------------------

    def problem(self, **numbers: Any) -> Any:
        """Return the problem on all rows so far.

        Parameters
        ----------
        **numbers
            Arguments of the problem other than data; they replace those of the constructor.

        Returns
        -------
        Problem
            Its matrices are few rows with the means and second moments of all rows: `linspec.solve` gives the answer
            for all rows. Single rows are not known: `linspec.bootstrap` and folds of `linspec.cross_validate` are
            refused.

        Raises
        ------
        InvalidProblem
            There are no rows yet, or a number does not fit the problem.
        """
        if self._part is None:
            raise InvalidProblem("a problem needs rows; got none so far. Call add.")
        rows, w = standing(self._part, self.total, self._home)
        found: dict[str, Any] = {}
        for name, (a, b) in zip(self._widths, _edges(self._widths.values()), strict=True):
            A = DenseOperator(rows[:, a:b], -self._part.origin[a:b])
            A.column_names, A.frame_library = self._names.get(name), self._library
            A.lacks = self._part.discarded
            found[name] = A
        Z = found.pop(CONFOUNDS, None)
        first, declared = next(iter(self._class.stated.matrices.items()))
        if declared.several:
            found = {first: list(found.values())}
        confounds = None if Z is None else to_host(Z.dense())
        problem = self._class(**found, **{**self._numbers, **numbers}, sample_weight=w, confounds=confounds)
        object.__setattr__(problem, "vector", self._vector)
        if CONFOUNDS in self._names:
            named = {**problem.column_names, CONFOUNDS: self._names[CONFOUNDS]}
            object.__setattr__(problem, "column_names", named)
        self._check(problem)
        return problem

    # ---- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the moments into a file, from which `load` reads them: arrays and a text, no pickle.

        Parameters
        ----------
        path : path
            An existing file is replaced, whole or not at all.

        Raises
        ------
        InvalidProblem
            There are no rows yet.
        CannotSave
            An argument of the problem is something other than numbers, texts and arrays.
        OSError
            The file cannot be written.
        """
        if self._part is None:
            raise InvalidProblem("moments are saved with rows; got none so far. Call add.")
        file, part = named_file(path), self._part
        fields = {
            **{"problem": self._class.name, "numbers": self._numbers, "rank": self.rank},
            **{"R": to_host(part.R), "origin": to_host(part.origin), "rows": part.rows, "total": self.total},
            **{"discarded": tuple(part.discarded), "widths": self._widths, "names": self._names},
            **{"library": self._library, "vector": self._vector},
        }
        nodes, arrays = archive.pack(fields, ())
        header = {"linspec": linspec.__version__, "moments": VERSION, "fields": nodes}
        header["digest"] = archive.digest(nodes, arrays)
        with replaced(file) as stream:
            archive.write(stream, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, like: Array = None) -> Self:
        """Read moments that `save` has written.

        Parameters
        ----------
        path : path
        like : array, optional
            The moments are placed in the library and on the device of this array; by default on the host.

        Returns
        -------
        HeldMoments

        Raises
        ------
        InvalidFile
            The file is damaged, of a newer version, or has no moments.
        UnknownName
            The plugin of the problem is not installed.
        """
        with archive.opened(path) as file:
            if file.header.get("moments") != VERSION:
                raise InvalidFile(
                    f"it has moments of version {shown(file.header.get('moments'))}, and this linspec reads version "
                    f"{VERSION}"
                )
            fields = file.unpack(file.header["fields"], ())
            if file.header.get("digest") != archive.digest(file.header["fields"], file.arrays):
                raise InvalidFile("it has been changed since it was written")
            check_state("the file", fields, FIELDS)
            if fields["R"].shape[1] != 1 + len(fields["origin"]) or sum(fields["widths"].values()) != len(fields["origin"]):
                raise InvalidFile("its columns are not those of its matrices")
        held = cls(fields["problem"], rank=fields["rank"], **fields["numbers"])
        held._home = HOST if like is None else Home.of(like).blocks
        place = held._home.place
        held._part = TrianglePart(
            *(place(fields["R"]), place(fields["origin"]), 1, fields["rows"], Discarded(*fields["discarded"]))
        )
        held._widths, held._names = fields["widths"], fields["names"]
        held._library, held._vector, held.total = fields["library"], fields["vector"], fields["total"]
        return held


def _edges(widths: Any) -> list[tuple[int, int]]:
    """Return the first column of each matrix among all columns, and the column after its last."""
    return list(pairwise(np.cumsum([0, *widths]).tolist()))
