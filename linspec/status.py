"""How a solve ended."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solve ended. The value is advice in plain words.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> ls.solve(ls.SVD(A, k=2)).status is ls.Status.CONVERGED
    True
    >>> print(ls.Status.CONVERGED.value)
    The residual of the returned arrays is at or below the tolerance.
    """

    CONVERGED = "The residual of the returned arrays is at or below the tolerance."
    BUDGET = (
        "The budget of passes or seconds ran out first. The best iterate is returned with its residual: "
        "raise max_passes or max_seconds to go on."
    )
    ITERATION_LIMIT = (
        "The solver reached its own limit of iterations above the tolerance. Raise max_iterations, loosen "
        "tol, or choose another solver."
    )
    STAGNATED = (
        "The residual stopped falling above the tolerance: rounding, or an inner solver, limits it. Loosen "
        "tol, add a ridge, or choose a direct solver."
    )
    STOPPED = "The callback asked to stop. The best iterate is returned with its residual."
    INTERRUPTED = "An interrupt ended the run. The best iterate is returned with its residual."
    OUT_OF_MEMORY = (
        "The memory ran out. The best iterate is returned with its residual: choose a solver or a form that holds "
        "less, or give the process more memory."
    )
    RANK_DEFICIENT = (
        "The data have lower rank than was asked or assumed: only directions above the numerical rank are "
        "returned. Ask for fewer, or add a ridge."
    )
    INCOMPLETE = (
        "Some of the leading values are missing, or may be, which no residual shows. Raise the budget or "
        'max_iterations, or choose "gram" or "direct", which miss none.'
    )
    CLUSTERED = (
        "Correlations that were left out, or zeros, are close to those returned: more may be missing than the residual "
        "says; loss_estimate has how much. Lower tol, or ask for more pairs."
    )
    DEGENERATE = (
        "Correlations equal to 1 to rounding: the two views share directions exactly, often because a view "
        "has nearly as many columns as rows. Add a ridge to separate signal from chance."
    )
    ILL_CONDITIONED = (
        "Forming the Gram matrices has squared a large condition number, and digits are lost that the "
        'residual, taken from the same Gram matrices, cannot show. Choose "direct", or add a ridge.'
    )
    INCONSISTENT = (
        "The products with an operator are not those of a matrix and its transpose, so that neither the answer nor the "
        "residual can be trusted. Correct its matmat (matvec) or rmatmat (rmatvec)."
    )
    APPROXIMATE = (
        "The solver ended by its own rule, which does not lead to the exact solution of this problem; the "
        "residual says how far away it is."
    )
    INACCURATE = (
        "The computed answer does not meet the tolerance. The problem may be too ill-conditioned for this "
        "method and precision: add a ridge, use float64, or choose another solver."
    )
    BREAKDOWN = (
        "The iteration broke down and could not be restarted. The best iterate is returned with its "
        "residual: add a ridge, scale the columns, or choose another solver."
    )
