"""The solution of a deep CCA: two nets, and canonical pairs of their features."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.families.cca.variates import CCAScore, score_variates
from linspec_deep.nets import Net, side_by_side

FORMAT = "linspec deep-cca 1"
"""The first entry of a file's description; another number stands for another layout."""

NUMBERS = ("residual", "passes", "columns", "flops", "seconds", "setup_passes")
WORDS = ("converged", "message", "residual_kind", "iterations", "solver", "rows")
ARRAYS = ("x_weights", "y_weights", "correlations", "x_feature_mean", "y_feature_mean", "history")


@dataclass(frozen=True, kw_only=True, repr=False)
class DeepCCASolution(ls.Solution):
    """Two nets, and the canonical pairs of their features.

    Attributes
    ----------
    x_net, y_net : Net
        The nets: ``x_net(rows)`` are the k features of rows in NumPy, before the canonical weights.
    x_weights, y_weights : array of shape (k, r), (k, r)
        Canonical weights of the features, of unit length in the metric of their Gram matrix about the means. There are
        r ≤ k pairs, fewer if features depend on each other.
    correlations : numpy.ndarray of shape (r,)
        Canonical correlations of the features on the training rows in decreasing order, float64.
    x_feature_mean, y_feature_mean : numpy.ndarray of shape (k,)
        Means of the features on the training rows, float64.
    rows : int
        The number of training rows.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x_weights", "y_weights")
    value_field: ClassVar[str] = "correlations"
    value_label: ClassVar[str] = "canonical correlation"
    ceiling: ClassVar[float | None] = 1.0
    certified: ClassVar[bool] = False  # the law judges the CCA of the features, and not the nets

    x_net: Net
    y_net: Net
    x_weights: Array
    y_weights: Array
    correlations: HostArray
    x_feature_mean: HostArray
    y_feature_mean: HostArray
    rows: int

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{len(self.correlations)} correlations of learnt features, sum {total:.6f}"

    def transform(self, X: Any = None, Y: Any = None) -> Any:
        """Canonical variates of rows: through the net, less the means of the training features, times the weights.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Anything that `linspec.as_operator` takes and whose entries can be read.

        Returns
        -------
        array of shape (n, r), or a pair of them when both are given
            In the library, on the device and in the working dtype of the rows; of NumPy for sparse matrices and files.
            torch is not needed.

        Raises
        ------
        InvalidProblem
            Neither view is given, or it has other columns than the training rows.
        MissingCapability
            The entries cannot be read.
        """
        views = (
            ("X", X, self.x_net, self.x_feature_mean, self.x_weights),
            ("Y", Y, self.y_net, self.y_feature_mean, self.y_weights),
        )
        for name, data, *_ in views:
            self.check_columns(name, data)
        found = [_variates(name, data, *fitted) for name, data, *fitted in views if data is not None]
        if not found:
            raise InvalidProblem("transform needs X, Y or both; got neither.")
        return found[0] if len(found) == 1 else tuple(found)

    def score(self, X: Any, Y: Any) -> CCAScore:
        """The correlations that the variates have on rows, usually on new rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Matching rows.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (r,), one for each pair, about the training means; ``total``, the total
            correlation captured by the best rotation of the variates; and ``rows``. It unpacks into the first two.

        Raises
        ------
        InvalidProblem
            A view is missing, has other columns than the training rows, or other rows than the other view.
        """
        if X is None or Y is None:
            raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
        P, Q = self.transform(X, Y)
        return score_variates(P, Q, centered=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the solution into a file of arrays and a description, without pickle.

        Parameters
        ----------
        path : path
            An existing file is replaced. The format is that of `numpy.savez`, whatever the suffix.
        """
        nets = {"x": self.x_net, "y": self.y_net}
        arrays: dict[str, Any] = {name: np.asarray(to_host(getattr(self, name))) for name in ARRAYS}
        for view, net in nets.items():
            arrays[f"{view}_shift"], arrays[f"{view}_scale"] = net.shift, np.array(net.scale)
            for layer, (W, b) in enumerate(zip(net.weights, net.biases, strict=True)):
                arrays[f"{view}_layer_{layer}"], arrays[f"{view}_bias_{layer}"] = W, b
        description = {
            "format": FORMAT,
            "status": self.status.name,
            "layers": {view: len(net.weights) for view, net in nets.items()},
            **{name: getattr(self, name) for name in WORDS},
        }
        numbers = np.array([getattr(self, name) for name in NUMBERS], dtype=np.float64)
        with open(path, "wb") as file:  # noqa: PTH123 (a path as anybody gives it)
            np.savez(file, description=np.array(json.dumps(description)), numbers=numbers, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a solution that `save` wrote. Its arrays are NumPy's.

        Parameters
        ----------
        path : path

        Returns
        -------
        DeepCCASolution

        Raises
        ------
        InvalidProblem
            The file is not one of a deep CCA, or of another format.
        FileNotFoundError
            There is no such file.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                held = {name: file[name] for name in file.files}
            described = json.loads(str(held["description"][()]))
            if described["format"] != FORMAT:
                raise ValueError(f"its format is {described['format']!r}")  # noqa: TRY301
            nets: dict[str, Any] = {
                f"{view}_net": _read_net(held, view, described["layers"][view]) for view in "xy"
            }
            return cls(
                status=ls.Status[described["status"]],
                **{name: described[name] for name in WORDS},
                **dict(zip(NUMBERS, held["numbers"].tolist(), strict=True)),
                **{name: held[name] for name in ARRAYS},
                **nets,
            )
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidProblem(
                f"{os.fspath(path)!r} must be a file that DeepCCASolution.save wrote, of the format {FORMAT!r}; got "
                f"another one ({type(error).__name__}: {error})."
            ) from error


def _variates(name: str, data: Any, net: Net, mean: HostArray, weights: Array) -> Array:
    """Variates of rows, in the library of the data."""
    A = ls.as_operator(data, name)
    if A.shape[1] != net.sizes[0]:
        raise InvalidProblem(
            f"{name} must have {net.sizes[0]} columns, as the training rows; got {A.shape[1]}."
        )
    if A.shape[0] == 0:
        raise InvalidProblem(f"{name} must have rows; got shape {A.shape}.")
    W = np.asarray(to_host(weights), dtype=np.float64)
    if A.sliceable:
        parts = [(features - mean) @ W for _, (features,) in side_by_side((A,), (net,))]
    else:
        parts = [(net(to_host(A.dense())) - mean) @ W]
    return A.home.place(np.concatenate(parts), A.dtype)


def _read_net(held: dict[str, Any], view: str, layers: int) -> Net:
    weights = tuple(held[f"{view}_layer_{layer}"] for layer in range(layers))
    biases = tuple(held[f"{view}_bias_{layer}"] for layer in range(layers))
    return Net(held[f"{view}_shift"], float(held[f"{view}_scale"]), weights, biases)
