"""Cross-validation: choice of ridge and k by rows that were not fitted. Read `folds` first.

- `folds`: training and held-out rows of each split, and "cells": sets of rows whose unions are these sets;
- `cells`: the moments of all cells, computed in one sweep, and their merging;
- `grams`: Gram matrices of training and held-out rows, adjusted by means and slopes of the training rows;
- `scores`: the base class of scores, and the factorisations that all ridges share;
- `defaults`: scores of problems that name none;
- `by_solving`: scores without Gram matrices, by one solve for each ridge and split;
- `result`, `validation`: the result, and `linspec.cross_validate`.
"""
