"""Ridge regression of very many targets: a ridge and weights of bands for each, chosen by held-out rows.

Read `problem` first, then `choice`, which chooses, and the two solvers: `gram` by columns and `kernel` by rows.
"""
