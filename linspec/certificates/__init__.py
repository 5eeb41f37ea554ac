"""What is said of answers. Read `metric`, then `linear` and `pencil`."""

from linspec.certificates.linear import LinearCertificate, certify_linear, digits, metric_pays, needs_metric
from linspec.certificates.metric import Euclidean, Metric
from linspec.certificates.pencil import PencilCertificate, Products, certify_pencil, enclosure

__all__ = [
    "Euclidean",
    "LinearCertificate",
    "Metric",
    "PencilCertificate",
    "Products",
    "certify_linear",
    "certify_pencil",
    "digits",
    "enclosure",
    "metric_pays",
    "needs_metric",
]
