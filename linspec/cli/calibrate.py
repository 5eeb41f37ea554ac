"""`linspec calibrate`: measure the speeds by which "auto" compares methods, and keep them for this machine."""

from __future__ import annotations

import click

from linspec import rates
from linspec.cli.failures import Command
from linspec.cli.interrupts import raising
from linspec.cli.tables import show_table

__all__ = ["calibrate"]

WHAT = {
    "dense": "products of dense matrices",
    "factor": "QR factors and eigenvectors",
    "cholesky": "Cholesky factors",
    "sparse": "products of sparse matrices with blocks",
    "pairs": "pairs of entries in sparse Gram matrices",
}


@click.command(cls=Command, short_help='Measure the speeds by which "auto" compares methods.')
@click.option("--show", is_flag=True, help="Show the rates in force, and measure nothing.")
@click.option("--remove", is_flag=True, help="Go back to the rates that are shipped.")
def calibrate(show: bool, remove: bool) -> None:
    """Measure the speeds by which "auto" compares methods, on one core, in some seconds; later processes use them.

    They are kept in a file of your cache folder, which is named. Nothing else writes it. LINSPEC_RATES=shipped
    ignores it.
    """
    if show and remove:
        raise click.UsageError("--show and --remove do not go together; choose one.")
    if remove:
        there = rates.remove()
        click.echo(f"Removed {rates.file()}." if there else f"There is no {rates.file()}.")
        return
    if not show:
        with raising():
            from linspec import calibration  # which loads NumPy

            found = calibration.measured()
        path = rates.write(found)
        _show(found)
        click.echo(
            f"\nWritten to {path}. `linspec calibrate --remove` goes back to the rates that are shipped."
        )
        return
    found = rates.in_force()
    _show(found)
    click.echo(f"\nThe rates in force are {found.told}. `linspec calibrate` writes {rates.file()}.")


def _show(found: rates.KernelRates) -> None:
    rows = [
        (what, f"{getattr(found, name):.2g}", f"{getattr(rates.SHIPPED, name):.2g}")
        for name, what in WHAT.items()
    ]
    show_table(("operations per second of a core", found.told, "shipped"), rows)
