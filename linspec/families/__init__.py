"""The families of problems that linspec ships, one folder each: problem, certificate, solution, command line and tests.

Read `svd` first, which is the shortest. `plugin` holds their records: the core finds them there, in the same way as the
records of other packages.
"""
