"""Rows that come some at a time, from memory or slice by slice: one sweep makes products, means and triangles.

Problem: dense rows in memory and slices that come one after the other are read in different ways, and the same is made
of them.
Method: both ways run tasks over blocks of rows. What one sweep of fused products gives is concluded here, and the
triangles of images are made here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host, triangular_factor
from linspec.moments.base import Sweeps
from linspec.sweeps.held_grams import Products
from linspec.sweeps.image_triangles import ImageTriangle
from linspec.sweeps.products import Identity, Request, Sums
from linspec.sweeps.views import View


class RowSweeps(Sweeps):
    """The first sweep tells the means, whatever it makes."""

    reads_blocks = True

    @property
    def means_cost(self) -> float:
        """None: the means come with the products; the factors of scaled columns come before them."""
        return 1.0 if self._before() else 0.0

    @abstractmethod
    def _before(self) -> list[View]:
        """The views of which something must be known before the first product."""

    def _prepare(self) -> None:
        self.gather(self._before())

    def identity(self, index: int) -> Any:
        """One that is never built, where rows are dense, and nothing multiplies it on the way."""
        A = self.views[index].operator
        dense = all(view.operator.readable and not view.operator.sparse for view in self.views)
        return Identity(A.shape[1]) if dense and not self.adjusts else super().identity(index)

    def _products(
        self, blocks: list[Array | None], images: list[Array] | None, onto: tuple[int, ...]
    ) -> Products:
        request = self._request(blocks, onto)
        return self._conclude(request, self._summed(request).products, sweeps=1.0)

    @abstractmethod
    def _summed(self, request: Request, image: int = 0) -> Sums:
        """One sweep of products; the views learn their means from the first."""

    def triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V, and the triangle R of the QR factorisation of the first columns of X V, in one sweep."""
        with np.errstate(all="ignore"):  # what is not finite is found by the check
            blocks = self.prepared([V, None])
            request = self._request(blocks)
            found = self._summed(request, image=columns)
            product = self._adjusted(self._conclude(request, found.products, sweeps=1.0), blocks)[0]
        self.check_finite([product])
        return product, self._with_constant(found.triangle, blocks[0], columns)

    def image_triangle(self, V: Array) -> HostArray:
        """The triangle R of the QR factorisation of X V of the first view, in one sweep."""
        view = self.views[0]
        with np.errstate(all="ignore"):  # what is not finite is found by the check
            scaled = self.prepared([V, None])[0]
            about = None if view.lacks_mean else view.taken
            task = ImageTriangle(scaled, about, view.lacks_mean, view.model)
            part = self.run(task, V.shape[1])
        view.record(V.shape[1], 0, sweeps=1.0)
        R: HostArray = task.finished(part)
        return self._with_constant(R, scaled, V.shape[1])

    def _with_constant(self, R: HostArray, V: Array, columns: int) -> HostArray:
        """The triangle of an image, with the direction of the constant that is put back."""
        kept = self.views[0].kept
        if kept is None:
            return R
        return to_host(triangular_factor(np.vstack([R, to_host(kept @ V[:, :columns])])))
