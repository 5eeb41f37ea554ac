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
converted: a value is accepted unchanged or refused.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from linspec.errors import InvalidDeclaration, InvalidOption, UnknownOption, shown, suggestion
from linspec.registry.kinds import KINDS

__all__ = [
    "FORMS",
    "PART_KINDS",
    "RUN_ARGUMENTS",
    "Option",
    "build",
    "form_option",
    "invalid_values",
    "limit_option",
    "option",
    "options_of",
    "parse",
    "part",
    "sweeps_option",
    "tol_option",
    "validate",
]

#: Arguments of ``linspec.solve`` itself. An option with such a name could never be passed through it.
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
    }
)

#: How `linspec.Moments` may compute products: from held Gram matrices, or by sweeps.
FORMS = ("auto", "dense", "sparse", "implicit")

#: The precision in which an iteration multiplies float64 rows; "auto" depends on their device.
SWEEPS = ("auto", "float32", "float64")

#: The kinds of parts, and the method that an instance of each must have.
PART_KINDS = {name: kind.method for name, kind in KINDS.items() if kind.method}

_KEY = "linspec"
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
    def constraint(self) -> str:
        """The range as text, such as ``"> 0, <= 1"`` or ``"in {a, b}"``; empty if any value is permitted."""
        if self.choices is not None:
            return "in {" + ", ".join(map(str, self.choices)) + "}"
        below = "finite" if self.below == math.inf else f"< {self.below}"
        stated = [
            (self.above, f"> {self.above}"),
            (self.at_least, f">= {self.at_least}"),
            (self.below, below),
            (self.at_most, f"<= {self.at_most}"),
        ]
        return ", ".join(words for bound, words in stated if bound is not None)

    @property
    def expects(self) -> str:
        """Type and range in words, such as ``"a number > 0, or None"``."""
        if self.part_kind is not None:
            having = f" that has the method {self.part_method}," if self.part_method else ""
            what = f"the name of a {self._part_words}{having} or an instance of one"
        else:
            what = f"{_WORDS[self.kind]} {self.constraint}".strip()
        return f"{what}, or None" if self.optional else what

    @property
    def _part_words(self) -> str:
        kind = str(self.part_kind).replace("-", " ")
        return f"{self.part_problem} {kind}" if self.part_problem else kind

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
        if value is None and self.optional:
            return
        if not (self._has_type(value) and self._in_range(value)):
            raise InvalidOption(self.refusal(value, owner))

    def _has_type(self, value: Any) -> bool:
        if self.part_kind is not None:
            methods = (PART_KINDS[self.part_kind], self.part_method)
            return all(_is_name_or_instance(value, method) for method in methods if method)
        if self.kind is bool or self.kind is str:
            return isinstance(value, self.kind)
        return is_number(value, self.kind, large=True)

    def _in_range(self, value: Any) -> bool:
        if self.choices is not None:
            return value in self.choices
        if self.part_kind is not None or self.kind in (bool, str):
            return True
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


def is_number(value: Any, kind: type = float, *, large: bool = False) -> bool:
    """Whether a value is a real number, or with ``kind=int`` an integer; NaN and infinity are real numbers here.

    NumPy's scalars are numbers, and are recognised without importing NumPy. Bools and timedeltas are not numbers
    here: a bool is probably a mistake, and a timedelta has a unit.

    Parameters
    ----------
    value : object
    kind : type, default float
        ``float``: integers and other real numbers count if a float can represent them, except for rounding.
        ``int``: only integers count, of any size.
    large : bool, default False
        With ``kind=float``: whether an integer that is too large for a float counts, too. By default it does not.
    """
    number = numbers.Integral if kind is int else numbers.Real
    if isinstance(value, bool) or not isinstance(value, number):
        return False
    try:
        kind(value)
    except OverflowError:
        return large
    except (TypeError, ValueError):  # a timedelta
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
        The declaration contradicts itself: no type, bounds on a text, a default out of range.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     step: float = ls.option(0.1, "step length", above=0)
    ...     def solve(self, problem, run): ...
    >>> Mine(step=0.5).step
    0.5
    >>> try:
    ...     Mine(step=-1)
    ... except ls.errors.InvalidOption as error:
    ...     print("refused")
    refused
    """
    bounds = {"above": above, "below": below, "at_least": at_least, "at_most": at_most}
    kind = kind or _implied_kind(default, bounds, choices)
    if kind not in _WORDS:
        raise InvalidDeclaration(f"an option is a float, int, bool or str; got kind {kind!r}")
    if choices is not None and not choices:
        raise InvalidDeclaration("choices must name at least one value; got none")
    if kind in (bool, str) and any(bound is not None for bound in bounds.values()):
        raise InvalidDeclaration(f"bounds need a number; this option is a {kind.__name__}")
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
        A method that the part must have in addition to the method of its kind, such as ``"prepare"``. A part without
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
    ...     def solve(self, problem, run): ...
    >>> Mine().normalizer
    'cholesky-qr'
    """
    if kind not in PART_KINDS:
        raise InvalidDeclaration(f"a part is one of {', '.join(PART_KINDS)}; got {kind!r}")
    if (kind == "solver") != (problem is not None):
        remedy = "say which: part(..., problem='least-squares')" if kind == "solver" else "leave problem= out"
        raise InvalidDeclaration(
            f"a solver solves a problem, a {kind} part has problem={problem!r}: {remedy}"
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
    ...     def solve(self, problem, run): ...
    >>> Mine().tol is None
    True
    """
    number = f"{usual:.0e}".replace("e-0", "e-")
    return option(None, f"residual to stop at; none: {number}, more for float32", kind=float, above=0)


def form_option(default: str = "auto") -> Any:
    """Declare the option `form`: how `run.moments` computes products, one of the forms of `linspec.Moments`.

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
    ...     def solve(self, problem, run): ...
    >>> Mine().form
    'auto'
    """
    return option(default, "hold Gram matrices or sweep the data", choices=FORMS)


def sweeps_option() -> Any:
    """Declare the option `sweeps`: the precision in which an iteration multiplies float64 rows.

    "float64" multiplies the rows themselves. "float32" multiplies a copy of the rows in float32, which
    `linspec.Moments.precision.swept` makes. The default "auto" is "float32" on devices with little float64
    (`linspec.arrays.Home.scarce_float64`) if the rows can be copied, and "float64" elsewhere.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Mine(ls.Solver):
    ...     sweeps: str = ls.sweeps_option()
    ...     def solve(self, problem, run): ...
    >>> Mine().sweeps
    'auto'
    """
    return option(
        "auto",
        "precision of the iteration's sweeps over float64 data: float32 copies the rows, half of their memory; auto "
        "does so on devices with little float64",
        choices=SWEEPS,
    )


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
    ...     def solve(self, problem, run): ...
    >>> Mine().max_iterations
    200
    """
    return option(n, f"{of} at most", at_least=1)


def options_of(owner: Any) -> tuple[Option, ...]:
    """Return the options of a dataclass, or of an instance of one, in order of declaration."""
    cls = owner if isinstance(owner, type) else type(owner)
    if not dataclasses.is_dataclass(cls):
        raise InvalidDeclaration(
            f"{cls.__name__} has no options to read; decorate it with @dataclass(frozen=True, kw_only=True)"
        )
    fields = cls.__dataclass_fields__  # its own or a parent's; a decorator makes new ones
    known = _READ.get(cls)
    if known is None or known[0] is not fields:
        known = fields, tuple(_read(cls, field) for field in dataclasses.fields(cls) if field.init)
        _READ[cls] = known
    return known[1]


_READ: WeakKeyDictionary[type, tuple[Any, tuple[Option, ...]]] = WeakKeyDictionary()
"""Cache: for each class, its fields and the options that were made from them."""


def stated_options(instance: Any) -> dict[str, Any]:
    """Return the values of all options by name, as None, bools, numbers, texts and tuples.

    A part is replaced by the text of the call that makes it, such as "ConjugateGradients(tol=0.001)". The call has only
    the arguments that differ from their defaults.
    """
    return {each.name: _stated(getattr(instance, each.name)) for each in options_of(instance)}


def _stated(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return tuple(_stated(each) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [each for each in options_of(value) if getattr(value, each.name) != each.default]
        arguments = ", ".join(f"{each.name}={_stated(getattr(value, each.name))!r}" for each in given)
        return f"{type(value).__name__}({arguments})"
    return shown(value)


def validate(instance: Any) -> None:
    """Check the options of an instance; base classes call this in ``__post_init__``. Raises InvalidOption."""
    for declared in options_of(instance):
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
    if isinstance(value, int) and abs(value) > sys.maxsize:  # more than any count, and than a float holds
        raise InvalidOption(option.refusal(text))
    option.check(value)
    return value


def invalid_values(option: Option) -> list[Any]:
    """Return values that an option must refuse, at least one: just outside its bounds, and of the wrong type."""
    values: list[Any] = [] if option.optional else [None]
    if option.part_kind is not None:
        return [*values, "", 0, object(), object]
    values += [object(), []]
    if option.choices is not None:
        values.append(_stranger(option.choices))
    if option.kind is str:
        return [*values, 0]
    if option.kind is bool:
        return [*values, "true", 1]
    values += ["text", True, 1j, math.nan]
    if option.kind is int:
        values.append(1.5)
    return values + _beyond_bounds(option)


def build(cls: type[T], options: Mapping[str, Any]) -> T:
    """Make an instance from a mapping of options; the error for an unknown name suggests the right name."""
    known = [declared.name for declared in options_of(cls)]
    for name in options:
        if name in known:
            continue
        none = f"{cls.__name__} has no option {name!r}"
        if name in RUN_ARGUMENTS:
            raise UnknownOption(f"{none}: it is an argument of linspec.solve; pass it there")
        listed = f"Its options: {', '.join(known)}." if known else "It has no options."
        raise UnknownOption(f"{none}.{suggestion(name, known)} {listed}")
    return cls(**options)


def _field(default: Any, **declared: Any) -> Any:
    """Make a dataclass field with the declaration as metadata, after a check of the default."""
    trial = Option(name="default", default=default, optional=default is None, **declared)
    try:
        trial.check(default)
    except InvalidOption:
        raise InvalidDeclaration(f"the default must itself be {trial.expects}; got {default!r}") from None
    return dataclasses.field(default=default, metadata={_KEY: declared})


def _read(cls: type, field: dataclasses.Field[Any]) -> Option:
    if _KEY not in field.metadata:
        raise InvalidDeclaration(
            f"field {field.name!r} of {cls.__name__} is not declared as an option; "
            f"write {field.name} = option(default, 'what it does') or part(default)"
        )
    declared = field.metadata[_KEY]
    return Option(name=field.name, default=field.default, optional=field.default is None, **declared)


def _implied_kind(default: Any, bounds: Mapping[str, Any], choices: tuple[Any, ...] | None) -> type:
    if default is not None:
        return type(default)
    if choices:
        return type(choices[0])
    if any(bound is not None for bound in bounds.values()):
        return float
    raise InvalidDeclaration("with the default None the type is unknown; give kind=float, int, bool or str")


def _is_name_or_instance(value: Any, method: str) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    # A class has the method as well, but no values of its options: only an instance is accepted.
    return not isinstance(value, type) and callable(getattr(value, method, None))


def _beyond_bounds(option: Option) -> list[float]:
    """Return two values on the wrong side of each bound: one as close as the type allows, and one farther away."""
    low = option.above if option.above is not None else option.at_least
    high = option.below if option.below is not None else option.at_most
    values: list[float] = []
    if low is not None:
        edge = low if option.above is not None else _next(option.kind, low, -1)
        values += [edge, low - 1]
    if high is not None:
        edge = high if option.below is not None else _next(option.kind, high, 1)
        values += [edge, high + 1]
    return values


def _next(kind: type, bound: float, direction: int) -> float:
    return bound + direction if kind is int else math.nextafter(bound, direction * math.inf)


def _stranger(choices: tuple[Any, ...]) -> Any:
    """Return a value of the type of the choices that is not one of them."""
    first = choices[0]
    return "not " + " ".join(choices) if isinstance(first, str) else sum(map(abs, choices)) + 1
