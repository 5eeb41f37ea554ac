"""
A solver of your own in twenty lines, compared: momentum beats gradient descent
===============================================================================

Your own method is a class, whose fields are its options, and a record with its name. After registration,
``ls.solve`` and ``ls.compare`` treat it like any other solver: they count its passes, and compute the residual
of its answer from the data. So the comparison does not depend on what the new solver claims.

Here it is Nesterov's accelerated gradient descent. If the eigenvalues of AᵀA + ridge I are between μ and L, his
theorem bounds the difference between the objective and its minimum after t steps by (L + μ)/2
‖x₀ − x*‖² (1 − √(μ/L))ᵗ. The example checks every iterate against that bound.
"""

from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import linspec as ls
from linspec.arrays import Device
from linspec.iteration import Iterate
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class Nesterov(Solver):
    """Gradient descent with momentum (Nesterov 2004, scheme 2.2.22)."""

    largest: float = ls.option(1.0, "an upper bound of the largest eigenvalue of AᵀA", above=0)
    tol: float | None = ls.tol_option(1e-8)
    max_iterations: int = ls.limit_option(2000)

    def iterate(self, problem, moments, context, start):
        moments.expect(self.max_iterations, problem.width)
        AtB = moments.cross()
        L, mu = self.largest + problem.ridge, problem.ridge
        momentum = (L**0.5 - mu**0.5) / (L**0.5 + mu**0.5)

        def downhill(x):
            return AtB - moments.gram_product(x) - mu * x

        x, ahead, norm = 0.0 * AtB, 0.0 * AtB, Device.of(AtB).norm
        while True:
            yield Iterate(norm(downhill(x)) / norm(AtB), partial(dict, x=x))
            x, earlier = ahead + downhill(ahead) / L, x
            ahead = x + momentum * (x - earlier)


ls.register(
    ls.SolverSpec(
        name="nesterov",
        problem="least-squares",
        target=f"{__name__}:Nesterov",
        summary="Gradient descent with momentum.",
        reference="Nesterov 2004, Introductory Lectures on Convex Optimization, doi:10.1007/978-1-4419-8853-9",
        traits=("iterative",),
    )
)

# %%
# A ridge regression whose singular values fall from 1 to 1/50. Momentum needs a ridge, which is the μ of the theorem.

rng = np.random.default_rng(0)
U, V = (np.linalg.qr(rng.standard_normal((rows, 60)))[0] for rows in (1500, 60))
A = U * np.geomspace(1, 0.02, 60) @ V.T
b = A @ rng.standard_normal(60) + 0.01 * rng.standard_normal(1500)
ridge = 1e-3
problem = ls.LeastSquares(A, b, ridge)

iterates = []
own = ls.solve(
    problem, "nesterov", callback=lambda progress: iterates.append(progress.current()["x"].ravel())
)
table = ls.compare(problem, ["gd", "nesterov", "cg", "direct"], max_iterations=20_000)
print(table)

# %%
# The residuals of the runs, and the objective above its minimum beside the bound of the theorem.

M = A.T @ A + ridge * np.eye(60)
best = np.linalg.solve(M, A.T @ b)
above = [0.5 * (x - best) @ M @ (x - best) for x in iterates]
steps = np.arange(len(above))
L, mu = 1 + ridge, ridge
bound = (L + mu) / 2 * best @ best * (1 - np.sqrt(mu / L)) ** steps

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
runs = {entry.solver: entry.solution for entry in table.entries}
ls.plots.convergence(runs, against="iterations", ax=left)
steps_taken = {name: solution.iterations for name, solution in runs.items()}
left.set_title(f"Momentum takes {steps_taken['nesterov']} steps, gradient descent {steps_taken['gd']}")
right.semilogy(steps, above, label="nesterov")
right.semilogy(steps, bound, "--", color="#555555", label="bound of the theorem")
right.set(xlabel="iterations", ylabel="objective above its minimum")
right.legend()
right.set_title("Every iterate is below Nesterov's bound")
plt.show()

assert own.converged
assert np.allclose(own.x.ravel(), best, atol=1e-4)
assert (np.array(above) <= bound * (1 + 1e-9)).all()
assert 2 * steps_taken["nesterov"] < steps_taken["gd"]
assert runs["nesterov"].residual <= 1e-8  # of the array that was returned, recomputed
