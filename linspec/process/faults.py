"""Whether an exception means that the memory ran out."""

from __future__ import annotations

import errno

__all__ = ["is_out_of_memory"]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out.

    Parameters
    ----------
    error : BaseException
        These count: MemoryError of Python and NumPy; OutOfMemoryError of torch and CuPy, recognized by name; an
        OSError with the number ENOMEM; and an ImportError caused by one of these.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"MemoryError", "OutOfMemoryError"} or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    cause = error.__cause__ or error.__context__ if isinstance(error, ImportError) else None
    return cause is not None and is_out_of_memory(cause)
