"""Declarations of the fields of problems and of answers, each made once where the field stands.

Problem: the constructor, scaling, new rows, tables, saved files, checks, the kit and the command line all need to know
the meaning of a field: a matrix, a ridge, vectors with an entry for each column of a matrix.
Method: each function here makes a field of a dataclass that carries its meaning. The class collects them when it is
made: `Problem.stated` and `Solution.layout` are the only places from which the rest reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from linspec.errors import InvalidDeclaration, shown

ANY = "any"
"""The shape of a field whose axes vary."""

KEY = "linspec"
"""The key of a declaration in the metadata of a field."""


def view_names(count: int) -> tuple[str, ...]:
    """Return the names of the matrices of one field that holds several: X1, X2, X3 and so on."""
    return tuple(f"X{i + 1}" for i in range(count))


def parts_of(value: Any) -> tuple[Any, ...]:
    """Return the values of a tuple, or the one value."""
    return value if isinstance(value, tuple) else (value,)


def each_part(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to an array, or to each array of a tuple of them."""
    return tuple(map(change, value)) if isinstance(value, tuple) else change(value)


# ---- the fields of a problem ------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """One matrix of a problem, or with `several` any number of them."""

    what: str = ""
    several: bool = False
    like: str = ""
    vector: bool = False
    once: bool = True
    permuted: str = "rows"
    labels: str = ""
    gaps: bool = False


@dataclass(frozen=True)
class Count:
    """The number of vectors that a problem asks for."""

    things: str = "vectors"
    optional: bool = False
    limits: Callable[[Any], Mapping[str, int]] | None = None
    share: bool = False


@dataclass(frozen=True)
class Ridge:
    """The ridge of a problem: one number, one for each of several matrices (`each`), or a sequence (`path`).

    A problem with a sequence has an answer for each number of the sequence.
    """

    of: tuple[str, ...] = ()
    each: bool = False
    path: bool = False
    positive: str = ""
    help: str = ""


@dataclass(frozen=True)
class Flag:
    """A yes or no."""

    help: str = ""
    default: bool = False
    in_commands: bool | None = None


@dataclass(frozen=True)
class Setting:
    """A number, a word, or several of them, that a problem takes beside its matrices."""

    default: Any = None
    kind: type = float
    choices: tuple[str, ...] = ()
    several: bool = False
    help: str = ""


PERMUTED = ("rows", "columns")
"""The ways in which a permutation test draws a matrix by chance."""


def matrix(
    what: str = "",
    *,
    default: Any = None,
    like: str = "",
    vector: bool = False,
    once: bool = True,
    permuted: str = "rows",
    labels: str = "",
    gaps: bool = False,
) -> Any:
    """Declare a matrix of a problem: data of any kind, which become a `linspec.LinearOperator`.

    Parameters
    ----------
    what : str, default ""
        The matrix in words, for messages: "right-hand sides".
    default : object, optional
        The default of the argument; None means that a missing matrix is refused by a message of the problem.
    like : str, default ""
        The name of another matrix of the problem. If the dtype of that matrix is wider, this matrix is multiplied in
        the wider dtype. By default only a matrix of bools or integers is multiplied in the widest dtype of the other
        matrices.
    vector : bool, default False
        Whether a vector of length n may be passed. It becomes a matrix with one column, and `Problem.vector` is True.
    once : bool, default True
        Whether the rows may be an iterator, which is read once.
    permuted : {"rows", "columns"}, default "rows"
        How `linspec.permutation_test` draws the matrix by chance. "rows": with its rows in a random order, except for
        the first matrix of the problem, so that nothing relates the matrices. "columns": with the entries of each
        column in an order of its own, so that nothing relates the columns.
    labels : str, default ""
        The name of the matrix on the command line, if its file may hold labels there: `Problem.from_command` makes the
        matrix of them.
    gaps : bool, default False
        Whether entries may be missing, NaN: text files are read so on the command line.

    Returns
    -------
    dataclasses.Field

    Raises
    ------
    InvalidDeclaration
        `permuted` is another word.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import Any
    >>> import linspec as ls
    >>> @dataclass
    ... class Views:
    ...     X: Any = ls.matrix("the first view")
    >>> Views().X is None
    True
    """
    if permuted not in PERMUTED:
        raise InvalidDeclaration(f"permuted must be one of {', '.join(PERMUTED)}; got {shown(permuted)}.")
    return _declared(Matrix(what, False, like, vector, once, permuted, labels, gaps), default)


def views(what: str = "views", *, once: bool = True) -> Any:
    """Declare any number of matrices, passed as one sequence; in messages and tables they are X1, X2, X3 and so on.

    Parameters
    ----------
    what : str, default "views"
        The matrices in words, for messages.
    once : bool, default True
        Whether rows may be iterators, which are read once.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> ls.views().default is None
    True
    """
    return _declared(Matrix(what, several=True, once=once), None)


def count(
    things: str,
    *,
    optional: bool = False,
    limits: Callable[[Any], Mapping[str, int]] | None = None,
    share: bool = False,
) -> Any:
    """Declare the number k of vectors that a problem asks for.

    Parameters
    ----------
    things : str
        The vectors in words, in the plural: "canonical pairs".
    optional : bool, default False
        Whether k may be left out, for as many as the sizes permit.
    limits : callable, optional
        Takes the problem and returns the sizes that k must not exceed, by their names in messages. By default the rows,
        and the columns of each matrix.
    share : bool, default False
        Whether k may be a share above 0 and below 1, and the problem then has as many vectors as hold it. Solvers that
        can say so by the trait "share"; others are refused.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> ls.count("canonical pairs", optional=True).metadata["linspec"].things
    'canonical pairs'
    """
    return _declared(Count(things, optional, limits, share), None)


def ridge(
    default: float = 0.0,
    *,
    of: tuple[str, ...] = (),
    each: bool = False,
    path: bool = False,
    positive: str = "",
    help: str = "",  # noqa: A002  # the name of the parameter of click and of `linspec.option`
) -> Any:
    """Declare a ridge: a number of at least 0 that is added to the diagonal of a Gram matrix.

    Parameters
    ----------
    default : float, default 0.0
    of : tuple of str, optional
        The matrices whose Gram matrices it is added to; by default all that have weights in the answer.
    each : bool, default False
        Whether a number for each matrix may be given; the problem then holds a tuple of them.
    path : bool, default False
        Whether a sequence of ridges may be given, for an answer that holds all of them; not together with `each`.
        `linspec.ridge_path` solves for several ridges of any problem without it.
    positive : str, optional
        Why 0 is refused, in a sentence for the message; by default it is not.
    help : str, optional
        A sentence for the command line.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> ls.ridge().default
    0.0
    """
    if each and path:
        raise InvalidDeclaration(
            "a ridge is one for each matrix (each=True) or a path (path=True); got both. Leave path out: "
            "linspec.ridge_path solves for several ridges of any problem."
        )
    return _declared(Ridge(of, each, path, positive, help), default)


def flag(
    default: bool,
    help: str = "",  # noqa: A002  # as above
    *,
    kw_only: bool = False,
    in_commands: bool | None = None,
) -> Any:
    """Declare a yes or no, such as `center`.

    Parameters
    ----------
    default : bool
    help : str, optional
        A sentence for the command line.
    kw_only : bool, default False
        Whether it is passed by name only.
    in_commands : bool, optional
        The default on the command line, if it differs.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> ls.flag(True, "Centre the columns.").default
    True
    """
    return _declared(Flag(help, default, in_commands), default, kw_only=kw_only)


def setting(
    default: Any = None,
    kind: type = float,
    *,
    choices: tuple[str, ...] = (),
    several: bool = False,
    help: str = "",  # noqa: A002  # as above
    kw_only: bool = False,
) -> Any:
    """Declare a number or a word that a problem takes: an option of its commands.

    Parameters
    ----------
    default : object, optional
    kind : type, default float
        The type of a number.
    choices : tuple of str, optional
        The words, if it is one of several.
    several : bool, default False
        Whether the value is a sequence.
    help : str, optional
        A sentence for the command line.
    kw_only : bool, default False
        Whether it is passed by name only.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> ls.setting(2, int, help="The degree.").default
    2
    """
    return _declared(Setting(default, kind, choices, several, help), default, kw_only=kw_only)


def _declared(declaration: Any, default: Any, *, kw_only: bool = False) -> Any:
    return dataclasses.field(default=default, kw_only=kw_only, metadata={KEY: declaration})


@dataclass(frozen=True)
class Statement:
    """The declarations of the fields of a problem.

    Attributes
    ----------
    matrices : dict from str to Matrix
        By field; one field may declare several matrices.
    count, ridge : str
        The fields that hold k and the ridge; "" if there is none.
    flags : tuple of str
        The fields that hold True or False.
    adjusts_rows : bool
        Whether rows have weights and confounds, and columns are centred and scaled.
    """

    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    adjusts_rows: bool = True

    @classmethod
    def of(cls, problem: type, before: Statement, *, adjusts_rows: bool) -> Statement:
        """Collect the declarations of a class, with those of its base class before them."""
        declarations = _own_declarations(problem)
        for name, declared in declarations.items():
            wanted = {Count: "k", Ridge: "ridge"}.get(type(declared), name)
            if name != wanted:  # cross-validation, ridge paths and the command line use these names
                raise InvalidDeclaration(
                    f"{problem.__name__}.{name} is declared by linspec.{type(declared).__name__.lower()}(); its name "
                    f"must be {wanted!r}."
                )
        return cls(MappingProxyType({**before.fields, **declarations}), adjusts_rows)

    def _named(self, kind: type) -> tuple[str, ...]:
        return tuple(name for name, declared in self.fields.items() if isinstance(declared, kind))

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """The declarations of matrices by field."""
        return {name: self.fields[name] for name in self._named(Matrix)}

    @cached_property
    def matrix_names(self) -> tuple[str, ...]:
        """The fields that hold matrices."""
        return self._named(Matrix)

    def field_of(self, name: str) -> str:
        """Return the field that holds the matrix `name`.

        If a field is called `name`, it is this field. Otherwise the matrix is one of several in a field, and this field
        is the first that holds matrices.
        """
        return name if name in self.fields else self.matrix_names[0]

    def permutes_columns(self, name: str) -> bool:
        """Return whether permutations of the matrix `name` are those of the entries of each column."""
        return bool(self.matrices[self.field_of(name)].permuted == "columns")

    @cached_property
    def count(self) -> str:
        """The field that holds k; "" if there is none."""
        return next(iter(self._named(Count)), "")

    @cached_property
    def ridge(self) -> str:
        """The field that holds the ridge; "" if there is none."""
        return next(iter(self._named(Ridge)), "")

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The fields that a user must pass: matrices, and a k that is not optional."""
        return (*self.matrix_names, *(name for name in self._named(Count) if not self.fields[name].optional))

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The fields that hold True or False."""
        return self._named(Flag)


# ---- the fields of an answer ------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """The meaning of one field of an answer."""

    rows_of: str = ""
    axis: int = 0
    leading: bool = False
    of_scaled: bool = False
    mean_of: str = ""
    value: str = ""
    at_most: float | None = None
    shape: str = ""
    on_device: bool = False


def field(  # noqa: PLR0913  # one declaration for all that a field may mean
    default: Any = MISSING,
    *,
    rows_of: str = "",
    axis: int = 0,
    leading: bool = False,
    of_scaled: bool = False,
    mean_of: str = "",
    value: str = "",
    at_most: float | None = None,
    shape: str = "",
    on_device: bool = False,
) -> Any:
    """Declare a field of an answer: the library checks, converts and shows the field as the declaration says.

    Parameters
    ----------
    default : object, optional
        The default of the field; without one the field is required.
    rows_of : str, optional
        The name of a matrix of the problem. The field has one row for each column of this matrix.
    axis : int, default 0
        The axis of the field that counts the columns of the matrix: 1 if the field has vectors in its rows.
    leading : bool, default False
        Whether the field holds the vectors that the problem asks for, one for each component. The vectors are placed
        in the array library and dtype of the data. With `rows_of` they are weights of the columns: `transform`
        multiplies rows by them. The weights that a solver finds for scaled columns are divided by the scale, so that
        they fit the columns of the data. A field with `rows_of` that is not leading is multiplied by the scale,
        because it is in units of the columns.
    of_scaled : bool, default False
        Whether leading vectors keep belonging to the scaled columns, as unit vectors do. They are then not divided by
        the scale; instead `transform` divides the columns of new rows by the scale.
    mean_of : str, optional
        The matrix whose column means the field holds. The name of the field ends in "mean". If the class declares no
        such field for a matrix with weights, the library adds one.
    value : str, optional
        The name of one number of the field, such as "correlation". Pass it if the field holds one number for each
        component, in decreasing order.
    at_most : float, optional
        Upper limit of the numbers of a field with `value`, as 1 of correlations: intervals end there.
    shape : str, optional
        The axes of the field by letters, such as "k k". Pass it if `rows_of` and `value` do not determine the axes.
        "k" counts components: studies cut an answer to its first components along these axes. Alternatives are
        separated by "|"; "any" is for a field whose axes vary.
    on_device : bool, default False
        Whether the field is placed in the array library and dtype of the data although it has none of `leading`,
        `rows_of` and `mean_of`, as left singular vectors are.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import linspec as ls
    >>> field = ls.field(rows_of="X", leading=True)
    >>> field.metadata["linspec"].rows_of
    'X'
    """
    return _declared(
        Entry(rows_of, axis, leading, of_scaled, mean_of, value, at_most, shape, on_device), default
    )


@dataclass(frozen=True)
class Layout:
    """The declarations of the fields of an answer, and the words for them.

    Attributes
    ----------
    entries : dict from str to Entry
        By field.
    vector, component : str
        The name of one vector in tables, and of a row of `Solution.summary`.
    score : str
        The name of the number that `score` returns.
    objective : str
        The name of the number that `objective` returns; by default the sum of the values of the components.
    residual : str
        The kind of number that the residual is, in a word: "relative" or "squared", for example.
    certified : bool
        Whether the residual judges the whole answer. If not, no answer of the class has converged.
    saved_types : tuple of type
        Classes of objects in fields that `save` can write, beside arrays, numbers, texts, tuples and mappings.
    """

    entries: Mapping[str, Entry] = dataclasses.field(default_factory=dict)
    vector: str = "vector"
    component: str = "component"
    score: str = "score"
    objective: str = ""
    residual: str = ""
    certified: bool = True
    saved_types: tuple[type, ...] = ()

    @cached_property
    def weights(self) -> dict[str, tuple[str, int]]:
        """By matrix, the field with its weights, and the axis that counts its columns."""
        return {
            entry.rows_of: (name, entry.axis)
            for name, entry in self.entries.items()
            if entry.leading and entry.rows_of
        }

    @cached_property
    def leading(self) -> tuple[str, ...]:
        """The fields that hold the vectors of the answer."""
        return tuple(name for name, entry in self.entries.items() if entry.leading)

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The fields in the library and dtype of the data, leading vectors first."""
        rest = (
            name
            for name, entry in self.entries.items()
            if (entry.rows_of or entry.mean_of or entry.on_device) and not entry.leading
        )
        return (*self.leading, *rest)

    @cached_property
    def means(self) -> dict[str, str]:
        """By matrix, the field with its column means."""
        return {entry.mean_of: name for name, entry in self.entries.items() if entry.mean_of}

    @cached_property
    def scaled(self) -> dict[str, str]:
        """By matrix that has weights: the field with the weights, which are divided by the scale of the columns.

        The text is "" if the weights are declared with `of_scaled`: they belong to scaled columns and are not
        divided.
        """
        return {
            matrix: "" if self.entries[name].of_scaled else name for matrix, (name, _) in self.weights.items()
        }

    @cached_property
    def value(self) -> str:
        """The field with the decreasing numbers of the components; "" if there is none."""
        return next((name for name, entry in self.entries.items() if entry.value), "")

    @cached_property
    def value_label(self) -> str:
        """The name of one number of the field `value`, such as "correlation"; "" if there is no such field."""
        return self.entries[self.value].value if self.value else ""

    @cached_property
    def at_most(self) -> float | None:
        """The upper limit of the numbers of the field `value`; None if there is none."""
        return self.entries[self.value].at_most if self.value else None

    @cached_property
    def shapes(self) -> dict[str, str]:
        """The axes of the fields by letters: axes of one letter have one length in an answer."""
        shapes = {}
        for name, entry in self.entries.items():
            letters = ["k", entry.rows_of] if entry.axis else [entry.rows_of, "k"]
            text = entry.shape or (" ".join(letters) if entry.rows_of else "k" if entry.value else "")
            if text and text != ANY:
                shapes[name] = text
        return shapes

    def prefix(self, matrix: str) -> str:
        """Return the beginning of the names of the fields with the adjustment of a matrix: "x_"."""
        return self.means[matrix].removesuffix("mean")

    @classmethod
    def of(cls, solution: type, before: Layout, *, adjusted: bool = True, **words: Any) -> Layout:
        """Collect the declarations of a class, with those of its base class before them, and complete the class.

        Fields for the adjustment of each matrix with weights are added where the class does not declare them, unless
        its problem adjusts no rows.
        """
        known = [declared.name for declared in dataclasses.fields(cls) if declared.name != "entries"]
        if unknown := words.keys() - set(known):
            raise InvalidDeclaration(
                f"{solution.__name__} must be given words among {', '.join(known)}; got {shown(min(unknown))}."
            )
        entries = {**before.entries, **_own_declarations(solution)}
        layout = dataclasses.replace(before, entries=MappingProxyType(entries), **words)
        weights = layout.weights
        for matrix in weights if adjusted else ():
            prefix = "" if len(weights) == 1 else f"{matrix.lower()}_"
            name = layout.means.get(matrix, f"{prefix}mean")
            prefix = name.removesuffix("mean")
            fields = {
                name: Entry(rows_of=matrix, mean_of=matrix, shape=matrix),
                f"{prefix}scale": Entry(shape=matrix),
                f"{prefix}slopes": Entry(shape=f"confounds {matrix}"),
                "confound_mean": Entry(shape="confounds"),
            }
            for added, entry in fields.items():
                if added not in entries:
                    entries[added] = entry
                    add_field(solution, added, entry)
        return dataclasses.replace(layout, entries=MappingProxyType(entries))


def _own_declarations(cls: type) -> dict[str, Any]:
    """Return the declarations that stand in the body of a class, by field."""
    return {
        name: value.metadata[KEY]
        for name, value in vars(cls).items()
        if isinstance(value, dataclasses.Field) and KEY in value.metadata
    }


def add_field(
    cls: type, name: str, declaration: Any, *, default: Any = None, kind: str = "Any", **words: Any
) -> None:
    """Add a field to a class that is no dataclass yet, unless it has one of this name."""
    annotations = cls.__annotations__  # those of the class itself
    if annotations and name not in {*annotations, *getattr(cls, "__dataclass_fields__", ())}:
        annotations[name] = kind
        metadata = {} if declaration is None else {KEY: declaration}
        setattr(cls, name, dataclasses.field(default=default, metadata=metadata, **words))
