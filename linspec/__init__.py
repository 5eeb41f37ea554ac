"""Linear structure in large data: least squares, truncated SVD, canonical correlations, discriminants.

docs/extend/architecture.md has the layers, what to read first, and three calls with their frames.

Problem: a library with many methods and several array backends is slow to import, and a shell that completes
a name or lists the solvers should not wait for an array library.
Method: a module-level ``__getattr__`` (PEP 562) over one table from public name to module. ``import linspec``
imports nothing else; the first use of a name imports the module that defines it. Type checkers read
``__init__.pyi``.
Source: SPEC 1 (lazy loading) of the scientific Python ecosystem.
Where we differ: there is a table and no loader package. No submodule has the name of a public function,
because importing a submodule binds its name here and would replace the function. The classes of registered problems,
also of plugins, are attributes too: ``linspec.KernelCCA``. `dir` lists the names of users, not those of authors.
"""

from __future__ import annotations

__version__ = "0.1.0"

_OF_USERS = {
    "CCA": "linspec.families.cca.problem",
    "CCASolution": "linspec.families.cca.problem",
    "Checkpoint": "linspec.solving.checkpoints",
    "Comparison": "linspec.studies.comparison",
    "CrossValidation": "linspec.studies.held_out.validation",
    "Discriminant": "linspec.families.discriminant.problem",
    "DiscriminantSolution": "linspec.families.discriminant.problem",
    "HeldMoments": "linspec.solving.held_moments",
    "HeldOutScore": "linspec.studies.held_out.scores",
    "KernelOperator": "linspec.kernels.kernel_matrices",
    "LeastSquares": "linspec.families.least_squares.problem",
    "LeastSquaresSolution": "linspec.families.least_squares.problem",
    "LinearClassifier": "linspec.families.discriminant.problem",
    "LinearOperator": "linspec.operators",
    "Moments": "linspec.solving.shared_moments",
    "PluginInfo": "linspec.registry.queries",
    "Rotation": "linspec.families.rotation",
    "SVD": "linspec.families.svd.problem",
    "SVDSolution": "linspec.families.svd.problem",
    "Selection": "linspec.solving.select",
    "Similarity": "linspec.studies.similarity",
    "Solution": "linspec.solving.solution",
    "StabilitySelection": "linspec.studies.stability",
    "StandardErrors": "linspec.families.least_squares.standard_errors",
    "Status": "linspec.status",
    "as_operator": "linspec.operators",
    "bootstrap": "linspec.families.inference",
    "compare": "linspec.studies.comparison",
    "cross_validate": "linspec.studies.held_out.validation",
    "datasets": "linspec.datasets",
    "describe": "linspec.registry.queries",
    "drop_missing": "linspec.solving.complete_rows",
    "errors": "linspec.errors",
    "estimators": "linspec.estimators",
    "features": "linspec.features",
    "get_problem": "linspec.registry.queries",
    "get_solver": "linspec.registry.queries",
    "kernels": "linspec.kernels",
    "labelled": "linspec.operators.opening",
    "lagged": "linspec.operators.lagged_rows",
    "load_solution": "linspec.solving.solution",
    "metrics": "linspec.metrics",
    "normalizers": "linspec.registry.queries",
    "null_correlations": "linspec.families.cca.significance",
    "open_rows": "linspec.operators",
    "paired": "linspec.operators",
    "permutation_test": "linspec.families.inference",
    "plots": "linspec.plots",
    "plugins": "linspec.registry.queries",
    "problems": "linspec.registry.queries",
    "ridge_path": "linspec.studies.ridge_path",
    "rotate": "linspec.families.rotation",
    "select": "linspec.solving.select",
    "significance": "linspec.families.cca.significance",
    "similarity": "linspec.studies.similarity",
    "solve": "linspec.solving.solve",
    "stability_selection": "linspec.studies.stability",
    "solvers": "linspec.registry.queries",
    "standard_errors": "linspec.families.least_squares.standard_errors",
    "targets": "linspec.targets",
    "test_matrices": "linspec.registry.queries",
}
"""Public name -> module that holds it, or the submodule itself."""

_OF_AUTHORS = {  # of solvers, problems and kinds of data; `dir(linspec)` leaves them out
    "Certificate": "linspec.iteration",
    "Context": "linspec.iteration",
    "Iterate": "linspec.iteration",
    "LinearSolution": "linspec.solving.linear_solution",
    "Needs": "linspec.registry.spec",
    "Normalizer": "linspec.solving.parts",
    "NormalizerSpec": "linspec.registry.spec",
    "OperatorSpec": "linspec.registry.spec",
    "Problem": "linspec.solving.problem",
    "ProblemSpec": "linspec.registry.spec",
    "Solver": "linspec.solving.solver",
    "SolverSpec": "linspec.registry.spec",
    "TestMatrix": "linspec.solving.parts",
    "TestMatrixSpec": "linspec.registry.spec",
    "count": "linspec.solving.fields",
    "field": "linspec.solving.fields",
    "flag": "linspec.solving.fields",
    "form_option": "linspec.registry.options",
    "hookimpl": "linspec.registry.spec",
    "limit_option": "linspec.registry.options",
    "matrix": "linspec.solving.fields",
    "option": "linspec.registry.options",
    "part": "linspec.registry.options",
    "project": "linspec.solving.projection",
    "register": "linspec.registry.queries",
    "ridge": "linspec.solving.fields",
    "setting": "linspec.solving.fields",
    "testing": "linspec.testing",
    "tol_option": "linspec.registry.options",
    "views": "linspec.solving.fields",
}
_PUBLIC = {**_OF_USERS, **_OF_AUTHORS}

__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 (the table holds strings)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _PUBLIC:
        if name.startswith("_"):
            raise AttributeError(f"module 'linspec' has no attribute {name!r}")
        from linspec.registry.queries import class_of_problem

        return class_of_problem(name, __all__)
    module = import_module(_PUBLIC[name])
    value = module if module.__name__ == f"linspec.{name}" else getattr(module, name)
    globals()[name] = value  # the next use finds it without this function
    return value


def __dir__() -> list[str]:
    from linspec.registry.queries import problem_classes

    return sorted({"__version__", *_OF_USERS, *problem_classes()})
