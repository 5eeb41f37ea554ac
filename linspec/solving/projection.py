"""Random projections: the rows of a matrix in fewer dimensions, with nearly the same lengths and distances.

Problem: there are n points in p dimensions, p is large, and the next step needs only distances or inner
products.
Method: A Ω / √l for a random p x l matrix Ω whose entries have mean zero and variance one. The projection
preserves the expected squared length of each row. The distances between n points change by factors within 1 ±
ε for l of the order log(n)/ε² (Johnson and Lindenstrauss 1984).
Source: Achlioptas 2003, doi:10.1016/S0022-0000(03)00025-4; Li, Hastie and Church 2006,
doi:10.1145/1150402.1150436.
Where we differ: any registered test matrix can be used. It is not stored if it can be made from its seed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import scipy.sparse

from linspec import registry
from linspec.arrays import random_generator, with_device
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.operators import as_operator
from linspec.registry import options
from linspec.registry.options import is_number
from linspec.rows import check_products
from linspec.solving.parts import TestMatrix

if TYPE_CHECKING:
    from linspec.arrays import Array


@with_device
def project(
    A: Any, columns: int, test_matrix: str | TestMatrix = "sparse-sign", *, rng: Any = None, **options_: Any
) -> Array:
    """Project the rows of a matrix onto fewer dimensions at random.

    Parameters
    ----------
    A : array, sparse matrix, file or operator, shape (n, p)
        Anything that `linspec.as_operator` takes. Its rows are read once.
    columns : int
        The number l of dimensions of the result.
    test_matrix : str or TestMatrix, default "sparse-sign"
        A registered test matrix by name (`linspec.test_matrices()` lists them), or an instance.
    rng : None, int or numpy.random.Generator
        A seed gives the same projection on every array library and device, so later rows can be projected
        in the same way.
    **options_
        Options of the test matrix, if it is given by name.

    Returns
    -------
    array of shape (n, l)
        A Ω / √l, with E‖xΩ‖²/l = ‖x‖² for every row x, in A's library, on its device and in its working dtype
        (float32 stays). For files and operators it is a NumPy array. For SciPy sparse data it is a sparse
        matrix in CSR format if the test matrix has few nonzero entries, and otherwise a NumPy array.

    Raises
    ------
    InvalidProblem
        `columns` is no positive integer, or A is no matrix.
    InvalidOption, UnknownOption
        The test matrix, or one of its options, is not valid.
    NonFiniteData
        An entry of A is NaN or infinite.
    UnknownName
        No test matrix has this name.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec
    >>> A = np.random.default_rng(0).standard_normal((5, 4000))
    >>> P = linspec.project(A, 1000, rng=1)
    >>> ratios = np.linalg.norm(P, axis=1) / np.linalg.norm(A, axis=1)
    >>> bool(np.all(np.abs(ratios - 1) < 0.1))
    True
    """
    data = as_operator(A, "A")
    if not is_number(columns, int) or columns < 1:
        raise InvalidProblem(f"columns must be an integer >= 1; got {shown(columns)}.")
    width, matrix = int(columns), cast("Any", test_matrix)
    if isinstance(test_matrix, str):
        matrix = options.build(registry.get_part("test-matrix", test_matrix), options_)
    elif options_ or not isinstance(matrix, TestMatrix):
        raise InvalidOption(
            f"test_matrix must be a name ({', '.join(registry.test_matrices())}) and its options, or a TestMatrix "
            f"instance; got {shown(test_matrix)} with {', '.join(options_) or 'no options'}."
        )
    if data.dtype.itemsize * data.shape[0] * width > data.device.free_memory():
        raise InvalidProblem(
            f"columns must leave room for the result; got {shown(columns)}, for {data.shape[0]} rows. Ask for fewer."
        )
    Omega = matrix.operator(data.shape[1], width, random_generator(rng))
    scale = 1.0 / math.sqrt(width)
    product = Omega.sketch(data)
    sparse = scipy.sparse.issparse(product)
    check_products(product.data if sparse else product, A=data.in_blocks("A"), name="A")
    if sparse and not isinstance(data.stored_array, scipy.sparse.sparray):
        product = scipy.sparse.csr_matrix(product)
    if not data.readable:  # its products may be arrays of its own
        return product * scale
    product *= scale
    return product
