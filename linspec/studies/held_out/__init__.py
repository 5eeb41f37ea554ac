"""Choosing the numbers of a problem by rows that were not fitted. Read `folds` first.

- `folds`: which rows are fitted and which are held out, and how few sets of rows all splits are made of;
- `row_sums`: the moments of a set of rows, gathered for all sets in one sweep and merged;
- `grams`: Gram matrices of training and held-out rows, with what the training rows say subtracted from both;
- `scores`: what a problem scores, and the factorisations that its ridges share;
- `forms`: what either way takes, and so which one "auto" is;
- `by_solving`: the same where no Gram matrices can be held, one solve a ridge and split;
- `result`, `validation`: what is returned, and `linspec.cross_validate`.
"""
