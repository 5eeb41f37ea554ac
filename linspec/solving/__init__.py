"""Problems, solvers, the run between them, and the solution with its certificate.

Read `problem` first, then `solver`, which has `linspec.solve`, then `run`: what a solver may ask of a run, and how that
counts and ends. `solution` is what users get.
"""
