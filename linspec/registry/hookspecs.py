"""The hooks that a plugin may implement.

Problem: installed packages must be able to add methods that linspec does not know.
Method: pluggy hooks. A package has an entry point in the group ``linspec`` that names a module, by convention
``plugin.py``, with functions such as::

    from linspec import SolverSpec, hookimpl

    @hookimpl
    def linspec_solvers():
        return [
            SolverSpec(
                name="gram", problem="cca", target="my_package.gram:Gram", summary="...", reference="..."
            )
        ]

Source: pluggy; the hooks have the form of those of conda: plural nouns that take no arguments and return records.
Where we differ: the module is a table of contents. It must not import an array library, because every listing of
names imports it. The implementation is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from linspec.registry.spec import NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, TestMatrixSpec

__all__ = ["PROJECT", "hookimpl", "hookspec"]

#: pluggy's project name and the group of the entry points.
PROJECT = "linspec"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def linspec_solvers() -> Iterable[SolverSpec]:  # type: ignore[empty-body]
    """Declare solvers.

    Returns
    -------
    iterable of SolverSpec
    """


@hookspec
def linspec_normalizers() -> Iterable[NormalizerSpec]:  # type: ignore[empty-body]
    """Declare normalizers.

    Returns
    -------
    iterable of NormalizerSpec
    """


@hookspec
def linspec_test_matrices() -> Iterable[TestMatrixSpec]:  # type: ignore[empty-body]
    """Declare test matrices.

    Returns
    -------
    iterable of TestMatrixSpec
    """


@hookspec
def linspec_operators() -> Iterable[OperatorSpec]:  # type: ignore[empty-body]
    """Declare adapters for data types that linspec does not know.

    Returns
    -------
    iterable of OperatorSpec
    """


@hookspec
def linspec_problems() -> Iterable[ProblemSpec]:  # type: ignore[empty-body]
    """Declare families of problems.

    Returns
    -------
    iterable of ProblemSpec
    """
