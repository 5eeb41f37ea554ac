"""Second moments of one or two matrices: Gram matrices that are held, or products that sweep the rows.

Read `moments` first, which has the class `linspec.Moments`; `source` is what it inherits, and decides what is held.
`base`, `row_sweeps`, `by_products`, `sparse` and `transposed` are the ways to sweep.
"""
