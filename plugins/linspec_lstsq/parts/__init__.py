"""Least-squares solvers as parts of other methods, prepared for one matrix and many right-hand sides."""
