"""Records by which plugins declare their methods, without importing them.

Problem: listing, help, documentation, conformance tests and benchmarks need the names of methods. But
importing a method imports its array library, and one slow plugin would slow every listing.
Method: a plugin's table is a module, by convention ``plugin.py``, that an entry point in the group ``linspec`` names.
Its hooks return a few frozen records::

    from linspec import SolverSpec, hookimpl

    @hookimpl
    def linspec_solvers():
        return [
            SolverSpec(
                name="gram", problem="cca", target="my_package.gram:Gram", summary="...", reference="..."
            )
        ]

A record names its implementation as a string, and the class is imported when it is first used. Facts that hold before
the implementation runs (needs, traits, literature) are in the record. Options are declared once, in the class.
Source: pluggy; the hooks have the form of those of conda: plural nouns that take no arguments and return records.
LinearSolve.jl has the rule that traits live next to the declaration and never in the part that is loaded lazily.
Where we differ: traits are a closed vocabulary, checked when the record is made, so a misspelt trait is an error in
the plugin, and not silently ignored. The table must not import an array library, because every listing imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar

import pluggy

from linspec.errors import InvalidDeclaration

PROJECT = "linspec"
"""pluggy's project name and the group of the entry points."""

hookimpl = pluggy.HookimplMarker(PROJECT)

TRAITS = {
    "direct": "no iteration: one factorisation or decomposition",
    "iterative": "has an option tol and gets more accurate the more passes it may use",
    "randomized": "draws random numbers from the run's generator",
    "approximate": "need not solve the stated problem exactly",
    "one-pass": "solves data that can be read once, with one reading and its default options",
    "share": "takes a share of all squares in place of k, and finds the least k that holds it",
    "path": "solves a least-squares problem for a sequence of ridges in one run",
    "warm-start": "begins at an earlier answer that is given as start",
    "resumable": "goes on from a checkpoint to the answer of a run in one piece",
    "automatic": 'states beforehand what a solve takes (estimate), so that "auto" may choose it',
    "demonstration": "kept to show a failure; never chosen automatically",
}
"""What each trait promises. The conformance kit checks the traits that a solver's record states."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The access to the data that a solver needs, in addition to forward block products.

    Parameters
    ----------
    adjoint : bool, default True
        Products with the transpose.
    diagonal : bool, default False
        The exact diagonal of the Gram matrix, that is the squared norms of the columns. Matrices whose entries can be
        read, and rows in blocks, have it; streams of slices and operators known only by products do not.
    dense : bool, default False
        The whole matrix as an array.
    entries : bool, default False
        The entries, some rows at a time, from arrays, sparse matrices, files or streams of slices.
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

    def __str__(self) -> str:
        return ", ".join(name for name, value in vars(self).items() if value) or "forward products only"


class _Spec:
    """Base class of all declarations. It checks each field by the rule for the name of the field.

    Attributes
    ----------
    kind : str
        The name of the kind.
    base : str
        The base class of the classes that the records name, ``"package.module:Class"``; "" if they name no class.
    method : str
        The method that identifies an instance of such a class when it is an option of another class; "" if an instance
        cannot be an option.
    """

    kind: ClassVar[str]
    base: ClassVar[str] = ""
    method: ClassVar[str] = ""
    name: str

    def __init_subclass__(cls, **words: str) -> None:
        """Set `kind`, `base` and `method`, where a class gives them."""
        super().__init_subclass__()
        for name, value in words.items():
            setattr(cls, name, value)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            holds, words = _RULES.get(field.name, _NO_RULE)
            if value is not field.default and not holds(value):
                raise InvalidDeclaration(
                    f"{type(self).__name__}(name={self.name!r}): {field.name} must be {words}; got {value!r}"
                )

    @property
    def qualified(self) -> str:
        """The name with its kind, ``"normalizer/cholesky-qr"``."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class _MethodSpec(_Spec):
    """Base class of the declarations of solvers, normalizers and test matrices."""

    name: str
    target: str
    summary: str
    reference: str
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SolverSpec(_MethodSpec, kind="solver", base="linspec.solving.solver:Solver", method="iterate"):
    """Declaration of a solver.

    Parameters
    ----------
    name : str
        Lower-case words of letters and digits joined by hyphens; unique among the solvers of the problem.
    problem : str
        Name of the problem that the solver solves: ``"least-squares"``, ``"svd"``, ``"cca"``, ...
    target : str
        The place of the class, ``"package.module:Class"``. The class is imported only when the solver is used.
    summary : str
        One sentence: what the solver does and when to choose it.
    reference : str
        Author and year of the source and, if there is one, ``doi:10....``.
    needs : Needs, default ``Needs()``
        The access to the data that the solver needs.
    traits : tuple of str, default ()
        Words of ``linspec.registry.spec.TRAITS``.

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

    problem: str
    needs: Needs = Needs()

    @property
    def qualified(self) -> str:
        """The name with its problem, ``"cca/gram"``."""
        return f"{self.problem}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class NormalizerSpec(
    _MethodSpec, kind="normalizer", base="linspec.solving.parts:Normalizer", method="orthonormalize"
):
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


@dataclass(frozen=True, kw_only=True)
class TestMatrixSpec(_MethodSpec, kind="test-matrix", base="linspec.solving.parts:TestMatrix", method="draw"):
    """Declaration of a test matrix: a way to draw the random block from which a sketch is computed.

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


@dataclass(frozen=True, kw_only=True)
class OperatorSpec(_Spec, kind="operator"):
    """Declaration of an adapter that turns a foreign data type into a ``LinearOperator``.

    Parameters
    ----------
    name : str
        As for :class:`SolverSpec`.
    matches : callable
        ``matches(data) -> bool``. It is called with every object that linspec does not know. So it must be cheap,
        import no modules (look at ``type(data).__module__``) and raise no exceptions.
    adapt : callable
        ``adapt(data) -> LinearOperator``. Put its imports inside the function.
    summary : str
        One sentence: which data the adapter adapts.
    sample : str, optional
        A function ``"package.module:function"`` for the conformance kit. It takes no arguments and returns a
        small object to adapt, of at most some hundred rows. Without it the adapter fails the kit.
    suffixes : tuple of str, default ()
        The suffixes of the files that the adapter reads, such as ``(".csv", ".csv.gz")``: `matches` accepts
        :class:`linspec.operators.RowFiles` with these suffixes.
    column_names : callable, optional
        ``column_names(files) -> sequence`` of the names of all columns of files that are tables, without reading the
        rows; numbers from 1 on if columns have no names. The command line selects columns by these names.
    texts : callable, optional
        ``texts(files) -> sequence of str, or None`` for files that are tables: the texts of the single requested
        column, or None if it holds numbers. With ``files.missing == "nan"`` a missing text is None. With
        ``files.as_text`` every column is returned as it stands, numbers as well, and a missing value as "". The command
        line uses them as class labels, and to carry a column into its output.

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

    name: str
    matches: Callable[[Any], bool]
    adapt: Callable[[Any], Any]
    summary: str
    sample: str | None = None
    suffixes: tuple[str, ...] = ()
    column_names: Callable[[Any], Any] | None = None
    texts: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class ProblemSpec(_Spec, kind="problem", base="linspec.solving.problem:Problem"):
    """Declaration of a family of problems.

    Parameters
    ----------
    name : str
        Lower-case words of letters and digits joined by hyphens. The records of solvers use this name.
    target : str
        The place of the class, ``"package.module:Class"``. The class is imported only when it is used.
    summary : str
        One sentence: what the problem computes.
    testing : str, default ""
        The place of a `linspec.testing.Reference`, ``"package.module:NAME"``: cases and exact answers, by
        which the conformance kit tests the problem's solvers. Without it the solvers cannot be tested.

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

    name: str
    target: str
    summary: str
    testing: str = ""


Spec = SolverSpec | NormalizerSpec | TestMatrixSpec | OperatorSpec | ProblemSpec
"""Any declaration a plugin may return."""


KINDS: dict[str, type[Spec]] = {
    record.kind: record for record in (SolverSpec, NormalizerSpec, TestMatrixSpec, OperatorSpec, ProblemSpec)
}
"""The class of the records of every kind, by the name of the kind."""


def resolve(target: str) -> Any:
    """Import the object that a record names as ``"package.module:Class"``; usually a class, but this is not checked."""
    module, _, path = target.partition(":")
    return attrgetter(path)(import_module(module))


def _text_of(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


_NO_RULE: tuple[Callable[[Any], bool], str] = (lambda _: True), ""
_A_NAME = (
    _text_of(_NAME),
    "lower-case words of letters and digits joined by hyphens, such as 'two-stage'",
)
_A_TEXT = (lambda value: isinstance(value, str) and bool(value.strip())), "a text that is not empty"
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": _A_NAME,
    "problem": _A_NAME,
    "target": (_text_of(_TARGET), "a string 'package.module:Class'"),
    "summary": _A_TEXT,
    "reference": _A_TEXT,
    "needs": (lambda value: isinstance(value, Needs), "a Needs(...)"),
    "traits": (
        lambda value: isinstance(value, tuple) and all(trait in list(TRAITS) for trait in value),
        f"a tuple, such as ('direct',), of the traits {', '.join(TRAITS)}",
    ),
}
"""For some fields the check of a value that is not the default, and the words for a valid one."""

HOOKS = {
    "linspec_solvers": SolverSpec,
    "linspec_normalizers": NormalizerSpec,
    "linspec_test_matrices": TestMatrixSpec,
    "linspec_operators": OperatorSpec,
    "linspec_problems": ProblemSpec,
}
"""The hooks, and the class of the records that each returns."""
