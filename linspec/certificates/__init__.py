"""What is said of answers. Read `metric`, then `linear` and `norms`."""

from linspec.certificates.linear import (
    LinearCertificate,
    certify_linear,
    digits,
    metric_pays,
    needs_metric,
    sketch_pays,
)
from linspec.certificates.metric import SKETCH_ROWS, Metric, NearDiagonal, Preconditioned
from linspec.certificates.norms import (
    cuts_short_ones,
    gram_pays,
    noise_of,
    norms_of_held,
    rounding_of,
    short_directions,
    weakest,
    with_norms,
)

__all__ = [
    "SKETCH_ROWS",
    "LinearCertificate",
    "Metric",
    "NearDiagonal",
    "Preconditioned",
    "certify_linear",
    "cuts_short_ones",
    "digits",
    "gram_pays",
    "metric_pays",
    "needs_metric",
    "noise_of",
    "norms_of_held",
    "rounding_of",
    "short_directions",
    "sketch_pays",
    "weakest",
    "with_norms",
]
