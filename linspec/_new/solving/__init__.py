"""What is said of answers. Read `metric`, then `linear` and `pencil`."""

from linspec._new.solving.linear import LinearCertificate, certify_linear
from linspec._new.solving.metric import Euclidean, Metric
from linspec._new.solving.pencil import PencilCertificate, Products, certify_pencil

__all__ = [
    "Euclidean",
    "LinearCertificate",
    "Metric",
    "PencilCertificate",
    "Products",
    "certify_linear",
    "certify_pencil",
]
