"""The input of a law from the run, and its result from a solver's arrays."""

from __future__ import annotations

from linspec.status import Status


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
