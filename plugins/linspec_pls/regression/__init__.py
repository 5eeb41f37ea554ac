"""Regression on components of largest covariance.

Read `components` first: the deflation that defines a component. The certificate, the solvers and the scores use it.
"""
