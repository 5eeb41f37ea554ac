"""The result of a solver: the answer, how the run ended, its cost, and its accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import HostArray
from linspec.interrupts import HowItEnded


class Status(Enum):
    """How a solve ended. The value is advice in plain words."""

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
        "Correlations that were left out are close to those returned, so that more may be missing than the residual "
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


HISTORY_FIELDS = ("iteration", "passes", "columns", "flops", "seconds", "residual")
"""The columns of `Solution.history`, all float64."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Solution:
    """The fields that the answers of all problems share.

    Attributes
    ----------
    status : Status
        How the run ended; its value is advice.
    converged : bool
        Whether `residual`, which is that of the returned arrays, is at or below the tolerance.
    message : str
        The status in words, with this run's own figures.
    residual : float
        The residual of the returned arrays by the problem's law; 0 is exact.
    residual_kind : str
        "recomputed" (by a sweep, which is counted) or "from-gram" (a Gram matrix was held).
    iterations : int
        Iterations of the solver's outer loop; 0 for direct solvers.
    passes : float
        The largest number of sweeps over any one matrix of the problem, including set-up and certificate.
    columns : float
        Products with one column, forward and adjoint, over all matrices, including those of the certificate.
    flops : float
        Floating-point operations of those products.
    seconds : float
        Wall time of the run.
    setup_passes : float
        Passes made before this run by moments that were shared with it.
    history : numpy structured array
        One record for each iteration: iteration, passes, columns, flops, seconds, residual.
    solver : str
        The qualified name of the solver that ran.

    Notes
    -----
    Each class describes its fields. `weight_fields` are the arrays in the library and dtype of the data, the
    leading vectors first. `value_field` holds the decreasing numbers that belong to the vectors, or is "" if
    there are none. `value_label` is the name of one of these numbers. `ceiling` is their upper limit, or
    None. `certified` tells whether the residual judges the whole answer: if it is False, no answer of the class has
    converged, whatever its residual. A class may have a method `score` that takes rows of the problem's matrices, and
    their confounds by name, and returns a number, or an object with `total`: the larger, the better. `score_label` is
    what this number is called; `linspec.compare` compares by it.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ()
    value_field: ClassVar[str] = ""
    value_label: ClassVar[str] = ""
    ceiling: ClassVar[float | None] = None
    certified: ClassVar[bool] = True
    score_label: ClassVar[str] = "score"

    status: Status = HowItEnded()  # type: ignore[assignment]  # noqa: RUF009  # a descriptor: read as what it is
    converged: bool
    message: str
    residual: float
    residual_kind: str
    iterations: int
    passes: float
    columns: float
    flops: float
    seconds: float
    setup_passes: float
    history: HostArray
    solver: str

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} by {self.solver}: {self._headline()}, residual {self.residual:.2g} "
            f"({self.residual_kind}), {self.passes:g} passes, {self.iterations} iterations, "
            f"{self.status.name}>"
        )

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float | None:
        """What the problem maximises, in one number, of the fields of an answer; None if there is none.

        Parameters
        ----------
        fields : mapping from str to array
            Of an answer of this class, or of an iterate that the law has judged.

        Returns
        -------
        float or None
            By default the sum of the numbers in `value_field`.
        """
        return float(np.sum(fields[cls.value_field])) if cls.value_field else None

    def _headline(self) -> str:
        return ""


@dataclass
class History:
    """The record of a run, with one row for each iteration."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, **values: float) -> None:
        """Append one iteration."""
        self.rows.append(tuple(float(values[name]) for name in HISTORY_FIELDS))

    def table(self) -> HostArray:
        """The history as a structured float64 array."""
        return np.array(self.rows, dtype=[(name, np.float64) for name in HISTORY_FIELDS])
