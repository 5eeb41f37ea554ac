"""Cross-validation: choice of ridge and k by rows that were not fitted. Read `folds` first.

- `folds`: training and held-out rows of each split, and the moments of "cells": sets of rows whose unions are these;
- `grams`: Gram matrices of training and held-out rows, adjusted by means and slopes of the training rows;
- `scores`: the base class of scores, the factorisations that all ridges share, scores of predictions, and of problems
  that name none;
- `validation`: `linspec.cross_validate`, and its result.
"""
