from linspec.studies.held_out.folds import cells_of as cells_of
from linspec.studies.held_out.folds import folds_of as folds_of
from linspec.studies.held_out.folds import training_and_held_out as training_and_held_out
from linspec.studies.held_out.grams import split_of as split_of
