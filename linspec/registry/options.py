"""Options of a solver: declared once, read by validation, help, the command line and the tests.

Problem: an option has a name, a default, a range and an explanation, which validation, help, command-line parsing and
tests for bad values all need. If they were written in several places, the copies would differ in time.
Method: a solver (normalizer, test matrix) is a frozen, keyword-only dataclass and its fields are its options.
:func:`option` and :func:`part` wrap ``dataclasses.field`` and keep range and explanation in the field's
metadata::

    @dataclass(frozen=True, kw_only=True)
    class Gradient(Solver):
        step: float | None = option(None, "step length; None: from the data", above=0)
        tol: float = option(1e-8, "stop when the residual is at most this", above=0)
        normalizer: str | Normalizer = part("cholesky-qr", kind="normalizer")

Source: scikit-learn's parameter constraints, which validate, phrase the error and generate bad values for
tests.
Where we differ: the type of an option is that of its default (or is given). So annotations are only for readers and
type checkers, and are never evaluated: they may name classes imported under ``TYPE_CHECKING``. Values are not
converted: a value is accepted unchanged or refused. An unknown keyword is compared with the names that there are, and
with those of ``linspec.solve``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from linspec.errors import InvalidDeclaration, InvalidOption, UnknownOption, shown
from linspec.registry.spec import KINDS, resolve

FORMS = ("auto", "dense", "sparse", "implicit")
"""How `linspec.Moments` may compute products: from held Gram matrices, or by passes."""

PART_KINDS = {name: kind.method for name, kind in KINDS.items() if kind.method}
"""The kinds of parts, and the method that an instance of each must have."""

_WORDS = {float: "a number", int: "an integer", bool: "True or False", str: "a string"}
_BOOLS = {
    word: value
    for value, words in ((True, "true yes on 1"), (False, "false no off 0"))
    for word in words.split()
}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a solver, normalizer or test matrix.

    Parameters
    ----------
    name : str
        The field's name.
    default : object
        Value if none is passed.
    help : str
        Explanation, a phrase.
    kind : type
        ``float``, ``int``, ``bool`` or ``str``; ``str`` for a part, which may also be an instance.
    optional : bool, default False
        Whether None is a permitted value.
    above, below, at_least, at_most : float or None
        Bounds: the first two are exclusive, the others inclusive.
    choices : tuple or None
        The permitted values, if they are listed.
    part_kind, part_problem, part_method : str or None
        For a part: its kind (``"solver"``, ``"normalizer"``, ``"test-matrix"``); for a solver, its problem; and a
        method that the part must have in addition to the method of its kind.
    """

    name: str
    default: Any
    help: str
    kind: type
    optional: bool = False
    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[Any, ...] | None = None
    part_kind: str | None = None
    part_problem: str | None = None
    part_method: str | None = None

    @property
    def expects(self) -> str:
        """Type and range in words, such as ``"a number > 0, or None"``."""
        bounds = [(">", self.above), (">=", self.at_least), ("<", self.below), ("<=", self.at_most)]
        words = [
            "finite" if bound == math.inf else f"{sign} {bound}"
            for sign, bound in bounds
            if bound is not None
        ]
        having = f" that has the method {self.part_method}," if self.part_method else ""
        if self.part_kind is not None:
            kind = f"{self.part_problem or ''} {self.part_kind.replace('-', ' ')}".strip()
            what = f"the name of a {kind}{having} or an instance of one"
        elif self.choices is not None:
            what = f"{_WORDS[self.kind]} in {{{', '.join(map(str, self.choices))}}}"
        else:
            what = f"{_WORDS[self.kind]} {', '.join(words)}".strip()
        return f"{what}, or None" if self.optional else what

    def check(self, value: Any, owner: str = "") -> None:
        """Raise an error if a value is not permitted.

        Parameters
        ----------
        value : object
            The value.
        owner : str, default ""
            The name of the class that has the option, for the message.

        Raises
        ------
        InvalidOption
            The value has the wrong type or is out of range.
        """
        if not self.accepts(value):
            raise InvalidOption(self.refusal(value, owner))

    def accepts(self, value: Any) -> bool:
        """Whether a value is permitted."""
        if value is None:
            return self.optional
        if self.part_kind is not None:
            return _is_part(value, PART_KINDS[self.part_kind], self.part_method)
        is_text = self.kind in (bool, str)
        if not (isinstance(value, self.kind) if is_text else is_number(value, self.kind)):
            return False
        if self.choices is not None or is_text:
            return self.choices is None or value in self.choices
        return (
            -math.inf <= value <= math.inf  # false for NaN, and no overflow on a huge integer
            and (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )

    def refusal(self, value: Any, owner: str = "") -> str:
        """Return the message of the error of :meth:`check`: the expected and the given value, and the default."""
        of = f" of {owner}" if owner else ""
        return (
            f"option {self.name!r}{of} must be {self.expects}; got {shown(value)} ({type(value).__name__}). "
            f"Leave it out for the default, {self.default!r}."
        )


def is_number(value: Any, kind: type = float) -> bool:
    """Whether a value is a real number that a float holds, or with ``kind=int`` an integer of any size.

    NaN and infinity are real numbers here. NumPy's scalars are numbers, and are recognised without importing NumPy.
    Bools and timedeltas are not numbers here: a bool is probably a mistake, and a timedelta has a unit.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if kind is int else numbers.Real):
        return False
    try:
        kind(value)
    except (OverflowError, TypeError, ValueError):  # too large for a float; a timedelta
        return False
    return True


def option(
    default: Any,
    help: str,  # noqa: A002 (the word for it everywhere)
    *,
    kind: type | None = None,
    above: float | None = None,
    below: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """Declare an option as a field of a solver's dataclass.

    Parameters
    ----------
    default : object
        The value if none is passed. A default of None permits None, whose meaning `help` must state.
    help : str
        Explanation, a phrase.
    kind : type, optional
        ``float``, ``int``, ``bool`` or ``str``. By default the type of `default`. If `default` is None: ``float`` for
        an option with bounds, and the type of the choices for an option with choices.
    above, below : float, optional
        Exclusive bounds. ``below=math.inf`` permits only finite values.
    at_least, at_most : float, optional
        Inclusive bounds.
    choices : tuple, optional
        The permitted values.

    Returns
    -------
    dataclasses.Field
        Typed as Any, so that authors can annotate the field as they like.

    Raises
    ------
    InvalidDeclaration
        The declaration contradicts itself: no type, or a default out of range.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     step: float = ls.option(0.1, "step length", above=0)
    ...     def iterate(self, problem, moments, context, start): ...
    >>> Mine(step=0.5).step
    0.5
    >>> try:
    ...     Mine(step=-1)
    ... except ls.errors.InvalidOption as error:
    ...     print("refused")
    refused
    """
    bounds = {"above": above, "below": below, "at_least": at_least, "at_most": at_most}
    if kind is None and default is None:
        kind = type(choices[0]) if choices else float if set(bounds.values()) != {None} else None
    kind = kind or type(default)
    if kind not in _WORDS:
        raise InvalidDeclaration(f"an option has kind=float, int, bool or str; got {kind.__name__}")
    return _field(
        default, help=help, kind=kind, choices=None if choices is None else tuple(choices), **bounds
    )


def part(
    default: Any,
    help: str = "",  # noqa: A002
    *,
    kind: str = "solver",
    problem: str | None = None,
    method: str | None = None,
) -> Any:
    """Declare an option whose value is itself a solver, a normalizer or a test matrix.

    Parameters
    ----------
    default : str or instance or None
        A registered name, or an instance. A default of None permits None.
    help : str, default ""
        Explanation, a phrase.
    kind : {"solver", "normalizer", "test-matrix"}
        The kind of the part, among which a name is looked up.
    problem : str, optional
        For a solver: the problem it solves.
    method : str, optional
        A method that the part must have in addition to the method of its kind, such as ``"begins"``. A part without
        it is refused before the run begins.

    Returns
    -------
    dataclasses.Field
        Typed as Any, so that authors can annotate the field as they like.

    Raises
    ------
    InvalidDeclaration
        The kind is unknown; `problem` is missing for a solver or passed for another kind; or the default is no part.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     normalizer: str = ls.part("cholesky-qr", kind="normalizer")
    ...     def iterate(self, problem, moments, context, start): ...
    >>> Mine().normalizer
    'cholesky-qr'
    """
    if kind not in PART_KINDS or (kind == "solver") != (problem is not None):
        raise InvalidDeclaration(
            f"a part is one of {', '.join(PART_KINDS)}, and a solver has a problem, such as problem='least-squares'; "
            f"got {kind!r} with problem={problem!r}"
        )
    return _field(default, help=help, kind=str, part_kind=kind, part_problem=problem, part_method=method)


def tol_option(usual: float = 1e-6) -> Any:
    """Declare the option `tol`: the residual at which to stop; None for the default of the problem.

    Parameters
    ----------
    usual : float, default 1e-6
        The default that the explanation states: the `tolerance` of the problems that the solver solves.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     tol: float | None = ls.tol_option(1e-8)
    ...     def iterate(self, problem, moments, context, start): ...
    >>> Mine().tol is None
    True
    """
    words = f"residual to stop at; none: {usual:.0e}, more for float32".replace("e-0", "e-")
    return option(None, words, kind=float, above=0)


def form_option(default: str = "auto") -> Any:
    """Declare the option `form`: how moments compute products.

    Parameters
    ----------
    default : {"auto", "dense", "sparse", "implicit"}, default "auto"

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     form: str = ls.form_option()
    ...     def iterate(self, problem, moments, context, start): ...
    >>> Mine().form
    'auto'
    """
    return option(default, "hold Gram matrices or pass the data", choices=FORMS)


def limit_option(n: int, of: str = "iterations") -> Any:
    """Declare the option `max_iterations`: an integer of at least 1.

    Parameters
    ----------
    n : int
        The default.
    of : str, default "iterations"
        A noun in the plural for what is counted, for the explanation.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     max_iterations: int = ls.limit_option(200)
    ...     def iterate(self, problem, moments, context, start): ...
    >>> Mine().max_iterations
    200
    """
    return option(n, f"{of} at most", at_least=1)


def options_of(owner: Any) -> tuple[Option, ...]:
    """Return the options of a dataclass, or of an instance of one, in order of declaration."""
    return tuple(_declared(owner if isinstance(owner, type) else type(owner)).values())


def stated_options(instance: Any) -> dict[str, Any]:
    """Return the values of all options by name, as None, bools, numbers, texts and tuples.

    A part is replaced by the text of the call that makes it, such as "ConjugateGradients(tol=0.001)". The call has only
    the arguments that differ from their defaults.
    """
    return {name: _stated(getattr(instance, name)) for name in _declared(type(instance))}


def _stated(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return tuple(_stated(entry) for entry in value) if isinstance(value, tuple | list) else shown(value)


def validate(instance: Any) -> None:
    """Check the options of an instance; base classes call this in ``__post_init__``. Raises InvalidOption."""
    for declared in _declared(type(instance)).values():
        declared.check(getattr(instance, declared.name), type(instance).__name__)


def parse(option: Option, text: str) -> Any:
    """Convert a text from the command line to a value; ``none`` means None if the option permits None.

    Raises
    ------
    InvalidOption
        The text is not a value of the option.
    """
    if option.optional and text.strip().lower() == "none":
        return None
    try:
        value = _BOOLS[text.strip().lower()] if option.kind is bool else option.kind(text)
    except (KeyError, ValueError):
        raise InvalidOption(option.refusal(text)) from None
    option.check(value)
    return value


def build(cls: type[T], options: Mapping[str, Any]) -> T:
    """Make an instance from a mapping of options; the error for an unknown name suggests the right name."""
    known = _declared(cls)
    for name in options:
        if name not in known:
            raise unknown_name(cls.__name__, "option", name, known)
    return cls(**options)


def with_parts(instance: T) -> T:
    """Return a copy of a solver in which each part given by name is an instance with default options.

    `linspec.solve` has done so with the solver that it runs: this is for a solver that another one chooses by itself.

    Raises
    ------
    UnknownName, AmbiguousName, BrokenPlugin
        As for :func:`linspec.get_solver`.
    InvalidOption
        A part is not of the kind that its option declares.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.solving import with_parts
    >>> solver = ls.get_solver("als", "cca")(lstsq="lsqr")
    >>> with_parts(solver).lstsq.max_iterations
    5000
    """
    parts, owner = {}, type(instance).__name__
    for option in _declared(type(instance)).values():
        original = value = getattr(instance, option.name)
        if value is None or option.part_kind is None:
            continue
        if isinstance(value, str):
            from linspec import registry  # here: it reads the tables of plugins, which data do not need

            value = registry.get_part(option.part_kind, value, option.part_problem)()
        base = resolve(KINDS[option.part_kind].base)
        if not (isinstance(value, base) and option.accepts(value)):
            raise InvalidOption(option.refusal(original, owner))
        parts[option.name] = with_parts(value)
    return dataclasses.replace(instance, **parts) if parts else instance  # type: ignore[type-var]


def _field(default: Any, **declared: Any) -> Any:
    """Make a dataclass field with the declaration as metadata, after a check of the default."""
    trial = Option(name="default", default=default, optional=default is None, **declared)
    if not trial.accepts(default):
        raise InvalidDeclaration(f"the default must itself be {trial.expects}; got {default!r}")
    return dataclasses.field(default=default, metadata={"linspec": declared})


def _read(cls: type[Any]) -> dict[str, Option]:
    """The options of a class by name."""
    if not dataclasses.is_dataclass(cls):
        raise InvalidDeclaration(
            f"{cls.__name__} has no options to read; decorate it with @dataclass(frozen=True, kw_only=True)"
        )
    fields = [field for field in dataclasses.fields(cls) if field.init]
    for field in fields:
        if "linspec" not in field.metadata:
            raise InvalidDeclaration(
                f"field {field.name!r} of {cls.__name__} is not declared as an option; "
                f"write {field.name} = option(default, 'what it does') or part(default)"
            )
    return {
        field.name: Option(
            name=field.name,
            default=field.default,
            optional=field.default is None,
            **field.metadata["linspec"],
        )
        for field in fields
    }


_declared: Callable[[Any], dict[str, Option]] = lru_cache(maxsize=512)(_read)


def _is_part(value: Any, method: str, further: str | None) -> bool:
    """Whether a value is a name, or an instance with the method of its kind and a further one."""
    if isinstance(value, str | type):  # a class has the methods as well, but no values of its options
        return isinstance(value, str) and bool(value.strip())
    return all(callable(getattr(value, name, None)) for name in (method, further) if name)


# ---- names that users of other libraries write, and misspelt names --------------------------------

RUN_ARGUMENTS = frozenset(
    {
        "problem",
        "solver",
        "rng",
        "max_passes",
        "max_seconds",
        "callback",
        "progress",
        "start",
        "checkpoint",
        "complete",
        "missing",
    }
)
"""Arguments of ``linspec.solve`` itself. An option with such a name could never be passed through it."""

OF_SOLVE = (*sorted(RUN_ARGUMENTS - {"problem"}), "tol", "max_iterations")
"""Arguments of ``linspec.solve`` that are not parameters of a problem."""

NEAR = 0.66
"""Least similarity of two names, as difflib measures it, for a suggestion."""

COUNTERPARTS = {
    "DCCA": "linspec.DeepCCA(X, Y, k)",
    "GCCA MCCA MAXVAR MultiCCA": "linspec.MultisetCCA([X, Y, Z], k), or linspec.SumcorCCA([X, Y, Z], k)",
    "GridSearchCV cross_val_score": "linspec.cross_validate(problem)",
    "KCCA": "linspec.KernelCCA(X, Y, k)",
    "LDA LinearDiscriminantAnalysis": "linspec.Discriminant(A, linspec.targets.lda(labels)), or "
    "linspec.estimators.Discriminant",
    "LinearRegression OLS Ridge RidgeRegression": "linspec.LeastSquares(A, B, ridge=...), or linspec.estimators.Ridge",
    "OPLS": "linspec.Discriminant(A, linspec.targets.opls(Y))",
    "PLS1 PLS2": "linspec.PLSRegression(X, Y, k)",
    "PLSCanonical PLSSVD PLSC": "linspec.PLS(X, Y, k)",
    "PCA pca prcomp": "linspec.SVD(A, k, center=True), or linspec.estimators.PCA",
    "RRR": "linspec.ReducedRankRegression(X, Y, k)",
    "RidgeCV": "linspec.cross_validate(linspec.LeastSquares(A, B), ridges), or linspec.estimators.RidgeCV",
    "TruncatedSVD svds": "linspec.SVD(A, k)",
    "cancor CanCorr rCCA": "linspec.CCA(X, Y, k)",
    "dropna": "X, Y = linspec.drop_missing(X, Y)",
    "fit": "linspec.solve(problem)",
    "kernel_ridge KRR": "linspec.KernelRidge(X, Y)",
    "load": "linspec.load_solution(path)",
    "lsqr": 'linspec.solve(linspec.LeastSquares(A, B), "lsqr")',
    "lstsq": "linspec.LeastSquares(A, B)",
}
"""Names of other libraries, and the counterparts of linspec."""

NAMES = {
    "alpha alphas lam lambda_ lambdas reg regularization": "ridge ridges",
    "best_estimator best_params": "best",
    "canonical_correlations canonical_corr cancorr corr cor": "correlations",
    "coef coefs params beta betas": "x coefficients",
    "components rotation axes V": "Vh weights x_weights",
    "covariates nuisance": "confounds",
    "cv folds n_folds n_splits": "splitter",
    "cv_results": "table",
    "dual_coef": "dual",
    "embedding fit_transform scores x_scores y_scores": "transform",
    "fit_intercept intercept": "center",
    "fittedvalues fitted": "predict",
    "gamma metric": "kernel kernel_x",
    "kernel": "kernel_x",
    "n_boot n_bootstrap n_bootstraps n_draws": "draws",
    "n_components n_comp ncomp num_components n_factors rank": "k",
    "n_iter": "iterations",
    "n_perm n_perms n_permutations nperm": "permutations",
    "n_resamples": "draws permutations",
    "normalize standardize": "scale",
    "predict_proba posterior": "probabilities",
    "r2 rsquared": "score",
    "random_seed random_state seed": "rng",
    "s S sdev singular_values sigma": "S singular_values",
    "scalings xcoef ycoef x_rotations y_rotations": "weights x_weights",
    "scoring": "score",
    "weights": "sample_weight x_weights x coefficients",
    "x_loadings y_loadings": "loadings",
}
"""Keywords and attributes of other libraries, and those of linspec, of which the first counts that there is."""


def counterparts(name: str) -> list[str]:
    """What a keyword or an attribute of other libraries may be called here."""
    return [here for foreign, listed in NAMES.items() if name in foreign.split() for here in listed.split()]


class ForeignNames:
    """What says, of an attribute that it lacks, what linspec calls it: a problem, an answer."""

    if not TYPE_CHECKING:  # which knows the attributes there are

        def __getattr__(self, name: str) -> Any:
            try:
                return object.__getattribute__(self, name)  # it raises
            except AttributeError as error:
                error.args = (f"{error}{_hint(type(self), name)}",)
                raise


@lru_cache(maxsize=512)
def _hint(cls: type, name: str) -> str:
    """What a name that a class lacks may stand for there, or on the answers of a problem, to end a message."""
    answer = getattr(cls, "solution", cls)
    where = "" if answer is cls else "linspec.solve(problem)"
    plain = name.strip("_")
    fields = getattr(answer, "__dataclass_fields__", ())
    for here in (plain, *counterparts(plain)):
        if (here != name or where) and (here in fields or hasattr(answer, here)):
            return f". Use {where}.{here}."
    return ". Use linspec.solve(problem)." * (name in ("fit", "run", "solve"))


def meaning(name: str, known: Collection[str]) -> str:
    """The known name that a keyword of other libraries stands for, or whose spelling is nearest; "" if none is near."""
    named = [here for here in counterparts(name) if here in known]
    lower = {spelling.lower(): spelling for spelling in known}
    near = get_close_matches(name.lower().strip("_"), lower, 1, NEAR)
    return named[0] if named else lower[near[0]] if near else ""


def unknown_name(owner: str, kind: str, name: str, known: Collection[str]) -> UnknownOption:
    """Make the error for an unknown keyword, with what it may stand for.

    Parameters
    ----------
    owner : str
        The name of the class that was called.
    kind : str
        "parameter" or "option".
    name : str
        The unknown keyword.
    known : collection of str
        The keywords of the class.
    """
    meant = meaning(name, known)
    uses = (f" Use {here}." for foreign, here in COUNTERPARTS.items() if name in foreign.split())
    hint = f" Did you mean {meant!r}?" if meant else next(uses, "")
    if name in OF_SOLVE:
        hint = " It is an argument of linspec.solve. Pass it there."
    return UnknownOption(f"{owner} has no {kind} {name!r}.{hint} Its {kind}s: {', '.join(known) or 'none'}.")


@lru_cache(maxsize=256)
def parameters_of(function: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters of a function or method, and whether it takes other keywords as well."""
    kinds = {
        name: parameter.kind
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }
    names = tuple(name for name, kind in kinds.items() if not kind.name.startswith("VAR_"))
    return names, inspect.Parameter.VAR_KEYWORD in kinds.values()
