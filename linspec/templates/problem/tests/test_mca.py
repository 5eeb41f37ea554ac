"""The contract of the problem and of every solver."""

from linspec.testing import conformance

test_problem = conformance("problem/mca")
test_gram = conformance("mca/gram")
test_power = conformance("mca/power")
