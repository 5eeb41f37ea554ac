"""Errors and warnings; each is also the built-in exception that a caller would expect.

Problem: a caller wants to catch every error of linspec with one clause, and ``except ValueError`` should work
in a script that does not import linspec's errors.
Method: every error derives from :class:`LinspecError` and from the closest built-in exception. A message states
the requirement, the argument that violates it, and a remedy.

Errors are for misuse, for data that cannot be used in computations, and for plugins that violate their contract.
An iteration that does not converge is not an error: it is a ``Status`` of the solution, with a warning if the
solver stopped at a limit of its own.
"""

# ruff: noqa: N818 (a caller reads "except UnknownName"; "Error" would add nothing)

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = [
    "AccuracyWarning",
    "AmbiguousName",
    "BrokenPlugin",
    "BudgetTooSmall",
    "CannotSave",
    "ClusterLost",
    "ConvergenceWarning",
    "DataLost",
    "InvalidDeclaration",
    "InvalidFile",
    "InvalidOption",
    "InvalidProblem",
    "LinspecError",
    "MissingCapability",
    "NoSuitableSolver",
    "NonFiniteData",
    "OutOfMemory",
    "PluginWarning",
    "SweptOnce",
    "UnknownName",
    "UnknownOption",
    "UnsupportedData",
    "warn",
]


class LinspecError(Exception):
    """Base class of every error that linspec raises on purpose.

    Examples
    --------
    >>> import linspec as ls
    >>> try:
    ...     ls.solve(ls.SVD([[1.0, 2.0], [3.0, 4.0]], k=1), "no-such-solver")
    ... except ls.errors.LinspecError as error:
    ...     print(type(error).__name__)
    UnknownName
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(fit_to_read(arg) if isinstance(arg, str) else arg for arg in args))


class UnknownName(LinspecError, LookupError):
    """No solver, normalizer, test matrix or problem has this name.

    The message suggests close matches, lists the existing names, and quotes plugins that could
    not be loaded.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_solver("svd/lanzcos")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.UnknownName: no solver is named 'svd/lanzcos'. Did you mean 'svd/lanczos'? ...
    """


class AmbiguousName(LinspecError, LookupError):
    """A bare name that several providers or several problems use; the message lists the qualified names.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_solver("direct")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.AmbiguousName: 'direct' may be 'cca/direct' or 'discriminant/direct' or ...
    """


class BrokenPlugin(LinspecError, ImportError):
    """A plugin violates its contract.

    For example, the class of a solver cannot be imported from the path in its record (`target` of `SolverSpec`), this
    class is no solver, or the solver returns arrays of a wrong shape.

    Examples
    --------
    >>> import linspec as ls
    >>> try:
    ...     raise ls.errors.BrokenPlugin("acme/solver cannot be imported")  # as get_solver does
    ... except ImportError as error:
    ...     print(error)
    acme/solver cannot be imported
    """


class InvalidDeclaration(LinspecError, ValueError):
    """An author's declaration (a record, an option, a hook) is malformed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.TestMatrixSpec(name="My Matrix", target="a.b:C", summary="Text.", reference="none")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.InvalidDeclaration: TestMatrixSpec(name='My Matrix'): name must be lower-case words ...
    """


class InvalidOption(LinspecError, ValueError):
    """An option was given a value of the wrong type or outside its range.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_solver("svd/spca")(power_iterations=-1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.InvalidOption: option 'power_iterations' of SPCA must be an integer >= 0; got -1 ...
    """


class UnknownOption(LinspecError, TypeError):
    """There is no option of this name; the message suggests a close one and lists the existing ones.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.solve(ls.SVD(np.eye(3), k=1), "spca", powers=2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.UnknownOption: SPCA has no option 'powers'. Its options: oversampling, ...
    """


class InvalidProblem(LinspecError, ValueError):
    """A problem cannot be stated: shapes that disagree, ``k`` too large, a negative ridge, no rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.CCA(np.ones((5, 2)), np.ones((4, 2)), k=1)
    Traceback (most recent call last):
    ...
    linspec.errors.InvalidProblem: X and Y must have equally many rows; got 5 and 4.
    """


class NonFiniteData(InvalidProblem):
    """The data hold NaN or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.solve(ls.SVD(np.array([[1.0, np.nan], [2.0, 3.0]]), k=1))
    Traceback (most recent call last):
    ...
    linspec.errors.NonFiniteData: A must be finite; got nan at row 0, column 1. Drop or impute such rows.
    """


class DataOutOfRange(InvalidProblem):
    """The largest entry of a matrix, or a ridge, is so small or so large that fourth powers under- or overflow.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.solve(ls.SVD(np.diag([1e-80, 2e-80]), k=1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.DataOutOfRange: the entries of A, with the roots of their weights, must lie between 1e-60 and ...
    """


class UnsupportedData(LinspecError, TypeError):
    """Data linspec cannot multiply: complex, object or string entries, mixed libraries or devices.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.SVD(np.array([[1.0 + 2.0j]]), k=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.UnsupportedData: A must be real; got dtype complex128. Pass the real and imaginary ...
    """


class MissingCapability(LinspecError, TypeError):
    """A solver needs a capability that the operator lacks (adjoint, entries, rows).

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse.linalg
    >>> import linspec as ls
    >>> operator = scipy.sparse.linalg.aslinearoperator(np.eye(4))
    >>> ls.as_operator(operator).rows(slice(0, 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.MissingCapability: ForeignOperator has no row slices; pass an array, a sparse matrix ...
    """


class SweptOnce(MissingCapability):
    """Data that can be read only once, an iterator of row slices, would have to be read again.

    The message names the remedies. The error is a :class:`MissingCapability`: such data cannot be read a second
    time.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> slices = iter([np.ones((3, 2)), np.eye(2)])
    >>> ls.solve(ls.SVD(slices, k=1), "block-krylov")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.SweptOnce: block-krylov reads its data several times, and an iterator can be read ...
    """


class DataLost(LinspecError, RuntimeError):
    """Rows in distributed blocks are lost with the worker that held them, and cannot be computed again.

    The message names the block and the remedy.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.workers import BlockOperator, InProcess
    >>> class Forgetful(InProcess):
    ...     def taken(self, handle):
    ...         raise ls.errors.DataLost(f"block {handle} is gone. Make it again.")
    >>> BlockOperator([0], Forgetful())
    Traceback (most recent call last):
    ...
    linspec.errors.DataLost: block 0 is gone. Make it again.
    """


class ClusterLost(LinspecError, RuntimeError):
    """The cluster that holds the rows has failed: no scheduler, a closed client, or a task that kills its workers.

    The message names the cause and the remedy.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.workers import BlockOperator, InProcess
    >>> class Unplugged(InProcess):
    ...     def fetch(self, handles):
    ...         raise ls.errors.ClusterLost("the scheduler is gone. Start a cluster and state the problem again.")
    >>> BlockOperator([[[1.0]]], Unplugged())
    Traceback (most recent call last):
    ...
    linspec.errors.ClusterLost: the scheduler is gone. Start a cluster and state the problem again.
    """


class BudgetTooSmall(LinspecError, ValueError):
    """``max_passes`` is too small for set-up and certificate, or ``max_seconds`` ends before there is a first iterate.

    For ``max_passes`` the message states the smallest number that is enough. For ``max_seconds`` no such number is
    known; the message states where the time ended.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.solve(ls.SVD(np.eye(50), k=2), "spca", rng=0, max_passes=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.BudgetTooSmall: spca needs at least ... passes (set-up and certificate); got ...
    """


class OutOfMemory(LinspecError, MemoryError):
    """The memory ran out before there was a solution; the message states where.

    Examples
    --------
    >>> import linspec as ls
    >>> try:
    ...     raise ls.errors.OutOfMemory("gram ran out of memory in pass 1")  # as a solve does
    ... except MemoryError as error:
    ...     print(error)
    gram ran out of memory in pass 1
    """


class MissingPackage(LinspecError, ImportError):
    """A method needs an optional package that is not installed; the message has the command that installs it.

    Examples
    --------
    >>> import linspec as ls
    >>> try:
    ...     raise ls.errors.MissingPackage("dcca needs torch: pip install 'linspec[torch]'")  # as a solve does
    ... except ImportError as error:
    ...     print(error)
    dcca needs torch: pip install 'linspec[torch]'
    """


class CannotSave(LinspecError, TypeError):
    """A solution contains an object that cannot be stored in a file, such as a function; nothing was written.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rows = np.random.default_rng(0).standard_normal((20, 2))
    >>> problem = ls.KernelCCA(rows, rows**2, k=1, kernel_x=lambda X, Z: X @ Z.T, ridge=1.0)
    >>> ls.solve(problem).save("answer.npz")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.CannotSave: x_map.map.landmarks.kernel.of cannot be saved; it is <function <lambda> ...
    """


class InvalidFile(LinspecError, ValueError):
    """A file cannot be read as a saved solution: it is damaged, of a newer format, or of another kind.

    Examples
    --------
    >>> import linspec as ls
    >>> from pathlib import Path
    >>> _ = Path("notes.npz").write_text("no saved answer")
    >>> ls.load_solution("notes.npz")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    linspec.errors.InvalidFile: notes.npz cannot be read as a saved answer: ...
    """


class NoSuitableSolver(LinspecError, ValueError):
    """No solver fits the problem and the memory of the machine.

    Automatic choice ("auto") raises this error if the data allow no solver, or if every solver would need more than
    half of the available memory. For a named solver, or a method that holds matrices in memory, the error means that
    the estimated memory is not available.

    Examples
    --------
    >>> import os
    >>> from unittest.mock import patch
    >>> import numpy as np
    >>> import linspec as ls
    >>> zeros = np.lib.stride_tricks.as_strided(np.zeros(1), (100_000, 2000), (0, 0))
    >>> with patch.dict(os.environ, LINSPEC_MAX_MEMORY="16MiB"):  # doctest: +ELLIPSIS
    ...     ls.solve(ls.SVD(zeros, k=2), "direct")
    Traceback (most recent call last):
    ...
    linspec.errors.NoSuitableSolver: direct (orthogonal reduction to order ...) would take 322 MB of memory; ...
    """


MOST_SHOWN = 100
"""Most characters of a value that a message shows."""

MOST_ECHOED, MOST_TOLD = 400, 8000
"""Most characters of one word of a message, such as a path, and of the whole message."""


def shown(value: Any) -> str:
    """Format a value for a message: its repr in one line of printable characters, shortened.

    Parameters
    ----------
    value : object
        Any object, also one whose repr raises, such as an integer of ten thousand digits.
    """
    try:
        text = value if isinstance(value, str) and not value.isprintable() else repr(value)
    except Exception:  # noqa: BLE001  # whatever its representation raises
        return f"a {type(value).__name__}"
    text = printable(" ".join(text.split()))
    return _cut(text, MOST_SHOWN)


def one_line(error: BaseException) -> str:
    """Type and text of an exception in one line; only the type if its text raises."""
    try:
        return " ".join(f"{type(error).__name__}: {error}".split())
    except Exception:  # noqa: BLE001  # whatever its text raises
        return type(error).__name__


def fit_to_read(message: str) -> str:
    """Escape control characters in a message, and shorten it where it is too long to be read.

    Every message passes through here, with any text that it echoes, such as the name of an option or a key of a file.
    """
    lines = [" ".join(map(_cut, printable(line).split(" "))) for line in message.split("\n")]
    return _cut("\n".join(lines), MOST_TOLD)


def _cut(text: str, most: int = MOST_ECHOED) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 4 :]}"


def printable(text: str) -> str:
    """Escape the characters of a text, such as the name of a file, that are not printable."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in str(text)
    )


def columns_without_numbers(numbers: Any, names: Sequence[str] | None) -> str:
    """Return the finding that the columns of these numbers hold no number in any row, and the remedy."""
    first, others = numbers[0], len(numbers) - 1
    column = f"column {first} ({shown(names[first])})" if names else f"column {first}"
    verb, what = (f"and {others} more hold", "them") if others else ("holds", "it")
    return f"{column} {verb} no number in any row: leave {what} out"


@contextmanager
def called(name: str) -> Iterator[None]:
    """Replace "data" in the messages of operators by the caller's name of the data, within a with statement."""
    try:
        yield
    except (UnsupportedData, InvalidProblem) as error:
        message = str(error)
        message = name + message[4:] if message.startswith("data ") else f"{name}: {message}"
        raise type(error)(message) from error


class ConvergenceWarning(UserWarning):
    """A solver reached its own limit, or stagnated, before it reached its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 40))
    >>> with warnings.catch_warnings():  # doctest: +ELLIPSIS
    ...     warnings.simplefilter("error", ls.errors.ConvergenceWarning)
    ...     ls.solve(ls.LeastSquares(A, A[:, 0]), "gd", max_iterations=2)
    Traceback (most recent call last):
    ...
    linspec.errors.ConvergenceWarning: gd: The solver reached its own limit of iterations above the ...
    """


class AccuracyWarning(UserWarning):
    """The arithmetic may have lost digits that matter (cancellation, conditioning, precision).

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((60, 8))
    >>> with warnings.catch_warnings():  # doctest: +ELLIPSIS
    ...     warnings.simplefilter("error", ls.errors.AccuracyWarning)
    ...     ls.solve(ls.CCA(X + 9, X[:, :5] ** 2, k=2), "d-cca", rng=0)
    Traceback (most recent call last):
    ...
    linspec.errors.AccuracyWarning: d-cca treats the Gram matrix of X as diagonal, but centring ...
    """


class PluginWarning(UserWarning):
    """Two plugins register the same name; the message states which one keeps it.

    Examples
    --------
    >>> import warnings
    >>> import linspec as ls
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ls.errors.PluginWarning)  # you know which package keeps the name
    ...     print("gram" in ls.solvers("svd"))
    True
    """


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and attribute the warning to the line outside linspec and its plugins that called in.

    Parameters
    ----------
    message : str
        The finding and the remedy.
    category : type
        A warning class, such as :class:`AccuracyWarning`.

    Notes
    -----
    That line is in the caller of the outermost frame of linspec. So plugins that linspec calls are skipped,
    whatever the name of their package.

    Examples
    --------
    >>> import warnings
    >>> from linspec.errors import AccuracyWarning, warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("digits are lost: take float64.", AccuracyWarning)
    >>> print(caught[0].category.__name__, caught[0].message)
    AccuracyWarning digits are lost: take float64.
    """
    outside = frame = sys._getframe(1)
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "linspec" or package.startswith("linspec_"):
            outside = frame.f_back
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        outside.f_code.co_filename,
        outside.f_lineno,
        module=outside.f_globals.get("__name__"),
        registry=outside.f_globals.setdefault("__warningregistry__", {}),
    )
