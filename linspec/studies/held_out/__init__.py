"""Choice of ridge and k by rows that were not fitted. Read `folds` first.

- `folds`: training and held-out rows of each split, and the cells of rows that all these sets are unions of;
- `row_sums`: the moments of all cells, computed in one sweep, and their merging;
- `grams`: Gram matrices of training and held-out rows, both adjusted by means and slopes of the training rows;
- `scores`: the base class of scores, and the factorisations that all ridges share;
- `forms`: cost estimates of the two ways, from which "auto" chooses;
- `by_solving`: scores without Gram matrices, by one solve for each ridge and split;
- `result`, `validation`: the result, and `linspec.cross_validate`.
"""
