"""Second moments of rows that come in batches, from which problems are solved.

Problem: rows come over months or from several places, and cannot be kept or brought together. Answers should be those
for all rows.
Method: linear problems depend on the rows only by their means and second moments. These are held as a few rows that
have the same means and second moments (`linspec.rows.few_rows`), of all matrices and confounds side by side. A
problem on these rows, with weights, is the problem on all rows: every solver, ridge, scale and certificate works.
Each batch is checked as a problem of the same class, so that batches may be of every kind of data.
Where we differ: estimators with `partial_fit` keep a state of one method. This one serves all problems and all numbers
of them: k, ridge, centre and scale are chosen when the problem is made, not before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

import linspec
from linspec import registry
from linspec.arrays import HOST, Array, Device, on_device, to_host, with_device
from linspec.errors import InvalidFile, InvalidOption, InvalidProblem, shown
from linspec.frames import check_names
from linspec.operators import DenseOperator
from linspec.process.files import named_file, replaced
from linspec.process.locks import locked
from linspec.registry.options import is_number
from linspec.rows import Moments, Preprocessing
from linspec.rows.few_rows import Discarded, FewRows, merged
from linspec.solving import archive
from linspec.solving.problem import Problem
from linspec.solving.select import check_fits

VERSION = 1
"""Version of the fields of a file; the format of the file has a version of its own."""

CONFOUNDS = "confounds"
"""The name of the confounds, whose columns are held behind those of the matrices."""

KNOWN = ("widths", "names", "library", "vector", "counts")
"""What is known of the columns, in the order of a file."""


@dataclass(frozen=True)
class _Held:
    """A few rows that stand for all rows so far, and what is known of their columns.

    Attributes
    ----------
    parts : tuple of FewRows
        Of all matrices and then the confounds side by side: rows that were reduced together, and those of small
        batches that came later. These wait, since one reduction costs as much for a few rows as for many.
    widths : mapping of str to int
        The number of columns, by matrix.
    names : mapping of str to tuple of str
        The names of the columns of matrices that have some.
    library : str
        The library of the frames that the rows came from.
    vector : bool
        Whether the right-hand sides were a vector.
    counts : bool
        Whether all weights were integers, which count rows.
    """

    parts: tuple[FewRows, ...]
    widths: Mapping[str, int]
    names: Mapping[str, tuple[str, ...]]
    library: str
    vector: bool
    counts: bool

    @property
    def device(self) -> Device:
        """The library and device of the rows."""
        return Device.of(self.parts[0].R)

    @property
    def edges(self) -> dict[str, tuple[int, int]]:
        """The first column of each matrix among all columns, and the column after its last."""
        ends = np.cumsum([0, *self.widths.values()]).tolist()
        return dict(zip(self.widths, pairwise(ends), strict=True))

    @with_device
    def plus(self, other: _Held, rank: int | None) -> _Held:
        """Return the rows that stand for these and those of `other`; those of a small batch wait."""
        self._check_columns(other)
        order = other._order_of(self)
        both = replace(
            self,
            parts=(*self.parts, *(part.placed(self.device, order) for part in other.parts)),
            names={**other.names, **self.names},
            library=self.library or other.library,
            counts=self.counts and other.counts,
        )
        waiting = sum(part.R.shape[0] for part in both.parts[1:])
        return both if waiting < (rank or sum(self.widths.values())) else both.joined(rank)

    @with_device
    def joined(self, rank: int | None) -> _Held:
        """Return the same rows; no row waits."""
        return self if len(self.parts) == 1 else replace(self, parts=(merged(self.parts, rank),))

    def _check_columns(self, other: _Held) -> None:
        """Refuse rows with other columns than these."""
        for name in dict.fromkeys([*self.widths, *other.widths]):
            width = self.widths.get(name, 0)
            more = other.widths.get(name, 0)
            if width != more:
                raise InvalidProblem(
                    f"{name} must have the columns of the rows before; those have {width}, got {more}. Pass the same "
                    "columns in each batch."
                )
            ours = self.names.get(name)
            new_names = other.names.get(name)
            if ours and new_names and set(ours) != set(new_names):
                check_names(new_names, ours, name, "the rows before")

    def _order_of(self, other: _Held) -> list[int]:
        """Return the numbers of these columns in the order of `other`: by name, where both have names."""
        order: list[int] = []
        for name, (a, b) in other.edges.items():
            wanted = other.names.get(name)
            names = self.names.get(name)
            order += [a + names.index(column) for column in wanted] if wanted and names else range(a, b)
        return order


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
    rank : int or None

    Raises
    ------
    InvalidProblem
        The problem does not follow from second moments, or cannot have a rank.
    UnknownName
        There is no problem of this name.
    UnknownOption
        The problem has no parameter of such a name.
    InvalidOption
        The rank is not an integer above 0.

    Notes
    -----
    Several threads may add rows, merge moments and make problems at the same time.

    All is held in float64, also for rows in float32. The cost of n rows of p columns (those of all matrices and
    confounds) is about 2np² operations, and at most 2p² numbers of memory; with a rank r, about 8npr operations
    and 3pr numbers.

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
        problem_class: Any = registry.get_problem(problem) if isinstance(problem, str) else problem
        if not (
            isinstance(problem_class, type)
            and issubclass(problem_class, Problem)
            and problem_class.stated.adjusts_rows
        ):
            raise InvalidProblem(
                "HeldMoments takes a class of problems that follow from second moments of rows, such as linspec.SVD, "
                f"or its name; got {shown(problem)}. Pass the class here, and the data to add."
            )
        if rank is not None and not (is_number(rank, int) and rank > 0):
            raise InvalidOption(f"rank must be an integer above 0; got {shown(rank)}.")
        if rank is not None and not problem_class.bounds_discarded:
            raise InvalidProblem(
                f"{problem_class.__name__} has no bound for what a rank discards; got rank={rank}. Leave rank out."
            )
        problem_class.__new__(problem_class, **numbers)  # which refuses unknown parameters
        self._class, self.rank, self._numbers = problem_class, rank, dict(numbers)
        self._held: _Held | None = None

    def __repr__(self) -> str:
        widths = {} if self._held is None else self._held.widths
        columns = ", ".join(f"{name}: {width} columns" for name, width in widths.items()) or "no rows"
        return f"HeldMoments({self._class.__name__}, {columns}, total={self.total:g}, rank={self.rank})"

    @property
    def total(self) -> float:
        """The number of all rows, or the sum of their weights."""
        return 0.0 if self._held is None else sum(part.total for part in self._held.parts)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return 0 if self._held is None else sum(part.rows for part in self._held.parts)

    @property
    def discarded(self) -> Discarded:
        """Bounds of the norm and of the trace of what the held Gram matrix lacks; zeros without a rank."""
        held = self._joined()
        return Discarded() if held is None else held.parts[0].discarded

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
            raise InvalidProblem(
                "confounds need all second moments; got a rank. Leave out rank or confounds."
            )
        batch = self._batch(matrices, sample_weight, confounds)
        rows = [A.in_blocks(name) for name, A in batch.matrices.items()]
        if batch.confounds is not None:
            rows.append(DenseOperator(batch.confounds).in_blocks(CONFOUNDS))
        widths = {A.name: A.shape[1] for A in rows}
        w = batch.sample_weight
        p = sum(widths.values())
        needed = (
            0.0 if self.rank is not None else 64.0 * p * min(self.rows + min(A.shape[0] for A in rows), p)
        )
        check_fits(
            needed, f"moments of {p:,} columns", "Pass a rank, where the problem takes one, or fewer columns."
        )
        part = Moments(rows, Preprocessing.of(center=True, weights=w), names=list(widths)).few_rows(self.rank)
        counts = w is None or bool(np.all(w == np.round(w)))
        names = dict(batch.column_names)
        self._include(_Held((part,), widths, names, batch.frame_library, batch.vector, counts))

    def merge(self, other: Any) -> None:
        """Add all rows of other moments, such as those of another place; `other` stays as it is.

        Raises
        ------
        InvalidProblem
            They are moments for another problem, of other columns, or with another rank. Nothing is added then.
        """
        if not isinstance(other, HeldMoments) or (other._class, other.rank) != (self._class, self.rank):
            raise InvalidProblem(
                f"moments can be merged for one problem and one rank; got {self!r} and {shown(other)}."
            )
        held = other._joined()
        if held is not None:
            self._include(held)

    def _include(self, more: _Held) -> None:
        with locked(self):  # threads that add at once would each go on from the same rows
            if self._held is None:
                self._held = more
            else:
                self._held = self._held.plus(more, self.rank)

    def _joined(self) -> _Held | None:
        """Return the rows that stand for all rows so far; no row waits from now on."""
        with locked(self):
            if self._held is not None:
                self._held = self._held.joined(self.rank)
            return self._held

    def _batch(self, matrices: tuple[Any, ...], sample_weight: Any, confounds: Any) -> Any:
        """Return a problem on some rows, with k = 1, because a batch may have few rows."""
        stated = self._class.stated
        if len(matrices) != len(stated.matrix_names):
            raise InvalidProblem(
                f"add takes the matrices {', '.join(stated.matrix_names)} of {self._class.__name__}; got "
                f"{len(matrices)}. Pass them in this order."
            )
        fields = dict(zip(stated.matrix_names, matrices, strict=True)) | self._numbers
        if stated.count:
            fields[stated.count] = 1
        batch = self._class(**fields, sample_weight=sample_weight, confounds=confounds)
        if batch.shared is not None:
            raise InvalidProblem(
                "rows are added; got moments, which have none. Pass the data, or call merge."
            )
        self._check(batch)
        return batch

    def _check(self, problem: Problem[Any]) -> None:
        """Refuse a problem that cannot be solved from these moments."""
        problem.check_held()
        if self.rank is not None and problem.scale:
            raise InvalidProblem(
                "scale needs the lengths of all columns; got a rank. Leave out rank or scale."
            )

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
        held = self._joined()
        if held is None:
            raise InvalidProblem("a problem needs rows; got none so far. Call add.")
        (part,) = held.parts
        with on_device(held):
            (rows, w), less = part.standing(counts=held.counts), -part.origin
        matrices: dict[str, Any] = {}
        for name, (a, b) in held.edges.items():
            A = matrices[name] = DenseOperator(rows[:, a:b], less[a:b])
            A.column_names, A.frame_library = held.names.get(name), held.library
            A.lacks = part.discarded
        Z = matrices.pop(CONFOUNDS, None)
        first, declared = next(iter(self._class.stated.matrices.items()))
        if declared.several:
            matrices = {first: list(matrices.values())}
        confounds = None if Z is None else to_host(Z.dense())
        problem = self._class(
            **matrices, **{**self._numbers, **numbers}, sample_weight=w, confounds=confounds
        )
        object.__setattr__(problem, "vector", held.vector)
        object.__setattr__(problem, "column_names", dict(held.names))
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
        held = self._joined()
        if held is None:
            raise InvalidProblem("moments are saved with rows; got none so far. Call add.")
        file = named_file(path)
        part = vars(held.parts[0]) | {"taken": 1}
        part["discarded"] = tuple(part["discarded"])
        contents = {"problem": self._class.name, "numbers": self._numbers, "rank": self.rank}
        contents |= {name: getattr(held, name) for name in KNOWN} | {"total": part.pop("total"), "part": part}
        header = {"linspec": linspec.__version__, "moments": VERSION}
        with replaced(file) as stream:
            archive.write(stream, header, contents)

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
            fields = file.fields()
        moments = cls(fields["problem"], rank=fields["rank"], **fields["numbers"])
        moments._held = _restored(fields, HOST if like is None else Device.of(like).blocks)
        return moments


def _restored(fields: Mapping[str, Any], device: Device) -> _Held:
    """Return the rows of a file."""
    part = fields["part"]
    R, origin = (device.asarray(np.asarray(part[name], dtype=np.float64)) for name in ("R", "origin"))
    few = FewRows(R, origin, part["rows"], fields["total"], Discarded(*part["discarded"]))
    return _Held((few,), **{name: fields[name] for name in KNOWN})
