"""Print how many wrong singular values are called converged, and how many right ones are not, on hard spectra.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_hard_spectra.py`; `--quick` takes a tenth of the cases,
`--seed` draws others, and `--solvers` chooses. All data are generated.

The cases are flat, steep, clustered and repeated spectra, a tie at the cut, dependent columns, values below the
rounding of squares, columns of falling lengths, means of up to 1e8 deviations, float32, sparse matrices of both shapes,
few passes and loose tolerances. The exact values are those of LAPACK on the dense matrix, in float64.

wrong: a value is off by more than a thousandth of the largest, or a larger one is missing. right: every value is
returned and off by less than a millionth of itself. An answer counts as called right if its status is CONVERGED, or
RANK_DEFICIENT where fewer values exist. "overstated" are answers called right that have over ten times the error of the
digits that they claim.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from beds import concluded, counted_cases, with_spectrum

import linspec as ls

SOLVERS = "auto", "gram", "direct", "block-krylov", "lanczos"
WRONG, RIGHT = 1e-3, 1e-6
KINDS = "silent", "alarm", "overstated", "told", "right", "refused"
FLOOR = 1e-14
"""Errors relative to the largest value below which LAPACK's own rounding is seen."""


@dataclass(frozen=True)
class Case:
    """Data, how many values are asked for, and options of the problem and of the solver."""

    name: str
    A: Any
    k: int
    problem: dict[str, Any]
    options: dict[str, Any]

    def exact(self) -> np.ndarray:
        """The leading values of the matrix that is meant."""
        A = np.asarray(self.A.toarray() if sp.issparse(self.A) else self.A, dtype=np.longdouble)
        if self.problem.get("center"):
            A = A - A.mean(axis=0)
        return np.linalg.svd(np.asarray(A, dtype=np.float64), compute_uv=False)[: self.k]


def case(name: str, A: Any, k: int, *, options: dict[str, Any] | None = None, **problem: Any) -> Case:
    """A case, with options of the problem by name."""
    return Case(name, A, k, problem, options or {})


def spectra(rng: np.random.Generator) -> Iterator[Case]:
    """Spectra that are hard to see or to settle."""
    for n, p in ((300, 40), (60, 200)):
        m = min(n, p)
        for name, s in {
            "flat": np.linspace(2, 1, m),
            "equal": np.ones(m),
            "steep": 10.0 ** -np.arange(m),
            "steep to 1e-6": np.geomspace(1, 1e-6, m),
            "steep to 1e-9": np.geomspace(1, 1e-9, m),
            "clusters": np.r_[3 * np.ones(4), 1 + 1e-7 * rng.standard_normal(m - 4)],
            "tie at the cut": np.r_[9, 8, 7, 2, 2, 2, 2, np.linspace(1, 0.1, m - 7)],
            "ten copies": np.r_[5 * np.ones(10), np.linspace(1, 0.1, m - 10)],
            "gap of 1e8": np.r_[1e8, np.linspace(2, 1, m - 1)],
            "rank 3": np.r_[3.0, 2, 1],
        }.items():
            yield case(f"{name}, {n} x {p}", with_spectrum(n, p, s, rng), 5, left=bool(rng.integers(2)))
    for e in (2, 4, 6, 8):
        A = rng.standard_normal((200, 12)) * np.geomspace(1, 10.0**-e, 12)
        yield case(f"graded columns 1e-{e}", A, 12)


def kinds_of_data(rng: np.random.Generator) -> Iterator[Case]:
    """Large means, float32, sparse matrices, units."""
    for e in (2, 5, 8):
        A = with_spectrum(400, 10, np.linspace(20, 1, 10), rng) + 10.0**e * (1 + rng.random(10))
        yield case(f"means of 1e{e} deviations", A, 4, center=True)
    A = with_spectrum(300, 20, np.geomspace(1, 1e-3, 20), rng)
    yield case("float32", A.astype(np.float32), 8)
    for unit in (1e-55, 1e-30, 1e30, 1e55):
        yield case(f"units of {unit:g}", A * unit, 8)
    for n, p in ((900, 400), (400, 900), (300, 3000)):
        S = sp.random(n, p, 0.03, random_state=rng, format="csr") @ sp.diags_array(
            np.arange(1, p + 1) ** -0.7
        )
        yield case(f"sparse {n} x {p}", sp.csr_array(S), 10)
        yield case(f"sparse {n} x {p}, centred", sp.csr_array(S), 10, center=True)


def ended_early(rng: np.random.Generator) -> Iterator[Case]:
    """Few passes and loose tolerances."""
    A = with_spectrum(500, 80, np.linspace(2, 1, 80), rng)
    for passes in (2, 4, 8):
        yield case(f"{passes} passes", A, 5, options={"max_passes": passes, "form": "implicit"})
    for tol in (1e-1, 1e-2, 1e-4):
        yield case(f"tolerance {tol:g}", A, 5, options={"tol": tol, "form": "implicit"})


def cases(seed: int) -> Iterator[Case]:
    """All cases, each family with random numbers of its own."""
    for number, family in enumerate((spectra, kinds_of_data, ended_early)):
        yield from family(np.random.default_rng([seed, number]))


def counted(name: str, case: Case, exact: np.ndarray) -> tuple[str, Any, float]:
    """How a solver ends on a case, in one of the `KINDS`; its answer, and the error relative to the largest value."""
    options = case.options if name in ("block-krylov", "lanczos") else {}
    seed = {} if name in ("auto", "gram", "direct") else {"rng": 0}
    try:
        found = ls.solve(ls.SVD(case.A, case.k, **case.problem), name, **seed, **options)
    except ls.errors.LinspecError:
        return "refused", None, np.nan
    values = np.zeros(case.k)
    values[: len(found.S)] = found.S
    gaps = np.abs(values[: len(exact)] - exact)
    error = float(gaps.max() / exact[0])
    if not (found.converged and found.status.name in ("CONVERGED", "RANK_DEFICIENT")):
        stopped = found.status.name in ("BUDGET", "ITERATION_LIMIT")
        right = not stopped and (gaps <= np.maximum(RIGHT * exact, FLOOR * exact[0])).all()
        return ("alarm" if right else "told"), found, error
    if error > max(WRONG, 10 * found.tol):
        return "silent", found, error
    digits = re.search(r"about (\d+)", found.accuracy)
    claimed = 10.0 ** -float(digits[1]) if digits else 1.0
    known = gaps[: len(found.S)] - FLOOR * exact[0]
    return ("overstated" if (known > 10 * claimed * exact[: len(known)]).any() else "right"), found, error


def main() -> int:
    """Solve every case by every solver, and count."""
    takes_options = "block-krylov", "lanczos"
    left_out = lambda name, case: bool(case.options) and name not in takes_options  # noqa: E731
    report, counts, made = counted_cases(__doc__, SOLVERS, cases, counted, left_out)
    return concluded(report, counts, KINDS, made, "values")


if __name__ == "__main__":
    sys.exit(main())
