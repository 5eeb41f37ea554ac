"""The table of contents: what this package provides. It imports no array library."""

from linspec import OperatorSpec, hookimpl


def matches(data):
    """Whether data are of our class. linspec asks for every object that it does not know, so this imports nothing."""
    kind = type(data)
    return kind.__name__ == "NpzShards" and kind.__module__ == "linspec_npz_shards.npz_shards"


def adapt(data):
    """Make the operator that reads the data."""
    from linspec_npz_shards.npz_shards import NpzShardsOperator

    return NpzShardsOperator(data)


@hookimpl
def linspec_operators():
    return [
        OperatorSpec(
            name="npz-shards",
            matches=matches,
            adapt=adapt,
            summary="Rows in several .npz files, one below the other; one file is in memory at a time.",
            sample="linspec_npz_shards.samples:sample",
        )
    ]
