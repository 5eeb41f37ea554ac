"""Reduced-rank regression on the command line: its parameters, and the display of its answers.

Both would follow from the declared fields; this module does not load the class, so that help loads no array library.
"""

from __future__ import annotations

from typing import Any

from linspec.cli import Kind, center_option, count_option, first_numbers, ridge_option, row_options


def _shares(solution: Any) -> list[tuple[str, str]]:
    shown = [("singular values", first_numbers(solution.singular_values, ".5g") or "none")]
    shares = solution.explained
    if shares is not None and len(shares):
        shown.append(("explained", f"{first_numbers(shares, '.4f')}, together {float(shares.sum()):.4f}"))
    return shown


COMMAND = Kind(
    name="reduced-rank-regression",
    matrices=("X", "Y"),
    parameters=lambda: [
        count_option("components"),
        ridge_option("Added to the diagonal of XᵀX, which is not divided by the number of rows."),
        center_option(True, "Fit intercepts, which no ridge shrinks; sparse data stay sparse."),
        *row_options(),
    ],
    answer=_shares,
    score=None,
    varied=("ridge",),
    scored=True,
    loadings=True,
)
"""The description of the problem for the command line."""
