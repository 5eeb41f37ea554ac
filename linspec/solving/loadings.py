"""Loadings: correlations of the columns with principal components or variates of the same rows.

Problem: weights show how a component is computed, and not which columns it is related to: columns that vary together
share one weight, and each of them is correlated with the component.
Method: structure correlations. With the Gram matrix S of the rows, less their means and what confounds explain of them,

    the correlation of column j with the component of the weights w is (Sw)ⱼ / √(Sⱼⱼ wᵀSw),    (1)

and its squares are averaged over the columns that vary (variance extracted, redundancy). One pass multiplies weights by
S and sums the squares Sⱼⱼ.
Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients); Stewart &
Love 1968, Psychological Bulletin 70:160, doi:10.1037/h0026143 (means of squares).
Where we differ: no variate of n rows is made where the components are linear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.errors import InvalidProblem, MissingCapability
from linspec.frames import check_order
from linspec.operators import LinearOperator, as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.rows import Moments, Passes, Preprocessing
from linspec.solving.checks import check_home


class Loadings(NamedTuple):
    """Correlations of columns with components of the same rows.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (p, k)
        Between -1 and 1; 0 for a column or a component that does not vary.
    varies : numpy.ndarray of shape (p,), of bool
        Which columns vary.
    products : numpy.ndarray of shape (p, k)
        Sw for the weights w of each component.
    lengths : numpy.ndarray of shape (k,)
        The lengths √(wᵀSw) of the components over the rows.
    operator : LinearOperator
        The rows.
    """

    correlations: HostArray
    varies: HostArray
    products: HostArray
    lengths: HostArray
    operator: LinearOperator

    @classmethod
    def of(
        cls, products: HostArray, squares: HostArray, components: HostArray, operator: LinearOperator
    ) -> Loadings:
        """Compute (1) from Sw, the squares Sⱼⱼ and the squares wᵀSw."""
        lengths = np.sqrt(np.maximum(components, 0.0))
        found = products * reciprocal(np.sqrt(squares))[:, None] * reciprocal(lengths)
        return cls(np.clip(found, -1.0, 1.0), squares > 0, products, lengths, operator)

    @property
    def given_back(self) -> Array:
        """The correlations in the library, on the device and in the working dtype of the rows."""
        return self.operator.home.place(self.correlations, self.operator.dtype)

    @property
    def mean_squares(self) -> HostArray:
        """For each component, the mean of its squared correlations with the columns that vary; 0 if none does."""
        squares = self.correlations[self.varies] ** 2
        return np.asarray(squares.mean(axis=0) if len(squares) else np.zeros(squares.shape[1]))


def moments_of_rows(
    given: Mapping[str, Any],
    *,
    center: bool,
    confounds: Any = None,
    sample_weight: Any = None,
    passes: Passes | None = None,
) -> Moments:
    """The moments of rows as they are passed, which are preprocessed by their own means and confounds.

    Parameters
    ----------
    given : mapping of str to data of shape (n, p)
        By their names in messages.
    center : bool
        Whether means are subtracted.
    confounds : array of shape (n, c), optional
        Their effect in these rows is subtracted.
    sample_weight : array of shape (n,), optional
        How often each row counts.
    passes : Passes, optional
        The count of passes of a run around.

    Raises
    ------
    MissingCapability
        If the lengths of columns are not known.
    UnsupportedData
        If two matrices are in different libraries or on different devices.
    InvalidProblem
        If they have different numbers of rows, or rows in different orders.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.solving import moments_of_rows
    >>> R = moments_of_rows({"X": np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])}, center=True).triangle()
    >>> (R.T @ R).round(9)  # the products of columns less their means
    array([[8., 4.],
           [4., 8.]])
    """
    operators = {name: as_operator(data, name) for name, data in given.items()}
    check_order({**given, "confounds": confounds, "sample_weight": sample_weight}, again=True)
    first = next(iter(operators))
    for name, A in operators.items():
        if not (A.readable or A.streamed):
            raise MissingCapability(
                f"loadings need the lengths of the columns, which are unknown for {name}: {A!r}. Pass the rows as an "
                "array, a sparse matrix, a file or slices."
            )
        check_home(first, operators[first], name, A)
    n = min(A.shape[0] for A in operators.values())
    w, Z = weights_and_confounds(sample_weight, confounds, n)
    pre = Preprocessing.of(center=center, weights=w, confounds=Z)
    return Moments([A.in_blocks(name) for name, A in operators.items()], pre, passes, list(given))


def loadings_of(
    given: Mapping[str, Any], weights: Sequence[Array | None], *, crossed: bool = False, **rows: Any
) -> list[Loadings]:
    """The correlations of each column of some matrices with components of the same rows, from one pass.

    Parameters
    ----------
    given : mapping of str to data of shape (n, p)
        By their names in messages.
    weights : sequence of array of shape (p, k), or None
        Of each matrix; None for a matrix without components.
    crossed : bool, default False
        Whether the columns of each of two matrices are correlated with the components of the other one.
    **rows
        `center`, `confounds` and `sample_weight` of `moments_of_rows`, like the errors.

    Returns
    -------
    list of Loadings
        Of each matrix that has components, or whose other matrix has some.

    Raises
    ------
    InvalidProblem
        Also when the number of columns of the data is not the number of rows of the weights.
    """
    operators = {name: as_operator(data, name) for name, data in given.items()}
    for W, (name, A) in zip(weights, operators.items(), strict=True):
        if W is not None and W.shape[0] != A.shape[1]:
            raise InvalidProblem(
                f"{name} must have the {W.shape[0]} columns of the training data; got {A.shape[1]}."
            )
    moments = moments_of_rows(operators, **rows)
    place = moments.operators[0].backend.blocks
    blocks = [None if W is None else place.place(W) for W in weights]
    products, found = moments.products(*blocks), []
    for i, A in enumerate(operators.values()):
        j = 1 - i if crossed else i
        if blocks[j] is not None:
            of = to_host(place.column_sums(blocks[j] * products[j][j]))
            found.append(Loadings.of(to_host(products[j][i]), moments.fitted[i].squares, of, A))
    return found
