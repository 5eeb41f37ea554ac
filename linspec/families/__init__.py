"""The families of problems that linspec ships, one folder each: the problem with its law, the solution, and studies.

Read `svd` first, which is the shortest. `plugin` holds their records: the core finds them there, in the same way as the
records of other packages.
"""
