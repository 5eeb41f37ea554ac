"""What lines of a shell do, as a record of one commit: exit codes, output ("text"), and the files that they write."""

from __future__ import annotations

import json
import os
import shlex
import shutil
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

from record import wanted
from record.texts import cases, described, put_files

VARYING = {"linspec", "seconds", "cpu_seconds", "residual", "residuals", "history", "flops"}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All lines that have the text that --only names, two at a time; nothing is left in the folder."""
    lines = [line for line in cases("commands.txt", "lines") if wanted(line)]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as two:
        inputs = Path(name) / "inputs"
        put_inputs(inputs)
        runs = [two.submit(outcome, line, inputs, Path(name) / f"run-{i}") for i, line in enumerate(lines)]
        yield from ((f"linspec {line}", each.result()) for line, each in zip(lines, runs, strict=True))


def outcome(line: str, inputs: Path, place: Path) -> dict[str, Any]:
    """What the commands of a line print, their exit codes, and the files that all of them have written."""
    shutil.copytree(inputs, place)
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    entry: dict[str, Any] = {}
    for number, command in enumerate(line.split("&&")):
        words = [word for word in shlex.split(command) if word != "--"]
        settings = dict(word.split("=", 1) for word in words[:1] if word[:1].isupper())
        environment = {**os.environ, "COLUMNS": "160", "TERM": "dumb", **settings}
        command_line = [sys.executable, "-m", "linspec", *words[len(settings) :]]
        done = subprocess.run(
            command_line, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        entry[f"{number + 1}"] = {"exit": done.returncode, "text": done.stdout + done.stderr}
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    new = [path for path in files if path.stat().st_mtime_ns != before.get(path)]
    entry["files"] = {str(path.relative_to(place)): contents(path) for path in new}
    shutil.rmtree(place)
    return entry


def contents(path: Path) -> Any:
    """What a file holds, without what differs from run to run."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: described(archive[name]) for name in archive.files if name not in VARYING}
    if path.suffix == ".csv":
        table = pd.read_csv(path)
        numbers = table.drop(columns=[*VARYING & {*table}]).select_dtypes("number").sum().to_numpy()
        return {"columns": list(table), "rows": len(table), "numbers": described(numbers)}
    if path.suffix == ".json":
        return keys(json.loads(path.read_text()))
    return described(np.load(path)) if path.suffix == ".npy" else "some bytes"


def keys(of: Any) -> Any:
    """The names in a document, and the kinds of its values."""
    if isinstance(of, dict):
        return {name: keys(value) for name, value in of.items()}
    return [keys(of[0]), len(of)] if isinstance(of, list) and of else type(of).__name__


def put_inputs(folder: Path) -> None:
    """Write the same rows in every format, and files that are wrong."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), np.arange(60) % 3
    Y = X[:, :3] + rng.standard_normal((60, 3))
    X[:, 0] += y
    put_files(folder, X)
    nan, holes = X.copy(), X.copy()
    nan[7, 2], holes[[3, 9], 1] = np.nan, np.nan
    arrays = {
        "X": X, "Y": Y, "Z": rng.standard_normal((60, 2)), "w": rng.uniform(0.5, 3.0, 60), "H": np.eye(3)[y],
        "T": rng.standard_normal((400, 40)) @ np.diag(0.97 ** np.arange(40)),
        "nan": nan, "short": Y[:50], "day1": X[:30], "day2": X[30:],
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    frame = pd.DataFrame(X, columns=list("abcde"))
    kinds, ids = np.array(["low", "mid", "top"])[y], [f"p{i}" for i in range(60)]
    named = frame[list("abcd")].assign(kind=kinds, id=ids)
    frames = {
        "named": named, "other": named[::-1], "y": pd.DataFrame({"y": y}), "X": frame,
        "holes": pd.DataFrame(holes, columns=list("abcde")), "unit": frame.assign(a=1e4 * frame["a"]),
    }  # fmt: skip
    for name, table in frames.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    frame.to_csv(folder / "X.tsv", sep="\t", index=False)
    frame.to_parquet(folder / "X.parquet")
    np.savetxt(folder / "X.txt", X)
    few = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    sp.save_npz(folder / "sparse.npz", few)
    np.savez(folder / "many.npz", X=X, Y=Y)
    scipy.io.mmwrite(folder / "X.mtx", few)
    rows = (" ".join(f"{j + 1}:{x}" for j, x in enumerate(row)) for row in X)
    (folder / "X.svm").write_text("".join(f"{c} {row}\n" for c, row in zip(y, rows, strict=True)))
