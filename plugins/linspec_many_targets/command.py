"""Ridge regression of many targets on the command line: its parameters and the display of its answer."""

from __future__ import annotations

from typing import Any

import click

from linspec.cli import Kind, center_option, first_numbers, row_options


class _Numbers(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """Numbers with commas between them."""

    def __init__(self, kind: type[int | float]) -> None:
        self.kind, self.name = kind, "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(text) for text in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} must be numbers with commas between them", param, ctx)


def _parameters() -> list[click.Parameter]:
    return [
        click.Option(
            ["--ridges"],
            type=_Numbers(float),
            metavar="NUMBERS",
            help="Candidates, above 0, with commas between them: 1,10,100.",
        ),
        click.Option(
            ["--bands"],
            type=_Numbers(int),
            metavar="NUMBERS",
            help="The number of columns of each band, in order, with commas between them: 60,60,40.",
        ),
        click.Option(
            ["--band-weights"],
            type=int,
            metavar="NUMBER",
            help="How many settings of weights of bands are tried.",
        ),
        click.Option(
            ["--splitter"],
            type=int,
            default=5,
            show_default=True,
            metavar="NUMBER",
            help="Folds of successive rows.",
        ),
        center_option(True, "Fit an intercept; sparse data stay sparse."),
        *row_options(),
    ]


def _with_labels(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace numbers of columns by labels of columns."""
    if "bands" in values:
        values = {
            **values,
            "bands": [f"band{i + 1}" for i, count in enumerate(values["bands"]) for _ in range(count)],
        }
    return matrices, values


def _answer(solution: Any) -> list[tuple[str, str]]:
    rows = [
        ("targets", str(len(solution.ridges))),
        ("ridges", first_numbers(solution.ridges, ".5g")),
        ("held-out R²", first_numbers(solution.scores, ".4f")),
    ]
    if len(solution.band_names) > 1:
        means = first_numbers(solution.band_weights.mean(axis=0), ".3f")
        rows.append((f"mean weights of {', '.join(solution.band_names)}", means))
    return rows


COMMAND = Kind(
    name="ridge-many-targets",
    matrices=("X", "Y"),
    parameters=_parameters,
    answer=_answer,
    score=None,
    arrange=_with_labels,
    scored=True,
)
"""The description of `ridge-many-targets` for the command line."""
