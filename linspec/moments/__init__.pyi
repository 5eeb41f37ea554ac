from linspec.moments.pairs import Basis as Basis
from linspec.moments.pairs import multiplied as multiplied
from linspec.moments.row_gram import RowGram as RowGram
from linspec.moments.row_reduction import column_basis as column_basis
from linspec.moments.row_reduction import reduce_rows as reduce_rows
from linspec.moments.row_reduction import reduce_rows_of as reduce_rows_of
from linspec.moments.row_reduction import reduced_rows as reduced_rows
