from linspec_kernel.preimage.problem import PreimageCCA as PreimageCCA
from linspec_kernel.preimage.solution import PreimageCCASolution as PreimageCCASolution
from linspec_kernel.problem import KernelCCA as KernelCCA
from linspec_kernel.ridge.problem import KernelRidge as KernelRidge
from linspec_kernel.ridge.solution import KernelRidgeSolution as KernelRidgeSolution
from linspec_kernel.solution import KernelCCASolution as KernelCCASolution
