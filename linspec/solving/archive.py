"""Objects in `.npz` files, without pickle: arrays by name, and one JSON text that says how they belong together.

Problem: an answer is to be kept for years, read in another process and by other people. A pickle runs code when it is
read, and breaks when a module moves.
Method: the file is an uncompressed `.npz`. Its entry "linspec" is a JSON text, the header: the version of the format,
what the writer says of the file, and the fields of the object as a tree. A leaf is a number, a text, or the name of an
array with its dtype and shape. A sparse matrix is its compressed rows. An object of another class is the parts that its
class names, by default the arguments of its constructor. The header has a digest of this tree and of all arrays: a file
that was changed is refused before anything is made of it. A reader makes objects of those classes alone that the caller
allows, looks them up among the classes that are imported already, and never imports what a file names.
Source: NumPy's format of arrays (NEP 1).
Where we differ: a compressed file, which may expand to any size, is refused.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import BrokenPlugin, CannotSave, InvalidFile, MissingPackage, printable, shown
from linspec.process.files import looked_at, named_file

FORMAT = 1
"""Version of the format that `write` writes; readers accept this and all older versions."""

HEADER = "linspec"
"""Name of the entry that holds the header."""

Types = Sequence[type]


# ---- writing ----------------------------------------------------------------------------------


class _Packer:
    """The packing of one object."""

    def __init__(self, allowed: tuple[type, ...]) -> None:
        self.allowed = allowed
        self.arrays: dict[str, HostArray] = {}

    def node(self, value: Any, name: str) -> Any:
        """Return the node of a value; `name`, its place in the object, becomes the name of its array."""
        if value is None or isinstance(value, bool | int | float | str | np.generic):
            return _leaf(value.item() if isinstance(value, np.generic) else value)
        if is_array(value):
            return self._array(value, name)
        if scipy.sparse.issparse(value):
            return self._sparse(value, name)
        if isinstance(value, list | tuple):
            nodes = [self.node(inner, f"{name}.{i}") for i, inner in enumerate(value)]
            return {"tuple": nodes} if isinstance(value, tuple) else nodes
        if isinstance(value, Mapping):
            pairs = [
                (self.node(key, name), self.node(inner, f"{name}.{key}")) for key, inner in value.items()
            ]
            return {"mapping": [list(pair) for pair in pairs]}
        return self._object(value, name)

    def _array(self, value: Any, name: str) -> dict[str, Any]:
        host = to_host(value)
        if host.ndim == 2 and not (host.flags.c_contiguous or host.flags.f_contiguous):
            host = host.copy(order="K")  # a file keeps the order of contiguous arrays alone
        if host.dtype.hasobject:
            texts = [self.node(inner, name) for inner in host.reshape(-1).tolist()]
            return {"values": texts, "shape": list(host.shape)}
        while name in self.arrays or name == HEADER:
            name += "_"
        self.arrays[name] = host
        return {"array": name}

    def _sparse(self, value: Any, name: str) -> dict[str, Any]:
        rows = scipy.sparse.csr_array(value)
        parts = {part: self._array(getattr(rows, part), f"{name}.{part}") for part in _COMPRESSED}
        return {"sparse": list(rows.shape), **parts}

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, self.allowed):
            raise CannotSave(
                f"{name} cannot be saved; it is {shown(value)}. Objects can be saved if `saved_types` of the solution "
                "names their class; in place of a function take a class of your own, with numbers as its fields."
            )
        parts = _parts_of(value, name)
        nodes = {part: self.node(inner, f"{name}.{part}") for part, inner in parts.items()}
        return {"object": identity(type(value)), "parts": nodes}


_COMPRESSED = ("data", "indices", "indptr")


def _leaf(value: Any) -> Any:
    """Return a number or text as JSON holds it."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else {"number": repr(float(value))}


def _parts_of(value: Any, name: str) -> Mapping[str, Any]:
    """Return the parts of an object: `saved_parts()`, or else the arguments of its constructor."""
    if hasattr(value, "saved_parts"):
        return value.saved_parts()
    try:
        return {part: getattr(value, part) for part in inspect.signature(type(value)).parameters}
    except (AttributeError, ValueError, TypeError) as error:
        raise CannotSave(
            f"{name} cannot be saved: {type(value).__name__} has no attribute for each argument of its constructor "
            f"({error}). Give the class the methods saved_parts and from_saved_parts."
        ) from error


def identity(cls: type) -> str:
    """Return the name of a class in files: its package and its name, which stay when a module moves within the
    package.
    """
    return f"{cls.__module__.partition('.')[0]}:{cls.__qualname__}"


def _digest(nodes: Mapping[str, Any], arrays: Mapping[str, HostArray]) -> str:
    """A checksum of a tree and its arrays."""
    checksum = hashlib.sha256(json.dumps(nodes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        checksum.update(f"{name} {array.dtype.str} {array.shape}".encode())
        checksum.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()


def write(
    stream: IO[bytes],
    header: Mapping[str, Any],
    parts: Mapping[str, Any],
    allowed: Types = (),
    auxiliary: Mapping[str, HostArray] = MappingProxyType({}),
) -> None:
    """Write the fields of an object into a file.

    Parameters
    ----------
    stream : binary file
    header : mapping
        What the writer says of the file: values that JSON can hold.
    parts : mapping of str to object
        Numbers, texts, None, arrays of any library, SciPy sparse matrices, tuples, lists and mappings of these, and
        objects of the allowed classes. A field that is an array keeps the name of the field in the file.
    allowed : sequence of type, default ()
        Objects of these classes, and of those that derive from them, may be among the parts.
    auxiliary : mapping of str to numpy.ndarray, optional
        Further arrays, for other readers.

    Raises
    ------
    CannotSave
        A part is something else; the message names it.
    """
    packer = _Packer(tuple(allowed))
    top = sorted(
        parts, key=lambda name: not is_array(parts[name])
    )  # so that an array has the name of its field
    nodes = {name: packer.node(parts[name], name) for name in top}
    fields = {name: nodes[name] for name in parts}
    seal = {"arrays": list(packer.arrays), "digest": _digest(fields, packer.arrays)}
    text = json.dumps({"format": FORMAT, **header, "fields": fields, **seal}, allow_nan=False)
    entries = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **auxiliary, **packer.arrays}
    np.savez(stream, **entries)  # type: ignore[arg-type]  # uncompressed


# ---- reading ----------------------------------------------------------------------------------


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Open a file that `write` made, in this version of the format or an older one.

    Parameters
    ----------
    path : path

    Raises
    ------
    InvalidFile
        It is no such file, it is damaged, of a newer format, or does not fit into memory. Errors that the block
        raises, because the contents are not as expected, become this error, too.
    InvalidOption, InvalidProblem
        The path is not valid for a file; there is none, or none that can be read.
    """
    file = named_file(path)
    looked_at(file)
    with explained(path), np.load(file, allow_pickle=False) as entries:
        yield Archive(entries)


@contextmanager
def explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of what a file holds into one that names the file.

    Parameters
    ----------
    path : path

    Raises
    ------
    InvalidFile
    """
    try:
        yield
    except (MissingPackage, BrokenPlugin):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        reason = " ".join(printable(str(error)).split()).rstrip(".")[:300] or type(error).__name__
        raise InvalidFile(
            f"{printable(str(path))} cannot be read as a saved answer: {reason}. It may be damaged, of a newer "
            "linspec, or written by something else."
        ) from error


class Archive:
    """A file that is being read.

    Attributes
    ----------
    header : dict
        The header that was passed to `write`.
    """

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        if HEADER not in entries:
            raise InvalidFile(f"it has no entry {HEADER!r}, as files of solution.save have")
        if any(entry.compress_type for entry in entries.zip.infolist()):  # which may expand to any size
            raise InvalidFile("it is compressed, as no saved answer is")
        self.header: dict[str, Any] = json.loads(entries[HEADER].tobytes())
        if self.header["format"] > FORMAT:
            raise InvalidFile(f"it has format {self.header['format']}, and this version reads {FORMAT}")

    def fields(self, allowed: Types = ()) -> dict[str, Any]:
        """Return the fields of the object, if they are those that were written.

        Parameters
        ----------
        allowed : sequence of type, default ()
            As for `write`.

        Raises
        ------
        MissingPackage
            An object is of a class that is not imported.
        Exception
            The contents are not as expected. `opened` turns any such error into `InvalidFile`.
        """
        arrays = {name: self._entries[name] for name in self.header["arrays"]}
        nodes = self.header["fields"]
        if self.header["digest"] != _digest(nodes, arrays):
            raise InvalidFile("it has been changed since it was written")
        return {name: _value(node, arrays, allowed) for name, node in nodes.items()}


def _value(node: Any, arrays: Mapping[str, HostArray], allowed: Types) -> Any:
    """The value of a node."""
    if not isinstance(node, dict):
        return [_value(inner, arrays, allowed) for inner in node] if isinstance(node, list) else node
    if "array" in node:
        return arrays[node["array"]]
    if "sparse" in node:
        parts = tuple(arrays[node[part]["array"]] for part in _COMPRESSED)
        matrix = scipy.sparse.csr_array(parts, shape=tuple(node["sparse"]))
        matrix.check_format(full_check=True)
        return matrix
    if "object" in node:
        cls = class_named(node["object"], allowed)
        fields = {name: _value(inner, arrays, allowed) for name, inner in node["parts"].items()}
        return cls.from_saved_parts(fields) if hasattr(cls, "from_saved_parts") else cls(**fields)
    if "number" in node:  # that JSON lacks
        return float(node["number"])
    if "values" in node:
        values = np.empty(len(node["values"]), dtype=object)
        values[:] = [_value(inner, arrays, allowed) for inner in node["values"]]
        return values.reshape(node["shape"])
    if "tuple" in node:
        return tuple(_value(inner, arrays, allowed) for inner in node["tuple"])
    pairs = [[_value(part, arrays, allowed) for part in pair] for pair in node["mapping"]]
    return dict(pairs)


def class_named(name: Any, allowed: Types) -> Any:
    """Return the class with this identity, if it is allowed and imported."""
    match = next((cls for cls in with_derived(allowed) if identity(cls) == name), None)
    if match is None:
        raise MissingPackage(
            f"the file holds an object of the class {shown(name)}, which is not known here. Install or enable its "
            f"plugin, or import the module of {shown(str(name).partition(':')[0])} that defines it, and load the file "
            "again: linspec imports nothing that a file names."
        )
    return match


def with_derived(classes: Types) -> Iterator[type]:
    """Yield each class and all classes that derive from it, derived classes before their base class.

    Of two classes that derive directly from one class, the class that was defined later comes first.
    """
    for cls in classes:
        yield from with_derived(cls.__subclasses__()[::-1])
        yield cls
