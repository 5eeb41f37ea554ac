from linspec.targets.matrices import cca as cca
from linspec.targets.matrices import classes_of as classes_of
from linspec.targets.matrices import hsl as hsl
from linspec.targets.matrices import lda as lda
from linspec.targets.matrices import opls as opls
from linspec.targets.matrices import targets_of_classes as targets_of_classes
