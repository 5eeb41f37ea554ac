"""What is said of answers. Read `metric`, then `linear`."""

from linspec._new.solving.linear import LinearCertificate, certify_linear
from linspec._new.solving.metric import Metric

__all__ = ["LinearCertificate", "Metric", "certify_linear"]
