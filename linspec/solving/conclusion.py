"""The input of a law from the run, and its result from a solver's arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from linspec.arrays import is_array
from linspec.errors import BrokenPlugin, shown
from linspec.process.plurals import count_of
from linspec.solving.adjusting import in_field
from linspec.status import Status


@dataclass(frozen=True)
class Conclusion:
    """The result of a problem's law for a solver's arrays: the fields of the solution, and the verdict.

    The law of a problem is its method `conclude`, which judges the arrays that a solver returns.

    Parameters
    ----------
    fields : mapping of str to arrays and numbers
    residual : float
    findings : tuple of (Status or None, str), default ()
        A status of None leaves the status unchanged; its text goes into the message.
    kind : str, default ""
        `Solution.residual_kind`, if the law states it. By default the run states from which products the residual was
        computed, such as "recomputed" or "from-gram".
    lost : bool, default False
        Whether the law has found that vectors are missing in the answer, such as those of directions that rounding
        has hidden. Then the run has not converged, whatever the residual.
    least : float, default 0.0
        The residual that rounding of the data leaves in a backward stable answer: the tolerance in force is no smaller.
    passes : float, default 0.0
        The passes that the law has made and that no `Moments` have counted.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.Conclusion(fields={"x": 0.0}, residual=1e-9).residual
    1e-09
    """

    fields: Mapping[str, Any]
    residual: float
    findings: tuple[tuple[Status | None, str], ...] = ()
    kind: str = ""
    lost: bool = False
    least: float = 0.0
    passes: float = 0.0


@dataclass(frozen=True)
class Terms:
    """The values that the run gives to a law, as the argument `terms` of `Problem.conclude`.

    Parameters
    ----------
    tol : float, default 0.0
        The tolerance in force.
    passes_left : float, default infinity
        The passes that the law may make in addition to those of the certificate, which are always reserved.
    underflowing : bool, default False
        Whether squares of some columns underflow. The law then has no bound for what these columns contribute to the
        answer.
    complete : bool, default False
        Whether to prove that no component larger than the last returned one is missing in the answer. The proof may
        cost more than the solve.
    passes : float, default 0.0
        The passes that the run has made so far.

    Examples
    --------
    >>> from linspec.solving import Terms
    >>> Terms(tol=1e-6)
    Terms(tol=1e-06, passes_left=inf, underflowing=False, complete=False, passes=0.0)
    """

    tol: float = 0.0
    passes_left: float = math.inf
    underflowing: bool = False
    complete: bool = False
    passes: float = 0.0


DEFAULT_TERMS = Terms()
"""The default terms, for an answer outside a run: `Terms()`."""


def left_out_nearby(estimate: float, residual: float) -> tuple[Status, str]:
    """Return the finding that correlations close to the last returned one were left out.

    The returned correlations are then perhaps not the largest ones. So their sum may be too small by a larger
    fraction than the residual shows.

    Parameters
    ----------
    estimate : float
        The fraction of the sum of correlations that may be missing.
    residual : float
        The residual in the same report.

    Returns
    -------
    (Status, str)
        `Status.CLUSTERED` and its text: one of the `findings` of a `Conclusion`.

    Examples
    --------
    >>> from linspec.solving import left_out_nearby
    >>> status, text = left_out_nearby(2e-3, 1e-5)
    >>> status.name, "2.0e-03" in text
    ('CLUSTERED', True)
    """
    text = f"Correlations that were left out are close to those returned: about {estimate:.1e} of the sum may be "
    text += f"missing, while the residual is {residual:.1e}. Lower tol, or ask for more pairs."
    return Status.CLUSTERED, text


def fewer_than_asked(found: int, wanted: int, what: str) -> tuple[tuple[Status, str], ...]:
    """Return the finding that fewer vectors were found than requested, if so.

    Parameters
    ----------
    found, wanted : int
        The number of returned vectors, and k.
    what : str
        The name of the vectors or values in the message, in the plural.

    Returns
    -------
    tuple of (Status, str)
        The `findings` of a `Conclusion`: empty if there are enough, else one with `Status.RANK_DEFICIENT`.

    Examples
    --------
    >>> from linspec.solving import fewer_than_asked
    >>> fewer_than_asked(2, 2, "singular values above rounding")
    ()
    >>> fewer_than_asked(2, 3, "singular values above rounding")[0][1]
    '2 of the 3 asked for are returned: there are no more singular values above rounding.'
    """
    if found >= wanted:
        return ()
    none = "no more" if found else "no"
    return (
        (Status.RANK_DEFICIENT, f"{found} of the {wanted} asked for are returned: there are {none} {what}."),
    )


def check_handed(problem: Any, said: str, arrays: Mapping[str, Any]) -> None:
    """Refuse results of a solver that the certificate does not take: other names, no arrays, other shapes.

    Parameters
    ----------
    problem : Problem
    said : str
        The beginning of the message: who must give what follows.
    arrays : mapping of str to array

    Raises
    ------
    BrokenPlugin
    """
    needed, optional, any_other = _taken_by(type(problem).conclude)
    if not needed:  # judged by its certificate
        needed = problem.found or tuple(name for name, _ in problem.solution.layout.weights.values())
    if not (arrays.keys() >= {*needed} and (any_other or {*needed, *optional}.issuperset(arrays))):
        more = f" (and, if known, {', '.join(optional)})" if optional else ""
        raise BrokenPlugin(
            f"{said} {', '.join(needed)}{more}, which {type(problem).__name__} takes; got "
            f"{', '.join(arrays) or 'nothing'}."
        )
    layout = problem.solution.layout
    for field, (name, axis) in layout.weights.items():
        if name not in arrays:
            continue
        several = problem.stated.matrices[field].several
        given = arrays[name] if several else (arrays[name],)
        names = in_field(problem, field)
        if several and not (isinstance(given, tuple) and len(given) == len(names)):
            raise BrokenPlugin(
                f"{said} {name} as a tuple of an array for each of {', '.join(names)}; got {shown(given)}."
            )
        for matrix, W in zip(names, given, strict=True):
            if not is_array(W):
                raise BrokenPlugin(f"{said} {name} as an array; got {type(W).__name__}.")
            columns, shape = problem.matrices[matrix].shape[1], tuple(W.shape)
            if len(shape) != 2 or shape[axis] != columns:
                form = f"({columns}, k)" if axis == 0 else f"(k, {columns})"
                raise BrokenPlugin(
                    f"{said} {name} of shape {form}, for the {count_of(columns, 'column')} of {matrix}; got {shape}."
                )
            values = arrays.get(layout.value)
            if values is not None and is_array(values) and tuple(values.shape) != (shape[1 - axis],):
                raise BrokenPlugin(
                    f"{said} as many {layout.value} as vectors; {name} has {shape[1 - axis]}, and they "
                    f"have shape {tuple(values.shape)}."
                )


@lru_cache(maxsize=64)
def _taken_by(law: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return the names of the arrays that a law needs, of optional ones, and whether it takes any others."""
    known = inspect.signature(law).parameters.values()
    by_name = [each for each in known if each.kind is each.KEYWORD_ONLY]
    needed = tuple(each.name for each in by_name if each.default is each.empty)
    optional = tuple(each.name for each in by_name if each.name not in needed)
    return needed, optional, any(each.kind is each.VAR_KEYWORD for each in known)
