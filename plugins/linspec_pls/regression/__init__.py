"""Regression on components of largest covariance.

Read `components` first: the deflation that defines a component. The law, the solvers and the scores all use it.
"""
