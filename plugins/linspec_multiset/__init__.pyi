from linspec_multiset.problem import MultisetCCA as MultisetCCA
from linspec_multiset.problem import MultisetCCASolution as MultisetCCASolution
from linspec_multiset.sumcor import SumcorCCA as SumcorCCA
from linspec_multiset.sumcor import SumcorCCASolution as SumcorCCASolution
