"""Commands that print a table: `linspec rotate` of a saved answer, and `linspec similarity` of files."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import linspec
from linspec.cli import data, output
from linspec.cli.commands import FILES, HEADER, ROWS, option
from linspec.process.progress import report_progress

SUFFIXES = (".csv", ".json")


def _rotate(result: str, out: str | None, method: str) -> None:
    """Run `linspec rotate`."""
    target = output.check_target("--out", out, SUFFIXES, [result])
    rotated = linspec.rotate(linspec.load_solution(result), method)
    rows = rotated.loadings_table(library="")
    variances = rotated.explained_variance
    output.show_facts([("explained variance", f"{variances}"), ("residual", f"{rotated.residual:.2g}")])
    output.show_table(rows, output.SHOWN)
    about = {"explained_variance": variances}
    output.write_all((target, partial(output.write_rows, about, rows)))


def _similarity(files: tuple[str, ...], out: str | None, measure: tuple[str, ...], **settings: Any) -> None:
    """Run `linspec similarity`."""
    target = output.check_target("--out", out, SUFFIXES, files)
    output.refuse(len({*files}) < 2, "name two files or more, one for each layer.")
    texts = dict(zip(files, files, strict=True))
    layers, _ = data.read_all(
        texts, drop=settings["drop_missing"], ids=settings["ids"], span=settings["rows"]
    )
    with report_progress("similarity", wanted=None):
        similarity = linspec.similarity(layers, measure)
    rows = [
        {"measure": name, **row} for name in similarity.values for row in similarity.table(name, library="")
    ]
    output.show_table(rows)
    write = partial(output.write_rows, {}, rows)
    output.write_all((target, write))


OUT = option("--out", help="Write the table to FILE.csv or FILE.json.")
ROTATE = (
    [
        click.Argument(["result"], metavar="RESULT.npz"),
        option("--method", default="varimax", help="varimax, or promax: its scores may be correlated."),
        OUT,
    ],
    _rotate,
    """Rotate the loadings of principal components to simple structure: of a result of `linspec solve svd --center
--out RESULT.npz`. `linspec transform RESULT.npz FILE --rotate varimax` computes the rotated scores of rows.""",
)
SIMILARITY = (
    [
        click.Argument(["files"], metavar="FILE FILE...", nargs=-1, required=True),
        option(
            "--measure",
            multiple=True,
            default=["cka"],
            help="cka, cka-unbiased, svcca, pwcca or procrustes; may be repeated.",
        ),
        HEADER,
        *ROWS,
        OUT,
    ],
    _similarity,
    f"""Compare representations of the same inputs in pairs: layers of networks, recordings. Each file has a row for
each input and a column for each unit. procrustes is a squared distance, and other measures are 1 for equal layers; of
pwcca, which is not symmetric, a row has the weights of its file. svcca keeps 99 % of the variance.

{FILES}""",
)
