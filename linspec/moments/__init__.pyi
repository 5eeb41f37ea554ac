from linspec.moments.pairs import Basis as Basis
from linspec.moments.pairs import multiplied as multiplied
