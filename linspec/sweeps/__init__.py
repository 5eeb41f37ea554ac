"""Sweeps over the rows of views: what is made of them (tasks), who makes it (runners), and which way fits the data.

- `task`: what a task is, and the tree by which its parts are merged;
- `statistics`, `fused`, `gramians`, `triangles`, `finite`, `images`: the tasks;
- `runners`: threads over blocks of rows in memory;
- `base`, `blocks`, `sparse`, `slices`, `products`: one file a way to sweep, and `ways`, which chooses;
- `source`: Gram matrices that are held, or a sweep at each product;
- `transposed`: sparse matrices with few rows.
"""
