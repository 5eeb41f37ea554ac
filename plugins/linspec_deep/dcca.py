"""Deep CCA on minibatches, by torch.

Problem: two nets f and g whose k + k features have large canonical correlations.
Method: Andrew, Arora, Bilmes & Livescu (2013), with minibatches as Wang, Arora, Livescu & Bilmes (2015,
doi:10.1109/ICASSP.2015.7178840). With the covariances Sx, Sy, C of the features of a batch, a ridge on Sx and Sy, and
Cholesky factors of these, the squares of the batch's correlations have the sum ‖T‖²_F:

    Sx = Lx Lxᵀ,   Sy = Ly Lyᵀ,   T = Lx⁻¹ C Ly⁻ᵀ.

Step t on the negative of the sum is one of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), of a length that falls
to zero along half a cosine. With the gradient g of −‖T‖²_F in the parameters θ of both nets, and weight decay λ,

    m ← β₁m + (1 − β₁) g,   v ← β₂v + (1 − β₂) g²,
    θ ← (1 − ηλ) θ − η m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε),   η ∝ 1 + cos(π t/T).

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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from math import cos, pi
from typing import Any

import numpy as np

from linspec import limit_option, option
from linspec.arrays import HostArray
from linspec.errors import InvalidOption, MissingPackage
from linspec.iteration import Context, Iterate
from linspec.rows import Moments, equal_slices, random_order
from linspec.solving import Solver
from linspec_deep.nets import Net, counted_rows, layers_of
from linspec_deep.problem import DeepCCA

EPOCHS, STEPS = 10, 200
"""Least number of epochs and of steps without the option `epochs`."""

PATIENCE = 5
"""Epochs without progress on the held-out rows after which the run ends."""

MOST_HELD_OUT = 10_000
"""Largest number of held-out rows; they are kept in memory."""

FORWARD_AND_BACK = 3
"""Cost of a gradient, in evaluations of the net."""

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""β₁ and β₂, and ε, of AdamW."""

ENDED = "The training had not ended."


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the next epoch needs, in arrays and numbers.

    Attributes
    ----------
    theta, means, squares : numpy.ndarray of shape (m,)
        θ, m and v: all weights and biases, as `layers_of` has them.
    best : numpy.ndarray of shape (m,)
        Parameters of the epoch with the least residual on the held-out rows; the last ones if no rows are held out.
    seed : int
        Of all that is drawn.
    epochs, steps : int
        Epochs so far, and t.
    residual : float
        1 − ‖T‖²_F / k; 1 before the first epoch, not a number if the loss was none.
    least : float
        Residual of the best parameters on the held-out rows.
    since : int
        Epochs since these.
    """

    theta: HostArray
    means: HostArray
    squares: HostArray
    best: HostArray
    seed: int
    epochs: int = 0
    steps: int = 0
    residual: float = 1.0
    least: float = np.inf
    since: int = 0


@dataclass(frozen=True, kw_only=True)
class DCCA(Solver):
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

    def iterate(self, problem: DeepCCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the nets after each epoch."""
        torch, n, k = _imported(), int(problem.X.shape[0]), int(problem.k)
        aside = min(round(self.held_out * n), MOST_HELD_OUT)
        if min(self.batch, n) < 2 * k or (self.held_out and not 2 * k <= aside <= n - 2 * k):
            raise InvalidOption(
                f"batch, and the rows on both sides of held_out, must be at least 2k = {2 * k} rows. Raise batch, "
                "lower k, or leave held_out out."
            )
        moments.fit()  # the first pass computes shift and scale of the views
        rows = Rows(torch, moments, [(p, *[self.width] * self.depth, k) for p in moments.widths])
        it = _begun(rows.sizes, context.rng)
        if start is not None:
            it = Training(**{field.name: start[field.name][()] for field in fields(it)})
        drawn = np.random.default_rng([it.seed, 0]).permutation(n)
        numbers = np.sort(drawn[aside:])
        validation = rows.read(np.sort(drawn[:aside]), 0) if aside else []
        batches = max(1, round(len(numbers) / self.batch))
        epochs = self.epochs or max(EPOCHS, -(-STEPS // batches))
        while True:
            ends = it.epochs >= epochs or it.since >= PATIENCE
            yield Iterate(it.residual, partial(rows.arrays, it), ends, "" if ends else ENDED)
            rng = np.random.default_rng([it.seed, 1, it.epochs])
            order = random_order(numbers, rng, self.batch, max(A.together for A in moments.operators))
            with _one_setting(torch, self.threads):
                trained, losses = self._epoch(rows, it, order, epochs * batches)
                if validation and np.isfinite(losses[-1]):
                    with torch.no_grad():
                        losses = [float(self._loss(rows, torch.tensor(trained.theta), validation))]
            residual = 1.0 + float(np.mean(losses)) / k
            it = replace(trained, epochs=it.epochs + 1, residual=residual, since=it.since + 1)
            if not validation or residual < it.least:
                it = replace(it, best=it.theta, least=residual, since=0)

    def _epoch(self, rows: Rows, it: Training, order: HostArray, total: int) -> tuple[Training, list[float]]:
        """Take a step on each batch; return what they lead to and their losses, until one is not finite."""
        torch, losses, t = rows.torch, list[float](), it.steps
        theta, m, v = (torch.tensor(x) for x in (it.theta, it.means, it.squares))
        a, b = BETAS
        for some in equal_slices(len(order), self.batch):
            loss = self._loss(rows, theta.requires_grad_(), rows.read(order[some], FORWARD_AND_BACK))
            losses.append(float(loss.detach()))
            if not np.isfinite(losses[-1]):
                break
            (g,), t = torch.autograd.grad(loss, theta), t + 1
            eta = self.step * (1 + cos(pi * (t - 1) / total)) / 2  # η ∝ 1 + cos(π t/T)
            m = a * m + (1 - a) * g
            v = b * v + (1 - b) * g * g
            step = m / (1 - a**t) / ((v / (1 - b**t)).sqrt() + EPSILON)
            theta = (1 - eta * self.decay) * theta.detach() - eta * step
        theta, means, squares = (x.detach().numpy() for x in (theta, m, v))
        return replace(it, theta=theta, means=means, squares=squares, steps=t), losses

    def _loss(self, rows: Rows, theta: Any, views: list[Any]) -> Any:
        """−‖T‖²_F of the features of the same rows of X and Y.

        NaN is returned if a covariance matrix, with its ridge, has no Cholesky factor. Features are then so large that
        their squares overflow, or that the ridge is below the rounding of the covariance matrix.
        """
        linalg = rows.torch.linalg
        F, G = (
            _features(view, layers) for view, layers in zip(views, layers_of(theta, rows.sizes), strict=True)
        )
        free = max(len(F) - 1, 1)
        F = F - F.mean(dim=0)
        G = G - G.mean(dim=0)
        ridge = rows.torch.eye(F.shape[1], dtype=F.dtype) * self.ridge
        (Lx, fault_x), (Ly, fault_y) = (linalg.cholesky_ex(Z.T @ Z / free + ridge) for Z in (F, G))
        if int(fault_x) or int(fault_y):
            return F.sum() * float("nan")
        T = linalg.solve_triangular(Lx, F.T @ G / free, upper=False)
        T = linalg.solve_triangular(Ly, T.T, upper=False)
        return -(T * T).sum()


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
    """Rows of both views in the units of the nets, in float32.

    Attributes
    ----------
    sizes : sequence of tuple of int
        Of both nets, as `Net.sizes`.
    units : sequence of (numpy.ndarray of shape (p,), float)
        Shift subtracted from the rows of each view, and the divisor of the result.
    """

    def __init__(self, torch: Any, moments: Moments, sizes: list[tuple[int, ...]]) -> None:
        self.torch, self.moments, self.sizes, self.units = torch, moments, sizes, []
        for i in range(len(sizes)):
            f = moments.fitted[i]
            variances = np.maximum(f.squares / f.total - f.average**2, 0.0)
            self.units.append((f.average, float(np.sqrt(variances.mean())) or 1.0))

    def read(self, numbers: HostArray, times: int) -> list[Any]:
        """Rows by their numbers, as tensors; so many evaluations of the nets are counted."""
        views = []
        for i, (shift, scale) in enumerate(self.units):
            rows = (counted_rows(self.moments, numbers, i, self.sizes[i], times) - shift) / scale
            views.append(self.torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)))
        return views

    def arrays(self, it: Training) -> dict[str, Any]:
        """The nets of the best epoch, and what the next epoch needs."""
        nets = zip(self.units, layers_of(it.best, self.sizes), strict=True)
        x, y = (Net(*unit, *zip(*layers, strict=True)).packed for unit, layers in nets)
        return {"x_net": x, "y_net": y, **{name: np.asarray(value) for name, value in vars(it).items()}}


def _features(rows: Any, layers: list[tuple[Any, Any]]) -> Any:
    """Features of rows, by layers that are tensors."""
    for W, b in layers[:-1]:
        rows = (rows @ W + b).relu()
    W, b = layers[-1]
    return rows @ W + b


def _begun(sizes: list[tuple[int, ...]], rng: np.random.Generator) -> Training:
    """Initial weights and biases, uniform within ±1/√(columns) as in the layers of torch."""
    parts = [rng.uniform(-(p**-0.5), p**-0.5, (p + 1) * q) for net in sizes for p, q in pairwise(net)]
    theta = np.concatenate(parts).astype(np.float32)
    none = np.zeros_like(theta)
    seed = int(rng.integers(2**62))
    return Training(theta=theta, means=none, squares=none, best=theta, seed=seed)
