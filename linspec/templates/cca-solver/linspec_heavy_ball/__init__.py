"""A solver for linspec: canonical correlations by AppGrad with momentum."""
