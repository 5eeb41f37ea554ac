from linspec.moments.row_gram import RowGram as RowGram
from linspec.moments.row_reduction import column_basis as column_basis
from linspec.moments.row_reduction import reduce_rows as reduce_rows
from linspec.moments.row_reduction import reduce_rows_of as reduce_rows_of
from linspec.moments.row_reduction import reduced_rows as reduced_rows
from linspec.moments.row_reduction import sum_with_short as sum_with_short
