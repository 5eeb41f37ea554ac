from linspec.cli.kinds import Kind as Kind
from linspec.cli.kinds import Score as Score
from linspec.cli.kinds import center_option as center_option
from linspec.cli.kinds import count_option as count_option
from linspec.cli.kinds import first_numbers as first_numbers
from linspec.cli.kinds import ridge_option as ridge_option
from linspec.cli.kinds import row_options as row_options
from linspec.cli.program import main as main
