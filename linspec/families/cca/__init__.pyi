from linspec.families.cca.canonical import Gains as Gains
from linspec.families.cca.canonical import Pairs as Pairs
from linspec.families.cca.canonical import all_pairs as all_pairs
from linspec.families.cca.canonical import block_width as block_width
from linspec.families.cca.canonical import first_blocks as first_blocks
from linspec.families.cca.canonical import multiplied as multiplied
from linspec.families.cca.variates import TwoViewSolution as TwoViewSolution
