"""The passes that products with moments take, before they are made: for plans and budgets."""

from __future__ import annotations

from linspec.moments.aspect import Aspect


class Costs(Aspect):
    """The passes that products with `moments` take.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> moments = ls.Moments(np.eye(3), form="dense")
    >>> moments.cost.setup, moments.cost.sweep  # one pass forms the Gram matrix; products take none
    (1.0, 0.0)
    """

    @property
    def sweep(self) -> float:
        """The passes of one call of `products` after the set-up.

        0 if Gram matrices are held, 1 if one sweep of the rows computes all products, 2 if operators give only
        products.
        """
        return self._sweeps.passes if self._moments.form == "implicit" else 0.0

    @property
    def setup(self) -> float:
        """The passes before the first product: for the means, or to form the held matrices."""
        moments = self._moments
        if moments.held:
            return 0.0
        if moments._sharing is not None:
            return moments._sharing.cost.setup
        return self._sweeps.means_cost if moments.form == "implicit" else self._sweeps.gram_cost
