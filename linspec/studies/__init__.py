"""Questions that take more than one solve: which solver is better, and which ridge or rank holds on rows set aside.

Read `comparison` first; `held_out` is cross-validation.
"""
