"""A solver for linspec: least squares by gradient descent with two-point step sizes."""
