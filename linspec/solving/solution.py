"""The result of a solver: the answer, how the run ended, its cost, and its accuracy."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, ClassVar, Self

import numpy as np

import linspec
from linspec import iteration, registry
from linspec.arrays import HOST, Array, Device, HostArray, from_host, is_array, with_device
from linspec.errors import InvalidOption, printable, shown
from linspec.process.files import named_file, replaced
from linspec.process.plurals import count_of
from linspec.registry.options import ForeignNames
from linspec.solving import archive
from linspec.solving.checks import check_count
from linspec.solving.fields import Layout, each_part, parts_of, view_names
from linspec.solving.tables import (
    LeadingColumns,
    Summary,
    leading_columns,
    ridge_in_words,
    size_of_ridge,
    table_of_columns,
    vectors_by_name,
)
from linspec.status import Status

SOURCES = {
    "recomputed": "recomputed from the data",
    "from-gram": "from held Gram matrices",
    "in-pass": "from the same reading of the data",
    "exact": "in the norm of the problem",
    "quadrature": "in the norm of the problem, to one digit",
    "preconditioned": "in the norm of the problem, within a factor of two",
    "diagonal": "in the norm of the diagonal",
    "bound": "from above",
    "unavailable": "not known",
}
"""The source of a residual, or the norm that it is measured in, by `Solution.residual_kind`."""


HISTORY_TYPE = np.dtype([(name, np.float64) for name in iteration.Progress._fields[:-1]])
"""The columns of `Solution.history`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Solution(ForeignNames):
    """The fields that the answers of all problems share.

    Attributes
    ----------
    status : Status
        How the run ended; its value is advice.
    converged : bool
        Whether `residual`, which is that of the returned arrays, is at or below the tolerance.
    message : str
        The status in words, with this run's own figures.
    residual : float
        The residual of the returned arrays by the formula of the problem; 0 is exact.
    residual_kind : str
        "recomputed" (by a pass, which is counted), "from-gram" or "in-pass" (what was held), "unavailable" (data that
        can be read once; `residual` is NaN), or a name of the problem's own.
    iterations : int
        Iterations of the solver's outer loop; 0 for direct solvers.
    passes : float
        The largest number of passes over any one matrix of the problem, the certificate's included.
    columns, flops : float
        Products with one column over all matrices, and their floating-point operations.
    seconds : float
        Wall time of the run.
    history : numpy structured array
        One record for each iteration: iteration, passes, columns, flops, seconds, residual.
    solver : str
        The qualified name of the solver that ran.
    column_names : dict of str to tuple of str
        The names of the columns, by the name of the matrix ("X", "A", "confounds"). Only matrices whose data have
        names of columns, such as frames, are keys.
    frame_library : str
        The library of the first frame among the data, "" where there was none. Tables are made in it by default.
    row_names : numpy.ndarray of shape (n,) or None
        The labels of the training rows, if the answer has entries of its own for these, such as left singular vectors.
    row_label : str
        The name of the index or column that the labels come from; "" if it has none.
    problem : str
        The name of the problem in the registry; "" if it is not known.
    ridge : float, tuple of float, or None
        The ridge of the problem: a number, one for each matrix, or all of a path; None if it has none.
    tol : float or None
        The tolerance that was in force: the one asked for, or the least one that rounding of the data allows.
    accuracy : str
        What the certificate claims of the numbers, in words; "" if nothing.
    options : dict of str
        The options of the solver, including defaults. A part, such as a normalizer, is given by its name and the
        options that were passed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> solution = ls.solve(ls.SVD(A, k=2))
    >>> solution.converged, solution.status.name, solution.passes
    (True, 'CONVERGED', 1.0)
    >>> bool(solution.residual <= solution.tol)
    True
    """

    layout: ClassVar[Layout] = Layout()

    status: Status
    converged: bool
    message: str
    residual: float
    residual_kind: str
    iterations: int
    passes: float
    columns: float
    flops: float
    seconds: float
    history: HostArray
    solver: str
    column_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    frame_library: str = ""
    row_names: HostArray | None = None
    row_label: str = ""
    problem: str = ""
    ridge: Any = None
    tol: float | None = None
    accuracy: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __init_subclass__(cls, **words: Any) -> None:
        """Collect the declared fields of a class of answers, and its words."""
        super().__init_subclass__()
        cls.layout = Layout.of(cls, cls.layout, **words)

    @property
    def device(self) -> Device:
        """Library and device of the arrays of the answer."""
        values = (getattr(self, name) for name in self.layout.arrays)
        parts = (part for value in values for part in parts_of(value) if is_array(part))
        return next(map(Device.of, parts), HOST)

    @with_device
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the solution into a file, from which `linspec.load_solution` reads it: arrays and a text, no pickle.

        Parameters
        ----------
        path : path
            An existing file is replaced, whole or not at all. The format is that of `numpy.savez`, whatever the suffix:
            ``numpy.load(path)`` gives the arrays by the names of the fields.

        Raises
        ------
        CannotSave
            A field holds something other than numbers, texts and arrays, such as a kernel that is a function. Nothing
            is written.
        OSError
            The file cannot be written, or the path leads to something that cannot be replaced by a file: a folder, a
            device, a pipe, a file without write permission.
        InvalidOption
            The path is not valid for a file.
        """
        with replaced(named_file(path)) as stream:
            write_solution(stream, self, {})

    def saved_parts(self) -> dict[str, Any]:
        """Return the parts that `save` writes, by name: by default all fields."""
        parts = {entry.name: vars(self)[entry.name] for entry in dataclasses.fields(self)}
        return {**parts, "status": parts["status"].name}

    @classmethod
    def from_saved_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Make a solution from its saved parts.

        Parameters
        ----------
        parts : mapping
            The parts that `saved_parts` returned, with NumPy arrays.
        """
        texts = {name: printable(value) for name, value in parts.items() if isinstance(value, str)}
        return cls(**{**parts, **texts, "status": Status[parts["status"]]})

    # ---- answers as tables --------------------------------------------------------------------

    def weights_table(self, matrix: str = "", *, library: str | None = None) -> Any:
        """Make a table of the weights of the columns of a matrix, with the names of the columns.

        Parameters
        ----------
        matrix : str, optional
            The name of the matrix, "X" or "Y" for a CCA. It may be left out if only one matrix has weights.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            The library of the table, "" for a list with a dict for each row. The default is the library of the first
            frame among the data. If there was none, it is pandas where the process has imported pandas, else "".

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each column of the matrix, and a column for each vector of the answer. The names are the index of
            a pandas frame, and the first column, "column", of other tables. Columns without names are numbered from 0.

        Raises
        ------
        InvalidOption
            There is no such matrix or library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> solution = ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1))
        >>> solution.weights_table(library="")
        [{'column': 0, 'component1': 1.0}, {'column': 1, 'component1': 0.0}]
        """
        matrix = self._known_matrix(matrix)
        return table_of_columns(self, matrix, self._named_vectors(matrix), library)

    def leading_columns(self, count: int = 10, matrix: str = "") -> LeadingColumns:
        """Find the columns with the largest weights of each vector, positive and negative ones apart.

        For components of texts these are the most telling words.

        Parameters
        ----------
        count : int, default 10
            The largest number of columns of each sign.
        matrix : str, optional
            As for `weights_table`.

        Returns
        -------
        LeadingColumns
            A tuple with an entry for each vector: its name `vector`, and the columns with `positive` and `negative`
            weights as pairs (name, weight), the largest weights first. Printed, it is a line for each sign.

        Raises
        ------
        InvalidOption
            There is no such matrix, or `count` is not a positive integer.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A = ls.labelled(np.array([[3.0, 1.0, 0.0], [-3.0, 0.0, 1.0]]), columns=["price", "sun", "rain"])
        >>> ls.solve(ls.SVD(A, k=1)).leading_columns()
        component1 + price 0.973, sun 0.162
                   - rain -0.162
        """
        check_count("count", count, 1)
        matrix = self._known_matrix(matrix)
        return leading_columns(self, matrix, self._named_vectors(matrix), count)

    def _known_matrix(self, matrix: str) -> str:
        """Check the name of a matrix with weights; without a name, return that of the only one."""
        known = list(weights_by_matrix(self))
        if not matrix and len(known) == 1:
            return known[0]
        if matrix not in known:
            if not known:
                raise InvalidOption(
                    f"{type(self).__name__} has no weights of columns, and so no table of them."
                )
            raise InvalidOption(f"matrix must be one of {', '.join(map(repr, known))}; got {shown(matrix)}.")
        return matrix

    def _named_vectors(self, matrix: str) -> dict[str, HostArray]:
        """Return the weight vectors of a matrix by their names in tables."""
        weights, axis = weights_by_matrix(self)[matrix]
        return vectors_by_name(self, weights, axis)

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:  # overridden by answers that have such entries
        """Whether an answer with these fields has entries for training rows, so that it keeps their labels."""
        return False

    def __repr__(self) -> str:
        kind = ", ".join(filter(None, (self.layout.residual, self.residual_kind)))
        accuracy = f", {self.accuracy.partition(';')[0]}" if self.accuracy else ""
        return (
            f"<{type(self).__name__} by {self.solver}: {self._headline()}{accuracy}, residual {self.residual:.2g} "
            f"({kind}), {count_of(self.passes, 'pass')}, {count_of(self.iterations, 'iteration')}, "
            f"{self.status.name}>"
        )

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float | None:
        """Compute the value that the problem maximises from the fields of an answer; None if it maximises none.

        Parameters
        ----------
        fields : mapping from str to array
            The fields of an answer of this class, or of an iterate that is certified.

        Returns
        -------
        float or None
            By default the sum of the values of the components, such as correlations: of the field that `layout.value`
            names. None if there is no such field.
        """
        return float(np.sum(fields[cls.layout.value])) if cls.layout.value else None

    def _headline(self) -> str:
        name = self.layout.value
        if not name:
            return ""
        values = getattr(self, name)
        return f"{count_of(len(values), self.layout.value_label)}{self._with_ridge}, sum {float(values.sum()):.6g}"

    @property
    def _with_ridge(self) -> str:
        """The words " with the ridge" for values that a positive ridge changes, else ""."""
        return " with the ridge" if size_of_ridge(self.ridge) > 0 else ""

    @property
    def about_residual(self) -> str:
        """The kind of the residual, and its source, in words: "relative, from held Gram matrices".

        A problem may name kinds of its own (`residual_kind`), which stand as they are.
        """
        source = SOURCES.get(self.residual_kind, self.residual_kind)
        return ", ".join(filter(None, (self.layout.residual, source)))

    def summary(self) -> Summary:
        """Summarise the answer as a table: how the run ended, then one row for each component.

        Returns
        -------
        list of dict
            For each component its number from 1 on, its value, and, where known, its part of
            the residual, the bound of its error and its share of the variance. It prints as a table.
        """
        columns = {name: np.asarray(values) for name, values in self._per_component().items()}
        count = max((len(values) for values in columns.values()), default=0)
        rows = [
            {self.layout.component: i + 1, **{name: values[i].item() for name, values in columns.items()}}
            for i in range(count)
        ]
        facts = [*self._certificate(), *self.facts()]
        return Summary(rows, f"{type(self).__name__} by {self.solver}", facts)

    def facts(self) -> list[tuple[str, str]]:
        """Return what else the answer says, as names and texts; `summary` and the command line show them.

        Classes of answers with facts beside the columns of `summary` override it.
        """
        label = self.layout.objective or f"sum of {self.layout.value_label}s"
        total = self.objective({entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)})
        return [] if total is None else [(label, f"{total:.7g}")]

    def _per_component(self) -> dict[str, Any]:
        """Return the columns of `summary`, arrays of one length."""
        layout = self.layout
        return {layout.value_label: getattr(self, layout.value)} if layout.value else {}

    def _certificate(self) -> list[tuple[str, str]]:
        """Return status, residual, cost, ridge and message of the run as pairs of texts."""
        limit = "" if self.tol is None else f", tolerance {self.tol:.2g}"
        cost = f"{count_of(self.passes, 'pass')}, {count_of(self.iterations, 'iteration')}"
        ridge = [("ridge", self._about_ridge())] if size_of_ridge(self.ridge) > 0 else []
        return [
            ("status", self.status.name),
            ("residual", f"{self.residual:.2g} ({self.about_residual}){limit}"),
            *([("accuracy", self.accuracy)] if self.accuracy else []),
            ("cost", f"{cost}, {self.seconds:.3g} s"),
            *ridge,
            ("message", self.message),
        ]

    def _about_ridge(self) -> str:
        """Return the ridge in words, and that the values are those with it."""
        label = self.layout.value_label
        return ridge_in_words(self.ridge) + (f": each {label} is with the ridge" if label else "")


def weights_by_matrix(solution: Any) -> dict[str, tuple[Array, int]]:
    """Return the weights of each matrix of an answer, and the axis that counts the columns of the matrix."""
    weights: dict[str, tuple[Array, int]] = {}
    for matrix, (name, axis) in solution.layout.weights.items():
        value = getattr(solution, name)
        views = (matrix,) if not isinstance(value, tuple) else view_names(len(value))
        weights |= {view: (part, axis) for view, part in zip(views, parts_of(value), strict=True)}
    return weights


def labels_of_rows(problem: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of the training rows, for an answer with one entry for each row."""
    names = problem.row_names
    rows = min([A.shape[0] for A in problem.matrices.values()])
    if names is None or len(names) != rows or not problem.solution.has_rows(fields):
        return {}
    return {"row_names": names.values(), "row_label": names.name}


def write_solution(stream: IO[bytes], solution: Solution, about: Mapping[str, HostArray]) -> None:
    """Write a solution into an open file, with further arrays beside it for other readers."""
    header = {"linspec": linspec.__version__, "class": archive.identity(type(solution))}
    archive.write(stream, header, solution.saved_parts(), solution.layout.saved_types, about)


@with_device
def load_solution(path: str | os.PathLike[str], *, like: Array = None) -> Any:
    """Read a solution that `Solution.save` or ``linspec solve --out FILE.npz`` has written.

    Neither the training data nor the solver is needed. No code of the file is run. Of what it names, only the package
    of its problem is imported, if that is installed as a plugin.

    Parameters
    ----------
    path : path
    like : array, optional
        Weights and related arrays are placed in the library and on the device of this array.
        By default they are NumPy arrays.

    Returns
    -------
    Solution
        An instance of the saved class. It transforms, scores and predicts like the saved one.

    Raises
    ------
    InvalidFile
        The file is damaged, of a newer format, too large for the memory, or not a saved solution.
    MissingPackage
        The plugin of the problem is not installed, or a class is not imported; the message names it.
    InvalidProblem
        There is no such file.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((50, 4))
    >>> solution = ls.solve(ls.SVD(A, k=2))
    >>> solution.save("axes.npz")
    >>> bool((ls.load_solution("axes.npz").transform(A) == solution.transform(A)).all())
    True
    """
    with archive.opened(path) as file:
        problem = file.header["fields"].get("problem")
        if problem in registry.problems():
            registry.get_problem(problem)  # which imports the class
        cls = archive.class_named(file.header["class"], [Solution])
        solution = cls.from_saved_parts(file.fields(cls.layout.saved_types))
    if like is None:
        return solution
    if not is_array(like):
        raise InvalidOption(f"like must be an array, where the solution shall be; got {shown(like)}.")

    def placed(part: Any) -> Any:
        return from_host(part, like=like) if is_array(part) else part

    names = [entry.name for entry in dataclasses.fields(cls) if _belongs_to_library(cls, entry)]
    return dataclasses.replace(
        solution, **{name: each_part(getattr(solution, name), placed) for name in names}
    )


def _belongs_to_library(cls: type[Solution], entry: dataclasses.Field[Any]) -> bool:
    """Whether a field is in the library of the data: it is a weight field, or is declared as an `Array`."""
    return entry.name in cls.layout.arrays or entry.type in ("Array", "Array | None", Array, Array | None)
