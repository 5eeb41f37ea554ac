"""Records by which plugins declare what they provide, without importing it.

Problem: listing, help, documentation, conformance tests and benchmarks need the names of methods. But
importing a method imports its array library, and one slow plugin would slow every listing.
Method: a plugin's table is a few frozen records. A record names its implementation as a string
(``"package.module:Class"``), and the class is imported when it is first used. Facts that hold before the
implementation runs (needs, traits, literature) are in the record. Options are declared once, on the class.
Source: the declaration tables of conda and of pluggy-based tools, and LinearSolve.jl's rule that traits live
next to the declaration and never in the part that is loaded lazily.
Where we differ: traits are a closed vocabulary, checked when the record is made, so a misspelt trait is an
error in the plugin rather than a property silently absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Self, get_args

from linspec.errors import InvalidDeclaration, shown

__all__ = ["TRAITS", "Needs", "NormalizerSpec", "OperatorSpec", "SolverSpec", "Spec", "TestMatrixSpec"]

#: What each trait promises. The conformance kit checks the traits that a solver's record states.
TRAITS = {
    "direct": "no iteration: one factorisation or decomposition",
    "iterative": "has an option tol and gets more accurate the more passes it may use",
    "randomized": "draws random numbers from the run's generator",
    "approximate": "need not solve the stated problem exactly",
    "one-pass": "solves data that can be read once, with one reading and its default options",
    "path": "solves a least-squares problem for a sequence of ridges in one run",
    "warm-start": "begins at an earlier answer that is given as start",
    "resumable": "goes on from a checkpoint with the bits of a run in one piece",
    "automatic": 'states beforehand what a solve takes (estimate), so that "auto" may choose it',
    "demonstration": "kept to show a failure; never chosen automatically",
}

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class _Record:
    """A declaration whose fields are given by name; a misspelt or missing one is an error of the declaration."""

    def __new__(cls, *unnamed: Any, **given: Any) -> Self:
        declared = fields(cls)  # type: ignore[arg-type]  # each record is a dataclass
        known = [each.name for each in declared]
        unknown = [name for name in given if name not in known]
        lacking = [each.name for each in declared if each.default is MISSING and each.name not in given]
        listed = f"Its fields: {', '.join(known)}."
        if unnamed:
            raise InvalidDeclaration(
                f"{cls.__name__} takes its fields by name; got {shown(unnamed[0])}. {listed}"
            )
        if unknown:
            near = get_close_matches(unknown[0], known, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidDeclaration(f"{cls.__name__} has no field {unknown[0]!r}.{meant} {listed}")
        if given and lacking:  # a copy is made without fields
            raise InvalidDeclaration(f"{cls.__name__} must be given {', '.join(lacking)}. {listed}")
        return super().__new__(cls)


@dataclass(frozen=True, kw_only=True)
class Needs(_Record):
    """What a solver needs of its data, in addition to forward block products.

    Parameters
    ----------
    adjoint : bool, default True
        Products with the transpose.
    diagonal : bool, default False
        Known entries, so that column norms are exact.
    dense : bool, default False
        The whole matrix as an array.
    entries : bool, default False
        The entries, some rows at a time: of arrays, sparse matrices and files, and of rows that come slice by slice.
    rows : bool, default False
        Row slices by index (minibatches).

    Examples
    --------
    >>> import linspec as ls
    >>> str(ls.Needs(rows=True))
    'adjoint, rows'
    """

    adjoint: bool = True
    diagonal: bool = False
    dense: bool = False
    entries: bool = False
    rows: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool):
                raise InvalidDeclaration(f"Needs: {field.name} must be True or False; got {value!r}")

    def __str__(self) -> str:
        stated = [field.name for field in fields(self) if getattr(self, field.name)]
        return ", ".join(stated) or "forward products only"


@dataclass(frozen=True, kw_only=True)
class SolverSpec(_Record):
    """Declaration of a solver.

    Parameters
    ----------
    name : str
        Lower-case words of letters and digits joined by hyphens, unique for its problem.
    problem : str
        Name of the problem it solves: ``"least-squares"``, ``"svd"``, ``"cca"``, ...
    target : str
        The place of the class, ``"package.module:Class"``. It is imported only when the solver is used.
    summary : str
        One sentence: what the solver does and when to choose it.
    reference : str
        Author and year of the source and, if there is one, ``doi:10....``.
    needs : Needs, default ``Needs()``
        What the solver needs of the data.
    traits : tuple of str, default ()
        Words of ``linspec.spec.TRAITS``.

    Raises
    ------
    InvalidDeclaration
        A field is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> record = ls.SolverSpec(
    ...     name="power",
    ...     problem="svd",
    ...     target="my_package.power:Power",
    ...     summary="Power iteration.",
    ...     reference="von Mises & Pollaczek-Geiringer 1929, doi:10.1002/zamm.19290090105",
    ...     traits=("iterative", "randomized"),
    ... )
    >>> record.qualified
    'svd/power'
    """

    kind: ClassVar[str] = "solver"

    name: str
    problem: str
    target: str
    summary: str
    reference: str
    needs: Needs = Needs()
    traits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self, "name")
        _check_name(self, "problem")
        # A solver is quoted as "problem/name"; the other kinds are quoted with their kind in that place.
        if self.problem in {record.kind for record in get_args(Spec)}:
            raise InvalidDeclaration(
                f"{_owner(self)}: problem {self.problem!r} is the name of a kind; name a problem"
            )
        _check_target(self)
        _check_text(self, "summary")
        _check_text(self, "reference")
        if not isinstance(self.needs, Needs):
            raise InvalidDeclaration(f"{_owner(self)}: needs must be a Needs(...); got {self.needs!r}")
        _check_traits(self)

    @property
    def qualified(self) -> str:
        """The name with its problem, ``"cca/gram"``."""
        return f"{self.problem}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class _PartSpec(_Record):
    """What the declarations of normalizers and test matrices have in common."""

    kind: ClassVar[str]

    name: str
    target: str
    summary: str
    reference: str
    traits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self, "name")
        _check_target(self)
        _check_text(self, "summary")
        _check_text(self, "reference")
        _check_traits(self)

    @property
    def qualified(self) -> str:
        """The name with its kind, ``"normalizer/cholesky-qr"``."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class NormalizerSpec(_PartSpec):
    """Declaration of a normalizer: a way to orthonormalise a block.

    Parameters
    ----------
    name, target, summary, reference, traits
        As for :class:`SolverSpec`.

    Raises
    ------
    InvalidDeclaration
        A field is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.NormalizerSpec(
    ...     name="polar", target="my_package.polar:Polar", summary="Polar factor.", reference="Higham 1986"
    ... ).qualified
    'normalizer/polar'
    """

    kind: ClassVar[str] = "normalizer"


@dataclass(frozen=True, kw_only=True)
class TestMatrixSpec(_PartSpec):
    """Declaration of a test matrix: a way to draw the random block a sketch starts from.

    Parameters
    ----------
    name, target, summary, reference, traits
        As for :class:`SolverSpec`.

    Raises
    ------
    InvalidDeclaration
        A field is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.TestMatrixSpec(
    ...     name="signs", target="my_package.signs:Signs", summary="Random signs.", reference="Achlioptas 2003"
    ... ).qualified
    'test-matrix/signs'
    """

    __test__: ClassVar[bool] = False  # the name must not make pytest collect it

    kind: ClassVar[str] = "test-matrix"


@dataclass(frozen=True, kw_only=True)
class OperatorSpec(_Record):
    """Declaration of an adapter that turns a foreign data type into a ``LinearOperator``.

    Parameters
    ----------
    name : str
        As for :class:`SolverSpec`.
    matches : callable
        ``matches(data) -> bool``. It is called with every object that linspec does not know. So it must be
        cheap, import nothing (look at ``type(data).__module__``) and raise nothing.
    adapt : callable
        ``adapt(data) -> LinearOperator``. Put its imports inside the function.
    summary : str
        One sentence: which data it adapts.
    sample : str, optional
        A function ``"package.module:function"`` for the conformance kit. It takes no arguments and returns a
        small object to adapt, of at most some hundred rows. Without it the adapter fails the kit.
    labels : callable, optional
        ``labels(data) -> (engine, handles)`` of data that lie in blocks (:mod:`linspec.blocks`): the blocks as they
        are, in the order of the rows. They may be class labels, such as strings, of which no operator can be made;
        :func:`linspec.targets.lda` asks for them.

    Raises
    ------
    InvalidDeclaration
        A field is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.OperatorSpec(
    ...     name="kronecker",
    ...     matches=lambda data: type(data).__name__ == "Kronecker",
    ...     adapt=lambda data: data.as_linear_operator(),
    ...     summary="Kronecker products of two matrices.",
    ... ).qualified
    'operator/kronecker'
    """

    kind: ClassVar[str] = "operator"

    name: str
    matches: Callable[[Any], bool]
    adapt: Callable[[Any], Any]
    summary: str
    sample: str | None = None
    labels: Callable[[Any], tuple[Any, Any]] | None = None

    def __post_init__(self) -> None:
        _check_name(self, "name")
        _check_text(self, "summary")
        if self.sample is not None:
            _check_target(self, "sample", "package.module:function")
        for role in ("matches", "adapt") if self.labels is None else ("matches", "adapt", "labels"):
            if not callable(getattr(self, role)):
                raise InvalidDeclaration(
                    f"{_owner(self)}: {role} must be a function; got {getattr(self, role)!r}"
                )

    @property
    def qualified(self) -> str:
        """The name with its kind, ``"operator/dask"``."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class ProblemSpec(_Record):
    """Declaration of a family of problems.

    Parameters
    ----------
    name : str
        Lower-case words of letters and digits joined by hyphens. The records of solvers use this name.
    target : str
        The place of the class, ``"package.module:Class"``. It is imported only when it is used.
    summary : str
        One sentence: what the problem asks for.
    command : str, default ""
        The place of its `linspec.cli.kinds.Kind`, ``"package.module:NAME"``: how the command line reads the
        problem and shows its answer. Without it the problem can only be solved in Python.
    testing : str, default ""
        The place of its `linspec.testing.ProblemTesting`, ``"package.module:NAME"``: planted cases and an
        oracle, by which the conformance kit judges the problem's solvers. Without it they cannot be judged.

    Raises
    ------
    InvalidDeclaration
        A field is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.ProblemSpec(
    ...     name="pls", target="my_package.pls:PLS", summary="Partial least squares of two views."
    ... ).qualified
    'problem/pls'
    """

    kind: ClassVar[str] = "problem"

    name: str
    target: str
    summary: str
    command: str = ""
    testing: str = ""

    def __post_init__(self) -> None:
        _check_name(self, "name")
        if self.name in {record.kind for record in get_args(Spec)}:
            raise InvalidDeclaration(f"{_owner(self)}: {self.name!r} is the name of a kind; choose another")
        _check_target(self)
        _check_text(self, "summary")
        for role in ("command", "testing"):
            value = getattr(self, role)
            if value != "" and not (isinstance(value, str) and _TARGET.fullmatch(value)):
                raise InvalidDeclaration(
                    f"{_owner(self)}: {role} must be a string 'package.module:NAME', or empty; got {value!r}"
                )

    @property
    def qualified(self) -> str:
        """The name with its kind, ``"problem/cca"``."""
        return f"{self.kind}/{self.name}"


#: Any declaration a plugin may return.
Spec = SolverSpec | NormalizerSpec | TestMatrixSpec | OperatorSpec | ProblemSpec


def _owner(spec: Any) -> str:
    return f"{type(spec).__name__}(name={spec.name!r})"


def _check_name(spec: Any, role: str) -> None:
    value = getattr(spec, role)
    if not (isinstance(value, str) and _NAME.fullmatch(value)):
        raise InvalidDeclaration(
            f"{_owner(spec)}: {role} must be lower-case words of letters and digits joined by hyphens, "
            f"such as 'two-stage'; got {value!r}"
        )


def _check_target(spec: Any, role: str = "target", form: str = "package.module:Class") -> None:
    value = getattr(spec, role)
    if not (isinstance(value, str) and _TARGET.fullmatch(value)):
        raise InvalidDeclaration(f"{_owner(spec)}: {role} must be a string {form!r}; got {value!r}")


def _check_text(spec: Any, role: str) -> None:
    value = getattr(spec, role)
    if not (isinstance(value, str) and value.strip()):
        raise InvalidDeclaration(f"{_owner(spec)}: {role} must be a text that is not empty; got {value!r}")


def _check_traits(spec: Any) -> None:
    if not isinstance(spec.traits, tuple):
        raise InvalidDeclaration(
            f"{_owner(spec)}: traits must be a tuple, one trait being ('direct',); got {spec.traits!r}"
        )
    for trait in spec.traits:
        if trait not in TRAITS:
            raise InvalidDeclaration(
                f"{_owner(spec)}: no trait {trait!r}; the traits are {', '.join(TRAITS)}"
            )
