from linspec.families.cca.law.evidence import SKETCH as SKETCH
from linspec.families.cca.law.evidence import Evidence as Evidence
from linspec.families.cca.law.evidence import inverse_norms as inverse_norms
from linspec.families.cca.law.evidence import probes as probes
from linspec.families.cca.law.evidence import random_signs as random_signs
from linspec.families.cca.variates import single_or_pair as single_or_pair
from linspec.families.cca.views import TwoViewSolution as TwoViewSolution
