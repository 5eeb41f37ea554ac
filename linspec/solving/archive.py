"""Objects in `.npz` files, without pickle: arrays by name, and one JSON text that says how they belong together.

Problem: an answer is to be kept for years, read in another process and by other people. A pickle runs code when it is
read, and breaks when a module moves.
Method: the file is an uncompressed `.npz`. Its entry "linspec" is a JSON text, the header: the version of the format,
what the writer says of the file, and the fields of the object as a tree. A leaf is a number, a text, or the name of an
array with its dtype and shape. A sparse matrix is its compressed rows. An object of another class is the parts that its
class names, by default the arguments of its constructor. The header has a digest of this tree and of all arrays: a file
that was changed is refused before anything is made of it. A reader makes objects of those classes alone that the caller
allows, looks them up among the classes that are imported already, and never imports what a file names. Before an array
is read, its header, the bytes in the file and the memory that is free are compared.
Source: NumPy's format of arrays (NEP 1).
Where we differ: ``numpy.load`` trusts the shapes in a file, and a compressed file may expand to any size.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from linspec.arrays import DType, HostArray, is_array, to_host
from linspec.errors import BrokenPlugin, CannotSave, InvalidFile, MissingPackage, printable, shown
from linspec.process.machine import available_memory
from linspec.process.whole_files import named_file

__all__ = [
    "FORMAT",
    "HEADER",
    "Archive",
    "explained",
    "identity",
    "opened",
    "with_derived",
    "write",
]

FORMAT = 1
"""Version of the format that `write` writes; readers accept this and all older versions."""

HEADER = "linspec"
"""Name of the entry that holds the header."""

EXPANSION = 30
"""Bytes of memory that a byte of JSON may take as Python objects."""

Types = Sequence[type]


# ---- writing ----------------------------------------------------------------------------------


class _Packer:
    """The packing of one object; an array that occurs twice is kept once."""

    def __init__(self, allowed: tuple[type, ...]) -> None:
        self.allowed = allowed
        self.arrays: dict[str, HostArray] = {}
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}

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
        if id(value) in self._known:
            return self._known[id(value)][1]
        host = to_host(value)
        if host.ndim == 2 and not (host.flags.c_contiguous or host.flags.f_contiguous):
            host = host.copy(order="K")  # a file keeps the order of contiguous arrays alone
        if host.dtype.hasobject:
            texts = [self.node(inner, name) for inner in host.reshape(-1).tolist()]
            return {"values": texts, "shape": list(host.shape)}
        name = self._free(name)
        self.arrays[name] = host
        node = {"array": name}
        self._known[id(value)] = value, node  # the value is kept, or its number would be another's
        return node

    def _free(self, name: str) -> str:
        """Return an entry name that no other array has."""
        name = name.encode("ascii", "backslashreplace").decode()
        while name in self.arrays or name == HEADER:
            name += "_"
        return name

    def _sparse(self, value: Any, name: str) -> dict[str, Any]:
        rows = scipy.sparse.csr_array(value)
        parts = {part: self._array(getattr(rows, part), f"{name}.{part}") for part in _COMPRESSED}
        return {"sparse": list(rows.shape), **parts}

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, self.allowed):
            remedy = f"Objects of {type(value).__name__} can be saved if `saved_types` of the solution names the class."
            if callable(value):
                remedy = (
                    "A function has no form in a file: take a class of your own, with numbers as its fields."
                )
            raise CannotSave(f"{name} cannot be saved; it is {shown(value)}. {remedy}")
        parts = _parts_of(value, name)
        nodes = {part: self.node(inner, f"{name}.{part}") for part, inner in parts.items()}
        return {"object": identity(type(value)), "parts": nodes}


_COMPRESSED = ("data", "indices", "indptr")


def _leaf(value: Any) -> Any:
    """Return a number or text as JSON holds it; instances of subclasses become plain ones."""
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": repr(float(value))}
    return None if value is None else float(value)


def _parts_of(value: Any, name: str) -> Mapping[str, Any]:
    """Return the parts of an object: `saved_parts()`, or else the arguments of its constructor."""
    if hasattr(value, "saved_parts"):
        parts: Mapping[str, Any] = value.saved_parts()
        return parts
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
    found = hashlib.sha256(json.dumps(nodes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def write(
    stream: IO[bytes],
    header: Mapping[str, Any],
    parts: Mapping[str, Any],
    allowed: Types = (),
    beside: Mapping[str, HostArray] = MappingProxyType({}),
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
    beside : mapping of str to numpy.ndarray, optional
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
    entries = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **beside, **packer.arrays}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
        for name, array in entries.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)


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
    InvalidOption
        The path is not valid for a file.
    FileNotFoundError, PermissionError
        As `open` raises them.
    """
    file = named_file(path)
    regular = stat.S_ISREG(file.stat().st_mode)  # checked first: opening a pipe waits for its writer
    with file.open("rb") if regular else nullcontext() as stream, explained(path):
        if stream is None:
            raise InvalidFile("it is no regular file")
        with zipfile.ZipFile(stream) as entries:
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
    except (MissingPackage, BrokenPlugin, MemoryError):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        reason = " ".join(printable(str(error)).split()).rstrip(".")[:300] or type(error).__name__
        remedy = (
            "" if isinstance(error, _Newer) else " It may be damaged, or have been written by something else."
        )
        raise InvalidFile(
            f"{printable(str(path))} cannot be read as a saved answer: {reason}.{remedy}"
        ) from error


class _Newer(InvalidFile):
    """The file is sound, but this version of linspec is too old for it."""


class Archive:
    """A file that is being read.

    Attributes
    ----------
    header : dict
        The header that was passed to `write`.
    """

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
        if HEADER not in self._entries:
            raise InvalidFile(
                f"it has no entry {HEADER!r}, as files of solution.save and `linspec solve --out` have"
            )
        self._check_memory(EXPANSION * self._entries[HEADER].file_size)
        self.header: dict[str, Any] = json.loads(self._read(HEADER).tobytes())
        if self.header["format"] > FORMAT:
            raise _Newer(
                f"it has format {self.header['format']}, which linspec {shown(self.header.get('linspec'))} wrote, and "
                f"this version reads formats up to {FORMAT}. Update linspec"
            )

    @staticmethod
    def _check_memory(needed: int) -> None:
        available = available_memory()
        if needed > available:
            raise InvalidFile(f"it takes {needed:,} bytes of memory, and {available:,} are available")

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
        self._check_memory(sum(entry.file_size for entry in self._entries.values()))
        arrays = {name: self._read(name) for name in self.header["arrays"]}
        nodes = self.header["fields"]
        if self.header["digest"] != _digest(nodes, arrays):
            raise InvalidFile("it has been changed since it was written")
        return {name: _value(node, arrays, allowed) for name, node in nodes.items()}

    def _read(self, name: str) -> HostArray:
        """Read an array, whose header must not declare more than there is."""
        entry = self._entries.get(name)
        if entry is None:
            raise InvalidFile(f"the array {shown(name)} is missing")
        with self._file.open(entry) as member:
            shape, dtype = _header_of(member)
            held = entry.file_size - member.tell()
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != held or min(shape, default=0) < 0:
            raise InvalidFile(
                f"the array {shown(name)} of shape {shape} and dtype {dtype} does not have the {held:,} bytes there"
            )
        with self._file.open(entry) as member:
            array = npy.read_array(member, allow_pickle=False)
            member.read(1)  # zipfile checks the checksum at the end of the member
        return array


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
        cls = _class_named(node["object"], allowed)
        made = {name: _value(inner, arrays, allowed) for name, inner in node["parts"].items()}
        return cls.from_saved_parts(made) if hasattr(cls, "from_saved_parts") else cls(**made)
    if "number" in node:  # that JSON lacks
        return float(node["number"])
    if "values" in node:
        found = np.empty(len(node["values"]), dtype=object)
        found[:] = [_value(inner, arrays, allowed) for inner in node["values"]]
        return found.reshape(node["shape"])
    if "tuple" in node:
        return tuple(_value(inner, arrays, allowed) for inner in node["tuple"])
    pairs = [[_value(part, arrays, allowed) for part in pair] for pair in node["mapping"]]
    return dict(pairs)


def _header_of(member: IO[bytes]) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype that the header of an array declares."""
    version = npy.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise InvalidFile(f"an array in it has the version {version} of NumPy's format")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    return shape, dtype


def _class_named(name: Any, allowed: Types) -> Any:
    """Return the class with this identity, if it is allowed and imported."""
    found = next((cls for cls in with_derived(allowed) if identity(cls) == name), None)
    if found is None:
        package = shown(str(name).partition(":")[0])
        raise MissingPackage(
            f"the file holds an object of the class {shown(name)}, which is not imported here, or is nothing that "
            f"such an answer consists of. Import the module of {package} that defines it, and load the file again: "
            "linspec imports nothing that a file names."
        )
    return found


def with_derived(classes: Types) -> Iterator[type]:
    """Yield each class and all classes that derive from it, derived classes before their base class.

    Of two classes that derive directly from one class, the class that was defined later comes first.
    """
    for cls in classes:
        yield from with_derived(cls.__subclasses__()[::-1])
        yield cls
