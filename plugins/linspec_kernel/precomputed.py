"""Checks of problems whose matrices are precomputed kernel values."""

from __future__ import annotations

from typing import Any

from linspec.errors import InvalidProblem


def check_square(problem: Any) -> None:
    """Raise unless each matrix with a precomputed kernel holds the values of all pairs of rows."""
    for name, kernel in problem.kernels.items():
        A = problem.matrices[name]
        if kernel.precomputed and A.shape[0] != A.shape[1]:
            raise InvalidProblem(
                f"with a precomputed kernel {name} holds the values of all pairs of rows, n x n; got "
                f"{A.shape[0]} x {A.shape[1]}."
            )


def refuse_precomputed(problem: Any) -> None:
    """Raise if the kernel of a matrix is precomputed, since its rows cannot be held out."""
    names = [name for name, kernel in problem.kernels.items() if kernel.precomputed]
    if names:
        raise InvalidProblem(
            f"rows of a precomputed kernel cannot be held out: its columns belong to them, too. Pass the values for "
            f"the training rows as {' and '.join(names)}, and those of other rows with the training rows to be scored."
        )
