"""A solver for linspec: least squares by gradient descent whose steps come one iteration late."""
