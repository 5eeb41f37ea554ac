"""Writes the names and signatures of an installed CuPy into ``api-VERSION.json``, beside this file.

CuPy can be imported where there is no GPU and no driver, so its surface can be read anywhere::

    python -m venv wheels && wheels/bin/pip install 'cupy-cuda12x==13.4.0' scipy
    wheels/bin/python tests/doubles/cupy_double/dump.py

Only names and signatures are kept, no code and no documentation. A signature is written as Python would write the
parameters, each default as ``...``; it is null where neither Python nor the docstring of a compiled function tells it.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any


def signature_of(thing: Any) -> str | None:
    """Return the parameters of a function, or None if they are unknown."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return _of_docstring(thing)
    blank = [
        each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else ...)
        for each in found.parameters.values()
    ]
    text = str(inspect.Signature(blank))[1:-1]
    return text.replace("Ellipsis", "...")


def _of_docstring(thing: Any) -> str | None:
    """Compiled functions open their docstring with ``name(parameters) -> result``."""
    line = (getattr(thing, "__doc__", None) or "").partition("\n")[0]
    head = line.partition(" -> ")[0].rpartition(".")[2] if "(" in line else ""
    try:
        parsed = ast.parse(f"def {head}: pass").body[0]
    except SyntaxError:
        return None
    assert isinstance(parsed, ast.FunctionDef)
    for each in ast.walk(parsed.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    dots = ast.Constant(...)
    parsed.args.defaults = [dots for _ in parsed.args.defaults]
    parsed.args.kw_defaults = [each and dots for each in parsed.args.kw_defaults]
    text = ast.unparse(parsed.args)
    return text.removeprefix("self, ") if text != "self" else ""


def kind_of(thing: Any) -> str:
    """Return the kind of object that a name stands for, in one word."""
    if inspect.ismodule(thing):
        return "module"
    if isinstance(thing, type):
        return "class"
    if type(thing).__name__ in {"ufunc", "_GUFunc"}:
        return "ufunc"
    return "function" if callable(thing) else "constant"


def names_of(home: Any) -> dict[str, list[str | None]]:
    """The public names of a module: each with what it is, and with the signature of a function."""
    found = {}
    for name in sorted(vars(home)):
        thing = getattr(home, name)
        if not name.startswith("_"):
            told = signature_of(thing) if kind_of(thing) == "function" else None
            found[name] = [kind_of(thing), told]
    return found


def attributes_of(kind: type) -> dict[str, list[str | None]]:
    """The attributes of a class, those of Python's protocols among them, and not what is private."""
    found = {}
    for name in sorted(dir(kind)):
        thing = getattr(kind, name, None)
        if name.startswith("_") and not (name.startswith("__") and name not in dir(object)):
            continue
        is_method = callable(thing) and not isinstance(thing, type)
        told = signature_of(thing) if is_method and not name.startswith("_") else None
        if told is not None and (told == "self" or told.startswith("self, ")):
            told = told.removeprefix("self").removeprefix(", ")
        found[name] = ["method" if is_method else "attribute", told]
    return found


def surface() -> dict[str, Any]:
    """All that the double takes from the real library."""
    import cupy
    import cupyx
    import cupyx.scipy.sparse

    return {
        "version": cupy.__version__,
        "modules": {
            "cupy": names_of(cupy),
            "cupy.linalg": names_of(cupy.linalg),
            "cupy.fft": names_of(cupy.fft),
            "cupyx": names_of(cupyx),
            "cupyx.scipy.sparse": names_of(cupyx.scipy.sparse),
        },
        "classes": {
            "cupy.ndarray": attributes_of(cupy.ndarray),
            "cupy.cuda.Device": attributes_of(cupy.cuda.Device),
            "cupy.cuda.Stream": attributes_of(cupy.cuda.Stream),
            "cupyx.scipy.sparse.csr_matrix": attributes_of(cupyx.scipy.sparse.csr_matrix),
            "cupyx.scipy.sparse.csc_matrix": attributes_of(cupyx.scipy.sparse.csc_matrix),
        },
    }


if __name__ == "__main__":
    told = surface()
    place = Path(__file__).with_name(f"api-{told['version']}.json")
    place.write_text(json.dumps(told, indent=0, sort_keys=True) + "\n", "utf-8")
