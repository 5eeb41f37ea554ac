"""The program: its group of commands, and the option that shows its version."""

from __future__ import annotations

import click

from linspec.cli.bootstrap import bootstrap
from linspec.cli.compare import compare
from linspec.cli.cross_validate import cross_validate
from linspec.cli.failures import Program
from linspec.cli.listing import check, describe, plugins, solvers
from linspec.cli.new import new
from linspec.cli.permute import permute
from linspec.cli.solve import solve
from linspec.cli.transform import transform
from linspec.cli.versions import show_versions
from linspec.registry.spec import resolve

__all__ = ["main"]


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=show_versions,
    help="Show the version, and those of what linspec stands on.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Linear structure in large data: least squares, SVD, canonical correlations and discriminants.

    Begin with `linspec demo`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


DEMO = "linspec.families.cca.demo:demo"
"""The module and the name of the command `linspec demo`, which solves a problem on data that come with scikit-learn."""

for command in (
    resolve(DEMO),
    solve,
    transform,
    compare,
    cross_validate,
    permute,
    bootstrap,
    solvers,
    describe,
    plugins,
    check,
    new,
):
    main.add_command(command)
