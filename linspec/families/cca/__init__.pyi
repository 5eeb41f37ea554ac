from linspec.families.cca.law.evidence import SKETCH as SKETCH
from linspec.families.cca.law.evidence import Evidence as Evidence
from linspec.families.cca.law.evidence import norms_by as norms_by
from linspec.families.cca.law.evidence import probes as probes
from linspec.families.cca.law.evidence import random_signs as random_signs
from linspec.families.cca.variates import one_or_both as one_or_both
from linspec.families.cca.views import TwoViewSolution as TwoViewSolution
