"""How the command line states partial least squares and shows the answer."""

from linspec.cli import Kind, Score, center_option, count_option, first_numbers

COMMAND = Kind(
    name="pls",
    matrices=("X", "Y"),
    parameters=lambda: [count_option("singular triplets"), center_option(True)],
    answer=lambda solution: [("singular values", first_numbers(solution.singular_values, ".5g"))],
    score=Score("sum of singular values", "sum of σ", lambda fields: float(fields["singular_values"].sum())),
)
"""Read by `linspec solve pls`, `linspec compare pls` and the pictures."""
