"""One pass over the rows: what is made of them (tasks), who makes it (runners), and rows that lie in blocks elsewhere.

Read `task` first: what a task is, and the tree by which its parts are merged. `statistics`, `products`,
`gram_matrices`, `triangles`, `finite` and `images` are tasks, `runners` lets threads make them over rows in memory, and
`blocks` sends them to where the rows lie. `views` is a matrix with what is subtracted from it, and `held_grams` keeps
Gram matrices that answer without a sweep.
"""
