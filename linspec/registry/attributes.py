"""Attributes of the package `linspec` that are not in its table: classes of registered problems, and suggestions.

Problem: a problem of a plugin is used like one of linspec's own, ``linspec.KernelCCA(...)``, but no table can list it.
And a user of another library begins with the names of that library.
Method: the records of problems hold the names of their classes, so the class is found without importing the others.
The error for any other name suggests similar names, and linspec's counterpart of a name of scikit-learn, SciPy or R.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from linspec.errors import suggestion
from linspec.registry.names import Entry
from linspec.registry.queries import default_registry
from linspec.registry.spec import ProblemSpec

__all__ = ["class_of_problem", "names_of_classes"]

_PCA = "linspec.SVD(A, k, center=True), or linspec.estimators.PCA"
_RIDGE = "linspec.LeastSquares(A, B, ridge=...), or linspec.estimators.Ridge"
_LDA = "linspec.Discriminant(A, linspec.targets.lda(labels)), or linspec.estimators.Discriminant"

ELSEWHERE = {
    "GridSearchCV": "linspec.cross_validate(problem)",
    "KCCA": "linspec.KernelCCA(X, Y, k)",
    "LDA": _LDA,
    "LinearDiscriminantAnalysis": _LDA,
    "LinearRegression": _RIDGE,
    "OPLS": "linspec.Discriminant(A, linspec.targets.opls(Y))",
    "PCA": _PCA,
    "Ridge": _RIDGE,
    "RidgeCV": "linspec.cross_validate(linspec.LeastSquares(A, B), ridges), or linspec.estimators.RidgeCV",
    "TruncatedSVD": "linspec.SVD(A, k)",
    "cancor": "linspec.CCA(X, Y, k)",
    "cross_val_score": "linspec.cross_validate(problem)",
    "fit": "linspec.solve(problem)",
    "load": "linspec.load_solution(path)",
    "lsqr": 'linspec.solve(linspec.LeastSquares(A, B), "lsqr")',
    "lstsq": "linspec.LeastSquares(A, B)",
    "pca": _PCA,
    "prcomp": _PCA,
    "svds": "linspec.SVD(A, k)",
}
"""Names of other libraries, and the counterparts of linspec."""


def names_of_classes() -> list[str]:
    """The names of the classes of all registered problems, such as ``"KernelCCA"``."""
    return sorted(_entries())


def class_of_problem(name: str, public: Collection[str]) -> type[Any]:
    """Return the class of this name of a registered problem.

    Parameters
    ----------
    name : str
        The name of an attribute that `linspec` itself does not have.
    public : collection of str
        The public names of `linspec`, for suggestions.

    Raises
    ------
    AttributeError
        There is no such problem, or problems of several distributions have classes of this name.
    """
    # pluggy asks every object in a table for attributes, while the tables are read: none of them is a class.
    found = _entries() if name[0].isupper() else {}
    entries = found.get(name, [])
    if len(entries) == 1:
        return default_registry().implementation(entries[0])
    if entries:
        names = " or ".join(f"linspec.get_problem({entry.listed!r})" for entry in entries)
        raise AttributeError(f"several problems have a class {name}. Name one of them: {names}.")
    if name in ELSEWHERE:
        hint = f". Use {ELSEWHERE[name]}."
    else:
        lower = {each.casefold(): each for each in (*public, *found)}
        near = suggestion(lower.get(name.casefold(), name), [*public, *found])
        hint = f".{near}" if near else ""
    raise AttributeError(f"module 'linspec' has no attribute {name!r}{hint}")


def _entries() -> dict[str, list[Entry]]:
    """Return the records of problems by the names of their classes."""
    found: dict[str, list[Entry]] = {}
    for entry in default_registry().index().entries:
        if isinstance(entry.spec, ProblemSpec):
            found.setdefault(entry.spec.target.rpartition(":")[2], []).append(entry)
    return found
