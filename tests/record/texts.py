"""What linspec says: errors, warnings, answers and tables, as a record of one commit.

Every case is one expression in public names. The classes of answers, errors and warnings are compared; their words,
which may change, are recorded as "text".
"""

from __future__ import annotations

import builtins
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import linspec as ls
from record import wanted

# ---- the names that cases use --------------------------------------------------------------------


class Unit(np.ndarray):
    """An array with a unit, as of astropy."""

    unit = units = "m"


def names(folder: Path) -> dict[str, Any]:
    """What the cases call their data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = X[:, :3] + rng.standard_normal((60, 3))
    y = np.arange(60) % 3
    X[:, 0] += y
    nan, inf, few = X.copy(), X.copy(), np.arange(60) < 2
    nan[7, 2], inf[7, 2] = np.nan, np.inf
    frame = pd.DataFrame(X, columns=list("abcde"), index=[f"r{i}" for i in range(60)])
    tall = rng.standard_normal((400, 40)) @ np.diag(0.97 ** np.arange(40))
    gone = folder / "gone"
    gone.mkdir()
    put_files(folder, X)

    return {
        **vars(sys.modules[__name__]), "folder": folder, "X": X, "Y": Y, "y": y, "nan": nan, "inf": inf,
        "w": rng.uniform(0.5, 3.0, 60), "H": np.eye(3)[y], "frame": frame, "shuffled": frame[::-1],
        "masked": np.ma.masked_greater(X, 2.0), "unit": X.view(Unit), "missing": frame.where(frame < 2.0),
        "frame_of_texts": frame.assign(c="x"), "other_columns": frame.rename(columns={"a": "z"}),
        "part_of_frame": frame.rename(index={"r59": "r99"}), "huge": symbolic(10**7, 10**7),
        "products_alone": aslinearoperator(X), "liar": Liar(X), "far": sp.csr_array((X + 1e4).astype(np.float32)),
        "constant_first": ls.LeastSquares(X, np.where(np.arange(60) < 20, 98.6, X[:, 1]), 1.0), "gone": gone,
        "parts": np.arange(60) // 15, "noiseless": ls.LeastSquares(X, X.sum(axis=1) + 1e-9 * Y[:, 0]), "tall": tall,
        "sites": ls.MultisetCCA([X, Y], 1, ridge=1.0, present=[None, np.arange(60) < 45], confounds=X[:, :1]),
        "rare": ls.MultisetCCA([X, Y], 1, ridge=1.0, present=[None, few], confounds=X[:, :1]),
        "steep": ls.LeastSquares(tall, tall[:, :1] + 1.0),
        "remove_gone": lambda progress: shutil.rmtree(gone, ignore_errors=True),
        "interrupt": lambda progress: progress.iteration == 2 and signal.raise_signal(signal.SIGINT),
        "implicit": {"form": "implicit", "block": 3}, "slow": {"rng": 0, "form": "implicit", "block": 3, "tol": 1e-12},
        "cca": ls.CCA(X, Y, 2), "svd": ls.SVD(X, 2), "lstsq": ls.LeastSquares(X, Y),
        "lda": ls.Discriminant(X, ls.targets.lda(y)),
    }  # fmt: skip


class Liar(LinearOperator):
    """An operator whose products are not those of one matrix."""

    def __init__(self, X: Any) -> None:
        self.X = X
        super().__init__(X.dtype, X.shape)

    def _matmat(self, V: Any) -> Any:
        return self.X @ V

    def _rmatmat(self, U: Any) -> Any:
        return np.roll(self.X.T @ U, 1, axis=0)


def symbolic(n: int, p: int) -> LinearOperator:
    """An operator of any size whose products nobody asks for."""
    return LinearOperator(
        (n, p), matvec=lambda v: np.zeros(n), rmatvec=lambda u: np.zeros(p), dtype=np.float64
    )


def put_files(folder: Path, X: Any) -> None:
    """Write the files that cases read, most of them broken."""
    for name, text in {
        "letter.txt": "Dear reader,\nthis is no table.\n", "ragged.csv": "a,b\n1,2\n3\n4,5,6\n", "empty.npy": "",
        "texts.csv": "a,b\n1,x\n2,y\n", "holes.csv": "a,b\n1,2\n,4\n", "plain.csv": "a,b\n1,2\n3,4\n5,7\n",
        "plain.bin": "1 2", "bad.npz": "PK\3\4 no archive", "bad.svm": "1 1:2 2:3\n1 2:x\n",
        "bad.mtx": "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n3 1 1.0\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    np.save(folder / "cut.npy", X)
    (folder / "cut.npy").write_bytes((folder / "cut.npy").read_bytes()[:-8])
    np.save(folder / "objects.npy", np.array([["a", 1]], dtype=object), allow_pickle=True)


# ---- what is recorded ------------------------------------------------------------------------------


def bad_inputs() -> list[str]:
    """Every problem with bad data, bad parameters and bad counts, and the calls that are wrong in other ways."""
    calls = []
    for stated in cases("texts.txt", "problems with bad data"):
        calls += [stated.format(data, "", 2) for data in cases("texts.txt", "bad data")]
        calls += [stated.format("X", f", {words}", 2) for words in cases("texts.txt", "bad parameters")]
        calls += [stated.format("X", "", k) for k in ("0", "99", "1.5", "True") if "{2}" in stated]
    return [*calls, *cases("texts.txt", "bad calls")]


def outcome(case: str, space: dict[str, Any]) -> dict[str, Any]:
    """The classes of the answer of a case, or of its error, and of its warnings, and what these say."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = eval(case, space)  # one of the lines above
            value = ls.solve(value) if isinstance(value, ls.Problem) else value
            entry = {"returns": public(value), "status": getattr(getattr(value, "status", None), "name", "")}
            said = []
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, that is the record
            entry, said = {"raises": type(error).__name__}, [str(error)]
    unlike = ResourceWarning | PendingDeprecationWarning
    ours = [each for each in caught if not issubclass(each.category, unlike)]
    said += [str(each.message) for each in ours]
    return {**entry, "warns": [each.category.__name__ for each in ours], "text": said}


def public(value: Any) -> str:
    """The first name of the class of a value that users can know."""
    known = {each for module in (ls, ls.kernels, ls.errors, builtins, np, pd) for each in dir(module)}
    return next(each.__name__ for each in type(value).__mro__ if each.__name__ in known)


def cases(file: str, section: str) -> list[str]:
    """The lines of a section of a file in this folder."""
    text = Path(__file__).with_name(file).read_text("utf-8").partition(f"[{section}]\n")[2]
    return text.partition("\n\n")[0].splitlines()


def described(value: Any) -> Any:
    """A value in terms of JSON: of arrays the shape, the type and the norm, which no change of signs changes."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): described(each) for key, each in value.items()}
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        return type(value).__name__
    array = np.asarray(value)
    size = float(np.linalg.norm(array)) if array.dtype.kind in "fiub" else 0.0
    kind = "str" if array.dtype.kind == "U" else array.dtype.name
    return {"shape": list(shape), "dtype": kind, "norm": size}


def answers(space: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What problems and solutions say, and their tables."""
    space["named_y"] = pd.DataFrame(space["Y"], columns=list("uvw"))
    space["data"] = [space["frame"], space["named_y"], space["H"][:, :2]]
    for case in cases("texts.txt", "problems"):
        stated, _, solver = case.partition(" by ")
        try:
            problem = eval(stated, space)
            solution = ls.solve(problem, solver or "auto", rng=0)
        except Exception as error:  # noqa: BLE001 - whatever it is, that is the record
            yield f"answer of {case}", {"raises": type(error).__name__}
            continue
        here = {**space, "problem": problem, "solution": solution}
        entry = {"solver": solution.solver, "status": solution.status.name, "attributes": fields(solution)}
        told = {question: answered(question, here) for question in cases("texts.txt", "questions")}
        yield f"answer of {case}", entry | told


def values(space: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What functions that solve no problem compute."""
    for case in cases("texts.txt", "values"):
        yield f"value of {case}", {"value": answered(case, space)}


def answered(question: str, space: dict[str, Any]) -> Any:
    """An answer in terms of JSON, of a table the names of columns and rows."""
    try:
        answer = eval(question, space)
    except Exception as error:  # noqa: BLE001 - whatever it is, that is the record
        return type(error).__name__
    if isinstance(answer, pd.DataFrame):
        return {"columns": [*map(str, answer.columns)], "rows": [*map(str, answer.index[:8])]}
    return {"text": answer} if isinstance(answer, str) else described(answer)


def fields(of: Any) -> dict[str, Any]:
    """The public attributes of an object that are neither methods nor times."""
    values = {}
    for name in dir(of):
        if not name.startswith("_") and name not in {"seconds", "history", "residual", "residuals", "flops"}:
            with suppress(Exception):
                value = getattr(of, name)
                if not callable(value):
                    values[name] = described(value)
    return values


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All cases whose names have the text that --only names; nothing is left in the folder."""
    with tempfile.TemporaryDirectory() as place:
        space = names(Path(place))
        yield from (each for each in (*answers(space), *values(space)) if wanted(each[0]))
        for case in filter(wanted, [*bad_inputs(), *cases("texts.txt", "warnings")]):
            yield case, outcome(case, space)
