"""Deep CCA on minibatches, by torch.

Problem: two nets f and g whose k + k features have large canonical correlations.
Method: Andrew, Arora, Bilmes & Livescu (2013), with minibatches as Wang, Arora, Livescu & Bilmes (2015,
doi:10.1109/ICASSP.2015.7178840). With the covariances Sx, Sy, C of the features of a batch, a ridge on Sx and Sy, and
Cholesky factors of these, the squares of the batch's correlations have the sum ‖T‖²_F:

    Sx = Lx Lxᵀ,   Sy = Ly Lyᵀ,   T = Lx⁻¹ C Ly⁻ᵀ.

Step t on the negative of the sum is one of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), of a length that falls
to zero along half a cosine:

    θ ← AdamW(θ, −∂‖T‖²_F/∂θ, ηₜ),   ηₜ ∝ 1 + cos(π t/T).

At the end the certificate computes the exact CCA of the features on all training rows.
Where we differ: (a) ‖T‖²_F by two Cholesky factorisations replaces the nuclear norm of Sx^(-1/2) C Sy^(-1/2): it needs
no eigenvectors, whose derivatives are infinite where eigenvalues coincide. (b) No layer is trained in advance. (c)
First weights and the order of rows come from the generator of the run, so torch draws nothing. (d) With `held_out`,
some rows take no part in the steps, and the nets of the epoch with the largest ‖T‖²_F on these are returned.
torch is imported when a problem is solved. The settings changed in it (the number of threads) are restored after each
epoch. It runs on the CPU, in float32, also if the data are elsewhere.
The residual reported during the run is 1 − ‖T‖²_F / k, the mean over the batches of an epoch, or the value for the
held-out rows. It does not estimate the certificate's residual, and no run ends because of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import cos, pi
from typing import Any, ClassVar

import numpy as np

from linspec import Iterate, IterativeSolver, LinearOperator, Run, Status, limit_option, option
from linspec.arrays import HostArray
from linspec.errors import InvalidOption, MissingPackage, NonFiniteData
from linspec.sweeps import RandomRows
from linspec_deep.nets import Net, count, entries, side_by_side

EPOCHS, STEPS = 10, 200
"""Least number of epochs and of steps without the option `epochs`."""

PATIENCE = 5
"""Epochs without progress on the held-out rows after which the run ends."""

MOST_HELD_OUT = 10_000
"""Largest number of held-out rows; they are kept in memory."""

FORWARD_AND_BACK = 3
"""Cost of a gradient, in evaluations of the net."""

Layers = tuple[tuple[Any, Any], ...]
"""Weights W and biases b of each layer of a net: arrays of NumPy, or tensors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameters:
    """Parameters of both nets, and the running means of AdamW for them.

    Attributes
    ----------
    nets : (Layers, Layers)
    means, squares : sequence of numpy.ndarray
        The running means of the gradient of each array of the nets, and of its square; none before the first step.
    """

    nets: tuple[Layers, ...]
    means: tuple[HostArray, ...] = ()
    squares: tuple[HostArray, ...] = ()


@dataclass(kw_only=True, eq=False)
class Epoch(Iterate):
    """Nets after an epoch, with the state that the next epoch needs.

    Attributes
    ----------
    residual : float
        1 − ‖T‖²_F / k; 1 before the first epoch, infinity if the loss was not finite.
    parameters : Parameters
        Parameters after the last epoch.
    steps : int
        Steps so far: t.
    length : float
        Length of the next step: ηₜ.
    made : int
        Epochs so far.
    units : sequence of (numpy.ndarray of shape (p,), float)
        Shift subtracted from the rows of each view, and the divisor of the result.
    held_out : numpy.ndarray of int
        Rows that take no part in the steps.
    best : (Layers, Layers), optional
        Nets of the epoch with the least residual on the held-out rows.
    least : float
        Residual of the best nets on the held-out rows.
    since : int
        Epochs since the best one.
    """

    residual: float = 1.0
    judged: bool = False
    ending: Status | None = None
    parameters: Parameters
    steps: int = 0
    length: float
    made: int = 0
    units: tuple[tuple[HostArray, float], ...]
    held_out: HostArray
    best: tuple[Layers, ...] | None = None
    least: float = np.inf
    since: int = 0

    def weights(self) -> Mapping[str, Any]:
        """Nets of the best epoch on the held-out rows, or the last nets if no rows are held out."""
        both = zip(("x_net", "y_net"), self.units, self.best or self.parameters.nets, strict=True)
        return {
            name: Net(shift, scale, tuple(W for W, _ in layers), tuple(b for _, b in layers))
            for name, (shift, scale), layers in both
        }


@dataclass(frozen=True, kw_only=True)
class DCCA(IterativeSolver):
    """Deep CCA on minibatches (Andrew, Arora, Bilmes & Livescu 2013)."""

    width: int = option(256, "columns of each hidden layer", at_least=1)
    depth: int = option(2, "hidden layers of each net", at_least=1)
    batch: int = option(1000, "rows of a minibatch; at least 2k of them are needed", at_least=2)
    epochs: int | None = option(
        None,
        "times that all rows are read; none: 10, or more until there are 200 steps",
        kind=int,
        at_least=1,
    )
    step: float = option(2e-3, "step length of AdamW at the beginning", above=0, below=1)
    decay: float = option(1e-4, "weight decay of AdamW", at_least=0, below=1)
    ridge: float = option(1e-3, "added to the variances of features, in the loss of a batch only", above=0)
    held_out: float = option(
        0.0,
        "fraction of the rows, 10,000 at most, that judge the epochs and take no steps",
        at_least=0,
        at_most=0.5,
    )
    threads: int = option(1, "threads of torch; the last digits depend on their number", at_least=1)
    max_iterations: int = limit_option(100_000, "epochs")

    kept: ClassVar = (Epoch, Parameters)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Epoch | None = None) -> Iterator[Epoch]:
        """Yield the nets after each epoch."""
        torch = _imported()
        n, k = int(problem.X.shape[0]), int(problem.k)
        aside = min(round(self.held_out * n), MOST_HELD_OUT)
        self._check_rows(n, k, aside)
        # The first sweep computes shift and scale of the views; held-out rows are read once more, and in no
        # epoch.
        run.plan(setup=1.0 + aside / n)
        it = self._begun(problem, run, aside) if state is None else state
        rows = Rows([problem.X, problem.Y], it.units, run)
        batches = max(1, round(n / self.batch))
        size, epochs = -(-n // batches), self.epochs or max(EPOCHS, -(-STEPS // batches))
        judging = np.isin(np.arange(n), it.held_out)
        with _one_setting(torch, self.threads):
            nets = TrainedNets(torch, self.decay, it)
            judges = [torch.from_numpy(part) for part in rows.held_out(it.held_out)] if aside else []
        while True:
            yield it
            steps, length, losses, left, finite = it.steps, it.length, list[float](), n, True
            with _one_setting(torch, self.threads):
                while left > 0 and finite:
                    chosen = rows.order.draw(size)
                    left -= len(chosen)
                    chosen = chosen[~judging[chosen]]
                    if len(chosen) < 2 * k:  # too few for covariances: nearly all of them are held out
                        continue
                    F, G = nets.features([torch.from_numpy(part) for part in rows.batch(chosen, nets.sizes)])
                    loss = -self.shared(torch, F, G)  # −‖T‖²_F
                    losses.append(float(loss.detach()))
                    finite = bool(np.isfinite(losses[-1]))
                    if finite:
                        nets.step(loss, length)  # θ ← AdamW(θ, −∂‖T‖²_F/∂θ, ηₜ)
                        steps += 1
                        before, now = (1 + cos(pi * t / (epochs * batches)) for t in (steps - 1, steps))
                        length = now / before * length  # ηₜ ∝ 1 + cos(π t/T)
            if not finite:  # no finite loss: the run ends, with the nets before this epoch
                it = replace(it, residual=np.inf)
                continue
            share = self.judged(torch, nets, judges) if judges else -float(np.mean(losses))
            made, residual = it.made + 1, 1.0 - share / k
            it = replace(
                it, residual=residual, parameters=nets.copied(), steps=steps, length=length, made=made
            )
            if judges and residual < it.least:
                it = replace(it, best=it.parameters.nets, least=residual, since=0)
            elif judges:
                it = replace(it, since=it.since + 1)
            if made >= epochs or it.since >= PATIENCE:
                it = replace(it, ending=Status.APPROXIMATE)

    def shared(self, torch: Any, F: Any, G: Any) -> Any:
        """Compute ‖T‖²_F for the features F and G of the same rows of X and Y.

        NaN is returned if a covariance matrix, with its ridge, has no Cholesky factor. Features are then so large that
        their squares overflow, or that the ridge is below the rounding of the covariance matrix.
        """
        linalg, free = torch.linalg, max(len(F) - 1, 1)
        F, G = F - F.mean(dim=0), G - G.mean(dim=0)
        ridge = torch.eye(F.shape[1], dtype=F.dtype, device=F.device) * self.ridge
        (Lx, fault_x), (Ly, fault_y) = (linalg.cholesky_ex(Z.T @ Z / free + ridge) for Z in (F, G))
        if int(fault_x) or int(fault_y):
            return F.sum() * float("nan")
        T = linalg.solve_triangular(Lx, F.T @ G / free, upper=False)
        T = linalg.solve_triangular(Ly, T.T, upper=False)
        return (T * T).sum()

    def judged(self, torch: Any, nets: TrainedNets, judges: list[Any]) -> float:
        """‖T‖²_F for the held-out rows."""
        with _one_setting(torch, self.threads), torch.no_grad():
            return float(self.shared(torch, *nets.features(judges)))

    def _begun(self, problem: Any, run: Run, aside: int) -> Epoch:
        """Initial nets, shifts and scales of the views, and the held-out rows."""
        units = _shifts_and_scales({"X": problem.X, "Y": problem.Y})
        hidden = [self.width] * self.depth
        nets = tuple(_drawn([A.shape[1], *hidden, int(problem.k)], run.rng) for A in (problem.X, problem.Y))
        n = int(problem.X.shape[0])
        chosen = run.rng.choice(n, aside, replace=False) if aside else np.zeros(0, dtype=np.intp)
        return Epoch(
            parameters=Parameters(nets=nets), length=self.step, units=tuple(units), held_out=np.sort(chosen)
        )

    def _check_rows(self, n: int, k: int, aside: int) -> None:
        """Raise if a batch, or the set of held-out rows, has too few rows for the covariances of k features."""
        if min(self.batch, n) < 2 * k:
            short = "Raise batch" if self.batch < n else "There are too few rows: lower k"
            raise InvalidOption(
                f"batch must be at least 2k = {2 * k} rows, and there are {n}; got batch={self.batch}. {short}."
            )
        if self.held_out and not 2 * k <= aside <= n - 2 * k:
            raise InvalidOption(
                f"held_out must leave at least 2k = {2 * k} rows on both sides; got held_out={self.held_out:g}, "
                f"which is {aside} of {n} rows. Change it, or leave it out."
            )


def _imported() -> Any:
    """The module torch of this environment.

    Raises
    ------
    MissingPackage
        torch cannot be imported.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingPackage(
            f"deep-cca/dcca needs torch, which cannot be imported ({error}). Install it with: "
            "pip install linspec[torch]"
        ) from error
    return torch


@contextmanager
def _one_setting(torch: Any, threads: int) -> Iterator[None]:
    """Context in which torch has `threads` threads and records gradients; then the caller's settings are restored."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.enable_grad(), torch.inference_mode(mode=False):
            yield
    finally:
        torch.set_num_threads(before)


class Rows:
    """Rows of both views in the units of the nets, in float32."""

    def __init__(
        self, views: list[LinearOperator], units: tuple[tuple[HostArray, float], ...], run: Run
    ) -> None:
        self.views, self.units, self.order = views, units, RandomRows(views, run.rng)

    def batch(self, chosen: HostArray, sizes: list[tuple[int, ...]]) -> Iterator[HostArray]:
        """Read the drawn rows of each view, and count the cost of a training step of nets of these sizes."""
        for A, units, of_net in zip(self.views, self.units, sizes, strict=True):
            rows = self.order.rows_of(A, chosen)
            found = _in_units(rows, units)
            count(rows, of_net, times=FORWARD_AND_BACK)
            A.release()
            yield found

    def held_out(self, chosen: HostArray) -> Iterator[HostArray]:
        """Read the held-out rows `chosen` of each view, once for the whole run.

        They stay in memory, and the nets are judged on them after each epoch. No training step is counted for them.
        """
        for A, units in zip(self.views, self.units, strict=True):
            yield _in_units(A.rows(chosen), units)
            A.release()


class TrainedNets:
    """The nets as tensors of torch, and AdamW on their parameters, restored from the state after an epoch.

    Attributes
    ----------
    sizes : sequence of tuple of int
        As `Net.sizes`.
    """

    def __init__(self, torch: Any, decay: float, it: Epoch) -> None:
        self.layers = [
            [tuple(torch.tensor(array, requires_grad=True) for array in pair) for pair in layers]
            for layers in it.parameters.nets
        ]
        self.sizes = [(len(layers[0][0]), *(len(b) for _, b in layers)) for layers in self.layers]
        self.adamw = torch.optim.AdamW(self._parameters(), lr=it.length, weight_decay=decay)
        remembered = zip(it.parameters.means, it.parameters.squares, strict=True)
        known = {
            i: {
                "step": torch.tensor(float(it.steps)),
                "exp_avg": torch.tensor(mean),
                "exp_avg_sq": torch.tensor(square),
            }
            for i, (mean, square) in enumerate(remembered)
        }
        self.adamw.load_state_dict({**self.adamw.state_dict(), "state": known})

    def features(self, views: list[Any]) -> Iterator[Any]:
        """Features of rows of both views."""
        for rows, layers in zip(views, self.layers, strict=True):
            for W, b in layers[:-1]:
                rows = (rows @ W + b).relu()
            W, b = layers[-1]
            yield rows @ W + b

    def step(self, loss: Any, length: float) -> None:
        """Take a step of AdamW with this length."""
        self.adamw.param_groups[0]["lr"] = length
        self.adamw.zero_grad()
        loss.backward()
        self.adamw.step()

    def copied(self) -> Parameters:
        """Copies of the parameters as arrays of NumPy."""
        known = [self.adamw.state[one] for one in self._parameters()]
        return Parameters(
            nets=tuple(
                tuple((_copied(W.detach()), _copied(b.detach())) for W, b in layers) for layers in self.layers
            ),
            means=tuple(_copied(one["exp_avg"]) for one in known if one),
            squares=tuple(_copied(one["exp_avg_sq"]) for one in known if one),
        )

    def _parameters(self) -> list[Any]:
        """Tensors that are trained."""
        return [tensor for layers in self.layers for tensor in chain(*layers)]


def _copied(tensor: Any) -> HostArray:
    """Copy of a tensor as an array of NumPy."""
    found: HostArray = tensor.numpy().copy()
    return found


def _in_units(rows: LinearOperator, units: tuple[HostArray, float]) -> HostArray:
    """Rows with the shift subtracted, over the scale, in float32."""
    shift, scale = units
    return np.ascontiguousarray((entries(rows) - shift) / scale, dtype=np.float32)


def _drawn(sizes: list[int], rng: np.random.Generator) -> Layers:
    """Initial weights and biases, uniform within ±1/√(columns) as in the layers of torch."""
    layers = []
    for before, after in pairwise(sizes):
        most = before**-0.5
        W, b = (rng.uniform(-most, most, shape).astype(np.float32) for shape in ((before, after), after))
        layers.append((W, b))
    return tuple(layers)


def _shifts_and_scales(views: dict[str, LinearOperator]) -> list[tuple[HostArray, float]]:
    """Column means of each view, and the root mean square of all deviations from them: one sweep.

    Raises
    ------
    NonFiniteData
        An entry is not finite; the message names the first one.
    """
    n, matrices = int(next(iter(views.values())).shape[0]), list(views.values())
    first: list[HostArray] = []
    sums = [np.zeros(A.shape[1]) for A in matrices]
    squares = [np.zeros(A.shape[1]) for A in matrices]
    for start, parts in side_by_side(matrices):
        for i, (name, part) in enumerate(zip(views, parts, strict=True)):
            rows = np.asarray(part, dtype=np.float64)
            bad = np.argwhere(~np.isfinite(rows))
            if len(bad):
                row, column = bad[0]
                raise NonFiniteData(
                    f"{name} must be finite; got {rows[row, column]} at row {start + row}, column {column}. Drop or "
                    "impute such rows."
                )
            if start == 0:
                first.append(rows.mean(axis=0))  # sums about a mean of some rows lose no digits
            rows = rows - first[i]
            sums[i] += rows.sum(axis=0)
            squares[i] += (rows * rows).sum(axis=0)
    found = []
    for mean, total, square in zip(first, sums, squares, strict=True):
        deviation = float(np.sqrt(np.maximum(square - total**2 / n, 0.0).mean() / n))
        found.append((mean + total / n, deviation or 1.0))
    return found
