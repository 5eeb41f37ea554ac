"""A record of what a commit of linspec answers, through public names, and the comparison of two records."""

import os


def wanted(name: str) -> bool:
    """Whether this entry was asked for with --only."""
    return os.environ.get("RECORD_ONLY", "") in name


def quick() -> bool:
    """Whether --quick was asked for."""
    return bool(os.environ.get("RECORD_QUICK"))
