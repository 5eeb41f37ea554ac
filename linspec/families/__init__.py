"""The families of problems that linspec ships, a folder each: problem, law, solution and what goes with them.

Read `svd` first, which is the shortest. `plugin` has their records: the core finds them there, as it finds those of
others.
"""
