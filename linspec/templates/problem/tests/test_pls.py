"""The contract of the problem and of every solver."""

from linspec.testing import conformance

test_problem = conformance("problem/pls")
test_gram = conformance("pls/gram")
test_power = conformance("pls/power")
