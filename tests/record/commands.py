"""What the command line does: exit codes, output and files of command lines, as a record of one commit.

Problem: commands are what most users see, and each problem has its own options.
Method: every case is a line of a shell, and a child process for each command. What it prints is normalised; of the
    files that it writes the names, keys, shapes and norms are recorded.
Source: none; the lines cover every command, problem, option and format, and refusals.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

from record.texts import cases, described, put_files
from record.wording import differences, normalised

__all__ = ["differences", "record"]

VARYING = {"seconds", "residual", "residuals", "history", "flops"}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All lines that have the text that --only names, two at a time; nothing is left in the folder."""
    lines = [line for line in cases("commands.txt", "lines") if os.environ.get("RECORD_ONLY", "") in line]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as two:
        inputs = Path(name) / "inputs"
        put_inputs(inputs)
        places = [Path(name) / f"run-{number}" for number in range(len(lines))]
        made = two.map(lambda line, place: outcome(line, inputs, place), lines, places)
        yield from zip([f"linspec {line}" for line in lines], made, strict=True)


def outcome(line: str, inputs: Path, place: Path) -> dict[str, Any]:
    """What the commands of a line print, their exit codes, and the files that all of them have written."""
    shutil.copytree(inputs, place)
    before = {path.relative_to(place): path.stat().st_mtime_ns for path in place.rglob("*")}
    found: dict[str, Any] = {}
    for number, command in enumerate(line.split("&&")):
        words = [word for word in shlex.split(command) if word != "--"]
        settings = [word.split("=", 1) for word in words[:1] if word[:1].isupper()]
        done = subprocess.run(
            [sys.executable, "-m", "linspec", *words[len(settings) :]],
            cwd=place, env={"COLUMNS": "160", "TERM": "dumb", **os.environ, **dict(settings)}, timeout=300,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = [normalised(text, {str(place): "FOLDER"}) for text in (done.stdout, done.stderr)]
        last = said[1].splitlines()[-1:] if done.returncode else said[1].splitlines()
        found[f"{number + 1}"] = {"exit": done.returncode, "stdout": said[0], "stderr": "\n".join(last)}
    after = {path.relative_to(place): path for path in sorted(place.rglob("*")) if path.is_file()}
    new = {name: path for name, path in after.items() if path.stat().st_mtime_ns != before.get(name)}
    found["files"] = {str(name): contents(path) for name, path in new.items() if name.suffix != ".pyc"}
    shutil.rmtree(place)
    return found


def contents(path: Path) -> Any:
    """What a file holds, without what differs from run to run."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            if "status" in archive.files or "about" in archive.files:
                return {name: described(archive[name]) for name in archive.files if name not in VARYING}
            return "a checkpoint"
    if path.suffix == ".npy":
        return described(np.load(path))
    if path.suffix == ".png":
        return list(struct.unpack(">II", path.read_bytes()[16:24]))
    if path.suffix == ".csv":
        table = pd.read_csv(path)
        steady = table.drop(
            columns=[name for name in table if name in {"seconds", "cpu_seconds", "residual"}]
        )
        numbers = steady.select_dtypes("number").sum().to_numpy()
        return {"columns": list(table), "rows": len(table), "numbers": described(numbers)}
    if path.suffix == ".json":
        return keys(json.loads(path.read_text()))
    return {"size": "some"}


def keys(of: Any) -> Any:
    """The names in a document, and the kinds of its values."""
    if isinstance(of, dict):
        return {name: keys(value) for name, value in of.items()}
    return [keys(of[0]), len(of)] if isinstance(of, list) and of else type(of).__name__


def put_inputs(folder: Path) -> None:
    """Write the same rows in every format, and files that are wrong."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y, y = X[:, :3] + rng.standard_normal((60, 3)), np.arange(60) % 3
    X[:, 0] += y
    put_files(folder, X, Y)
    shutil.rmtree(folder / "chunks.zarr")
    nan, holes = X.copy(), X.copy()
    nan[7, 2], holes[[3, 9], 1] = np.nan, np.nan
    T = rng.standard_normal((400, 40)) @ np.diag(0.97 ** np.arange(40))
    for name, array in {
        "X": X, "Y": Y, "Z": rng.standard_normal((60, 2)), "T": T, "w": rng.uniform(0.5, 3.0, 60), "H": np.eye(3)[y],
        "nan": nan, "short": Y[:50], "day1": X[:30], "day2": X[30:],
    }.items():  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = frame[list("abcd")].assign(
        kind=np.array(["low", "mid", "top"])[y], id=[f"p{i}" for i in range(60)]
    )
    named.to_csv(folder / "named.csv", index=False)
    named[::-1].to_csv(folder / "other.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(folder / "y.csv", index=False)
    pd.DataFrame(holes, columns=list("abcde")).to_csv(folder / "holes.csv", index=False)
    frame.assign(a=1e4 * frame["a"]).to_csv(folder / "unit.csv", index=False)
    frame.to_csv(folder / "X.csv", index=False)
    frame.to_csv(folder / "X.tsv", sep="\t", index=False)
    np.savetxt(folder / "X.txt", X)
    frame.to_parquet(folder / "X.parquet")
    few = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    sp.save_npz(folder / "sparse.npz", few)
    np.savez(folder / "many.npz", X=X, Y=Y)
    scipy.io.mmwrite(folder / "X.mtx", few)
    put_containers(folder, few, X, y)


def put_containers(folder: Path, few: Any, X: Any, y: Any) -> None:
    """Write the rows to svmlight, HDF5, zarr and AnnData."""
    import h5py
    import zarr
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(few, y, str(folder / "X.svm"), zero_based=False)
    with h5py.File(folder / "X.h5", "w") as file:
        file["data"], file["other"] = X, X[:, :2]
    with h5py.File(folder / "X.h5ad", "w") as file:
        file.attrs["encoding-type"], file.attrs["encoding-version"] = "anndata", "0.1.0"
        for place in ("X", "layers/counts"):
            file[place] = X
            file[place].attrs["encoding-type"], file[place].attrs["encoding-version"] = "array", "0.2.0"
        for axis, count in (("obs", 60), ("var", 5)):
            file[f"{axis}/_index"] = [f"{axis}{number}" for number in range(count)]
            file[axis].attrs["_index"] = "_index"
    zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=(20, 5), dtype=X.dtype)[:] = X
