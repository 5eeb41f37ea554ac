from linspec.studies.held_out.folds import Folds as Folds
from linspec.studies.held_out.folds import folds_of as folds_of
from linspec.studies.held_out.grams import Split as Split
from linspec.studies.held_out.grams import split_of as split_of
from linspec.studies.held_out.row_sums import training_and_held_out as training_and_held_out
from linspec.studies.held_out.row_sums import union as union
