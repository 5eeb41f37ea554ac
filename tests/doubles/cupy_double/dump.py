"""Writes the names and signatures of an installed CuPy into ``api-VERSION.json``, beside this file.

CuPy can be imported where there is no GPU and no driver, so its surface can be read anywhere::

    python -m venv wheels && wheels/bin/pip install 'cupy-cuda12x==13.4.0' scipy
    wheels/bin/python tests/doubles/cupy_double/dump.py

Only names and signatures are kept, no code and no documentation. A signature is written as Python would write the
parameters, each default as ``...``; it is null where neither Python nor the docstring of a compiled function tells it.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any


def signature_of(thing: Any) -> str | None:
    """Return the parameters of a function without `self`, or None if they are unknown."""
    try:
        found = inspect.signature(thing)
    except (
        TypeError,
        ValueError,
    ):  # compiled functions open their docstring with `name(parameters) -> result`
        line = (getattr(thing, "__doc__", None) or "").partition("\n")[0].partition(" -> ")[0]
        told = line.partition("(")[2].rpartition(")")[0] if "(" in line else None
        told = (
            None if told is None else re.sub(r"=[^,)]+", "=...", re.sub(r": ?[\w.]+|\b\w+ (?=\w)", "", told))
        )
    else:
        blank = [
            each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else ...)
            for each in found.parameters.values()
        ]
        told = str(inspect.Signature(blank))[1:-1].replace("Ellipsis", "...")
    return None if told is None else re.sub(r"^self(, )?", "", told)


def kind_of(thing: Any) -> str:
    """Return the kind of object that a name stands for, in one word."""
    if inspect.ismodule(thing) or isinstance(thing, type):
        return "module" if inspect.ismodule(thing) else "class"
    if type(thing).__name__ in {"ufunc", "_GUFunc"}:
        return "ufunc"
    return "function" if callable(thing) else "constant"


def names_of(device: Any) -> dict[str, list[str | None]]:
    """The public names of a module: each with what it is, and with the signature of a function."""
    things = {name: thing for name, thing in sorted(vars(device).items()) if not name.startswith("_")}
    kinds = {name: kind_of(thing) for name, thing in things.items()}
    return {
        name: [kinds[name], signature_of(thing) if kinds[name] == "function" else None]
        for name, thing in things.items()
    }


def attributes_of(kind: type) -> dict[str, list[str | None]]:
    """The public attributes of a class, with the signatures of its methods."""
    things = {name: getattr(kind, name, None) for name in sorted(dir(kind)) if not name.startswith("_")}
    methods = {name: callable(thing) and not isinstance(thing, type) for name, thing in things.items()}
    return {
        name: ["method" if methods[name] else "attribute", signature_of(thing) if methods[name] else None]
        for name, thing in things.items()
    }


def surface() -> dict[str, Any]:
    """All that the double takes from the real library."""
    import cupy
    import cupyx.scipy.sparse

    modules = (cupy, cupy.linalg, cupy.fft, cupyx, cupyx.scipy.sparse)
    sparse = {
        f"cupyx.scipy.sparse.{name}": getattr(cupyx.scipy.sparse, name)
        for name in ("csr_matrix", "csc_matrix")
    }
    classes = {"cupy.ndarray": cupy.ndarray, "cupy.cuda.Device": cupy.cuda.Device, **sparse}
    return {
        "version": cupy.__version__,
        "modules": {module.__name__: names_of(module) for module in modules},
        "classes": {name: attributes_of(kind) for name, kind in classes.items()},
    }


if __name__ == "__main__":
    told = surface()
    place = Path(__file__).with_name(f"api-{told['version']}.json")
    place.write_text(json.dumps(told, indent=0, sort_keys=True) + "\n", "utf-8")
