"""The kit on normalizers, test matrices and adapters: each liar fails the check of its promise, and no other."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import linspec as ls
from linspec import Normalizer, TestMatrix, registry
from linspec.arrays import from_host, host_dtype, namespace, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.operators import HeldSketch
from linspec.operators.column_statistics import ColumnStatistics
from linspec.testing import Report, conformance, run_checks

BACKENDS = ["numpy", "numpy-readonly", "array-api-strict", "array-api-strict-no-float64"]
HERE = Path(__file__).name


@pytest.fixture
def fresh_registry(monkeypatch):
    """A registry of its own, so that liars are registered for nobody else, and an error state that they may change."""
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    with np.errstate():
        yield own


def failed(report: Report) -> set[str]:
    """The names of the checks that failed."""
    return {check.partition(":")[0] for check, _ in report.failed}


def part(cls: type) -> str:
    """Register a normalizer or a test matrix."""
    spec = ls.NormalizerSpec if issubclass(cls, Normalizer) else ls.TestMatrixSpec
    record = spec(
        name="liar",
        target=f"{__name__}:{cls.__name__}",
        summary="A part that is here to be caught.",
        reference="Golub 1965, SIAM J. Numer. Anal. 2(2)",
    )
    ls.register(record)
    return record.qualified


# ---- normalizers ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HonestNormalizer(Normalizer):
    """The singular value decomposition of a block in the metric (Golub 1965)."""

    def orthonormalize(self, V: Any, MV: Any = None) -> tuple[Any, Any]:
        self.look("V", V)
        host = np.asarray(to_host(V), dtype=np.float64)
        eps = float(np.finfo(host_dtype(V)).eps)
        if MV is None:
            _, s, Wt = np.linalg.svd(self.rounded(host), full_matrices=False)
            cut = 0.3 * np.sqrt(host.shape[1]) * eps
        else:
            self.look("MV", MV)
            if MV.shape != V.shape:
                raise InvalidProblem("MV must have the shape of V")
            namespace(V, MV)
            G = host.T @ np.asarray(to_host(MV), dtype=np.float64)
            values, W = np.linalg.eigh((G + G.T) / 2)
            s, Wt = np.sqrt(np.maximum(values[::-1], 0.0)), W[:, ::-1].T
            cut = np.sqrt(10 * eps)
        keep = s > self.cut * cut * max(s.max(initial=0.0), np.finfo(float).tiny)
        T = Wt[keep].T / s[keep]
        Q = host @ T
        if MV is None:  # once more: the rounding of a block that is nearly dependent
            R = np.linalg.qr(Q)[1]
            T = scipy.linalg.solve_triangular(R.T, T.T, lower=True).T if R.size else T
            Q = host @ T
        return self.twist(V, Q.astype(host_dtype(V)), T)

    cut = 1.0

    def look(self, name: str, V: Any) -> None:
        if V.ndim != 2:
            raise InvalidProblem(f"{name} must have two dimensions")
        if host_dtype(V) not in (np.float32, np.float64):
            raise UnsupportedData(f"{name} must be float32 or float64")
        if not np.isfinite(to_host(V)).all():
            raise NonFiniteData(f"{name} must be finite")

    # For liars.

    def rounded(self, host: np.ndarray) -> np.ndarray:
        return host

    def twist(self, V: Any, Q: np.ndarray, T: np.ndarray) -> tuple[Any, np.ndarray]:
        return from_host(Q, like=V), T


class OverwritesV(HonestNormalizer):
    def twist(self, V, Q, T):
        answer = super().twist(V, Q, T)
        V[:, : Q.shape[1]] = answer[0]
        return answer


class WrongT(HonestNormalizer):
    """T of the block in reverse order."""

    def twist(self, V, Q, T):
        Q, T = super().twist(V, Q, T)
        return Q, T[::-1].copy() if T.shape[1] > 1 else -T


class NearlyRightT(HonestNormalizer):
    def twist(self, V, Q, T):
        Q, T = super().twist(V, Q, T)
        return Q, T * (1 + 1e-3)


class NotOrthonormal(HonestNormalizer):
    """Leaves columns as nearly orthogonal as a Gram-Schmidt step in lower precision does, with Q = VT all the same."""

    def twist(self, V, Q, T):
        bend = np.eye(T.shape[1])
        bend[:1, -1:] += 1e-2
        return super().twist(V, (Q.astype(np.float64) @ bend).astype(Q.dtype), T @ bend)


class KeepsNoise(HonestNormalizer):
    """Directions that are rounding alone, but for zeros."""

    def orthonormalize(self, V, MV=None):
        Q, T = super().orthonormalize(V, MV)
        host = np.asarray(to_host(V), dtype=np.float64)
        if 0 < T.shape[1] < min(host.shape):
            more = host.shape[1] - T.shape[1]
            Q = from_host(np.hstack([to_host(Q), np.zeros((len(host), more), host_dtype(V))]), like=V)
            T = np.hstack([T, np.zeros((len(T), more))])
        return Q, T


class DropsDirections(HonestNormalizer):
    """A cut so high that it takes what is there."""

    def twist(self, V, Q, T):
        return super().twist(V, Q[:, :-1] if Q.shape[1] > 2 else Q, T[:, :-1] if Q.shape[1] > 2 else T)


class ReturnsFloat64(HonestNormalizer):
    def twist(self, V, Q, T):
        return np.asarray(Q, dtype=np.float64), T


class SmallT(HonestNormalizer):
    """T as float32 even for float64."""

    def twist(self, V, Q, T):
        Q, T = super().twist(V, Q, T)
        return Q, np.asfortranarray(T).astype(np.longdouble)


@dataclass(frozen=True, kw_only=True)
class SumsInFloat32(HonestNormalizer):
    """Cholesky QR with a Gram matrix in the dtype of the block, where that has full rank (Golub 1965)."""

    def orthonormalize(self, V: Any, MV: Any = None) -> tuple[Any, Any]:
        Q, T = super().orthonormalize(V, MV)
        host = to_host(V)
        if MV is not None or host.dtype != np.float32 or len(host) < 1000:
            return Q, T
        R = np.linalg.cholesky(host.T @ host).T
        T = np.linalg.inv(R.astype(np.float64))
        return from_host((host @ T).astype(np.float32), like=V), T


class LetsNaNThrough(HonestNormalizer):
    def look(self, name, V):
        if name == "V":
            super().look(name, V)
        elif not np.isfinite(to_host(V)).all():
            raise FloatingPointError("not a number")


class TakesIntegers(HonestNormalizer):
    def look(self, name, V):
        if host_dtype(V).kind == "f":
            super().look(name, V)
        else:
            raise TypeError("floats only")


class FailsOnOneColumn(HonestNormalizer):
    def twist(self, V, Q, T):
        if V.shape[1] == 1:
            raise IndexError
        return super().twist(V, Q, T)


class Prints(HonestNormalizer):
    def twist(self, V, Q, T):
        print(T.shape)
        return super().twist(V, Q, T)


class Seeds(HonestNormalizer):
    def twist(self, V, Q, T):
        np.random.seed(0)  # noqa: NPY002
        return super().twist(V, Q, T)


NORMALIZERS = [
    (HonestNormalizer, set()),
    (OverwritesV, {"input-untouched"}),
    (WrongT, {"transform"}),
    (NearlyRightT, {"transform"}),
    (NotOrthonormal, {"orthonormal"}),
    (KeepsNoise, {"rank"}),
    (DropsDirections, {"rank"}),
    (ReturnsFloat64, {"output-home"}),
    (SmallT, {"output-home"}),
    (SumsInFloat32, {"accumulation"}),
    (LetsNaNThrough, {"non-finite"}),
    (TakesIntegers, {"refusals"}),
    (FailsOnOneColumn, {"solves"}),
    (Prints, {"process"}),
    (Seeds, {"process"}),
]


# ---- test matrices ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HonestMatrix(TestMatrix):
    """Independent normal numbers (Golub 1965)."""

    def draw(self, rows: int, columns: int, rng: Any) -> Any:
        return rng.standard_normal((rows, columns))


class DrawsFromTheGlobalGenerator(HonestMatrix):
    def draw(self, rows, columns, rng):
        return np.random.standard_normal((rows, columns))  # noqa: NPY002


class AsksPythonForASign(HonestMatrix):
    def draw(self, rows, columns, rng):
        return rng.standard_normal((rows, columns)) * random.choice((-1.0, 1.0))


class Unseeded(HonestMatrix):
    def draw(self, rows, columns, rng):
        return rng.standard_normal((rows, columns)) + 1e-9 * np.random.default_rng().random((rows, columns))


class Transposed(HonestMatrix):
    def draw(self, rows, columns, rng):
        drawn = rng.standard_normal((rows, columns))
        return drawn[:-1] if rows == 23 else drawn


class UnitLength(HonestMatrix):
    """The scale of a projection rather than that of a test matrix."""

    def draw(self, rows, columns, rng):
        return rng.standard_normal((rows, columns)) * 0.9


class Shifted(HonestMatrix):
    def draw(self, rows, columns, rng):
        return rng.standard_normal((rows, columns)) + 0.1


class Correlated(HonestMatrix):
    """Variance one, but two rows that go together."""

    def draw(self, rows, columns, rng):
        drawn = rng.standard_normal((rows, columns))
        if rows > 1:
            drawn[1] = 0.5 * drawn[0] + np.sqrt(0.75) * drawn[1]
        return drawn


class TwoForms(HonestMatrix):
    """An operator of its own, another matrix."""

    def operator(self, rows, columns, rng):
        return HeldSketch(rows, columns, [(slice(0, columns), -self.draw(rows, columns, rng))])


class DoubledSketch(HeldSketch):
    def sketch(self, A):
        return 2 * super().sketch(A)


class MultipliesWrongly(HonestMatrix):
    """Entries that are right, and twice their product with data."""

    def operator(self, rows, columns, rng):
        return DoubledSketch(rows, columns, [(slice(0, columns), self.draw(rows, columns, rng))])


class ChangesTheErrorState(HonestMatrix):
    def draw(self, rows, columns, rng):
        np.seterr(over="raise")
        return super().draw(rows, columns, rng)


MATRICES = [
    (HonestMatrix, set()),
    (DrawsFromTheGlobalGenerator, {"random-state"}),
    (AsksPythonForASign, {"random-state"}),
    (Unseeded, {"same-seed"}),
    (Transposed, {"shape", "forms"}),
    (UnitLength, {"moments"}),
    (Shifted, {"moments"}),
    (Correlated, {"moments"}),
    (TwoForms, {"forms"}),
    (ChangesTheErrorState, {"process"}),
    (MultipliesWrongly, {"products"}),
]
for _cls, _ in (*NORMALIZERS, *MATRICES):
    _cls.__doc__ = (_cls.__doc__ or "") + " After Golub 1965."
    if _cls not in (HonestNormalizer, SumsInFloat32, HonestMatrix):
        dataclass(frozen=True, kw_only=True)(_cls)


@pytest.mark.parametrize(
    ("cls", "caught"), [*NORMALIZERS, *MATRICES], ids=lambda x: getattr(x, "__name__", None)
)
@pytest.mark.slow(keep=13)
def test_part_fails_its_check_and_no_other(fresh_registry, cls, caught):
    report = run_checks(part(cls), backends=BACKENDS)
    assert failed(report) == caught, str(report)
    assert report.passed > 10


def test_overwriting_is_seen_on_every_library(fresh_registry):
    report = run_checks(part(OverwritesV), backends=BACKENDS)
    assert [check for check, _ in report.failed] == [f"input-untouched:{name}" for name in BACKENDS]


# ---- adapters ---------------------------------------------------------------------------------


class Parcel:
    """Data of a foreign library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class Adapted(ls.LinearOperator):
    """Products with a parcel, with one fault or none."""

    def __init__(self, parcel: Parcel, fault: str = "") -> None:
        self.array, self.fault = parcel.array, fault
        self.shape, self.dtype = parcel.array.shape, parcel.array.dtype
        self.access = "rows" if fault in {"rows", "sorted", "wide"} else "products"
        if fault == "names":
            self.column_names = ("one",)
        if fault == "labels":
            self.row_names = ["one"]
        if fault == "shape":
            self.shape = self.shape[::-1]
        if fault == "rows too few":
            self.shape = (self.shape[0] - 1, self.shape[1])
        if fault == "integers":
            self.dtype = np.dtype(np.int64)
        if fault == "means":
            self.statistics = ColumnStatistics(self.home)
            self.statistics.add(ls.as_operator(parcel.array[1:]))

    def _rows(self, selection):
        if self.access != "rows":
            return super()._rows(selection)
        selection = (
            np.sort(selection) if self.fault == "sorted" and not isinstance(selection, slice) else selection
        )
        rows = self.array[selection]
        return ls.as_operator(rows.astype(np.float64) if self.fault == "wide" else rows)

    def _matmat(self, V):
        if self.fault == "prints":
            print(V.shape)
        V = V.astype(self.dtype)
        return self.array @ V + (1e-3 * (self.array @ V) ** 2 if self.fault == "linearity" else 0.0)

    def _rmatmat(self, U):
        if self.fault == "warns":
            warnings.warn("be careful", UserWarning, stacklevel=1)
        product = self.array.T.astype(np.float64) @ U
        return product[::-1].copy() if self.fault == "adjoint" else product


def sample() -> Parcel:
    return Parcel(np.random.default_rng(0).standard_normal((20, 6)))


def no_sample() -> Parcel:
    raise FileNotFoundError("no parcel here")


def is_parcel(data: Any) -> bool:
    return isinstance(data, Parcel)


ADAPTERS = {
    "honest": ({}, set()),
    "wrong-adjoint": ({"adapt": lambda data: Adapted(data, "adjoint")}, {"adjoint"}),
    "not-linear": ({"adapt": lambda data: Adapted(data, "linearity")}, {"linearity", "adjoint"}),
    "rows": ({"adapt": lambda data: Adapted(data, "rows")}, set()),
    "rows-sorted": ({"adapt": lambda data: Adapted(data, "sorted")}, {"rows"}),
    "rows-of-float64": (
        {"adapt": lambda data: Adapted(Parcel(data.array.astype(np.float32)), "wide")},
        {"rows"},
    ),
    "means-of-other-rows": ({"adapt": lambda data: Adapted(data, "means")}, {"means", "moments"}),
    "names": ({"adapt": lambda data: Adapted(data, "names")}, {"names"}),
    "labels": ({"adapt": lambda data: Adapted(data, "labels")}, {"names"}),
    "shape": ({"adapt": lambda data: Adapted(data, "shape")}, {"kind"}),
    "rows-too-few": ({"adapt": lambda data: Adapted(data, "rows too few")}, {"kind"}),
    "integers": ({"adapt": lambda data: Adapted(data, "integers")}, {"kind"}),
    "warns": ({"adapt": lambda data: Adapted(data, "warns")}, {"process"}),
    "prints": ({"adapt": lambda data: Adapted(data, "prints")}, {"process"}),
    "no-operator": ({"adapt": lambda data: data.array}, {"adapt"}),
    "adapt-raises": ({"adapt": lambda data: data.missing}, {"adapt"}),
    "takes-everything": ({"matches": lambda _: True}, {"matches"}),
    "takes-nothing": ({"matches": lambda _: False}, {"matches"}),
    "asks-for-a-shape": ({"matches": lambda data: len(data.array.shape) == 2}, {"matches"}),
    "no-sample": ({"sample": None}, {"sample"}),
    "sample-raises": ({"sample": f"{__name__}:no_sample"}, {"sample"}),
    "sample-not-there": ({"sample": f"{__name__}:nothing"}, {"sample"}),
}


def adapter(**changes: Any) -> str:
    record = {
        "name": "liar",
        "matches": is_parcel,
        "adapt": Adapted,
        "summary": "An adapter that is here to be caught.",
        "sample": f"{__name__}:sample",
    }
    ls.register(ls.OperatorSpec(**(record | changes)))
    return "operator/liar"


@pytest.mark.parametrize(("changes", "caught"), ADAPTERS.values(), ids=ADAPTERS)
def test_adapter_fails_its_check_and_no_other(fresh_registry, changes, caught):
    report = run_checks(adapter(**changes))
    assert failed(report) == caught, str(report)


def test_an_adapter_has_a_pytest_test_like_everyone(fresh_registry):
    checks = {check.id for check in conformance(adapter()).suite.checks()}
    assert checks >= {"summary", "sample", "matches", "adapt", "linearity", "adjoint", "moments"}


# ---- what a failure says ----------------------------------------------------------------------


def line_of(text: str) -> int:
    return 1 + next(
        i for i, line in enumerate(Path(__file__).read_text("utf-8").splitlines()) if text in line
    )


def test_failures_tell_file_and_line(fresh_registry):
    ((_, message), *_) = run_checks(part(WrongT), backends=["numpy"]).failed
    assert f"{HERE}:{line_of('class ' + 'WrongT')} (WrongT)" in message.splitlines()[-1]
    ((_, message),) = run_checks(adapter(**ADAPTERS["adapt-raises"][0])).failed
    assert f"{HERE}:{line_of('data.' + 'missing')})" in message
