from linspec_kernel.preimage.problem import PreimageCCA as PreimageCCA
from linspec_kernel.preimage.problem import PreimageCCASolution as PreimageCCASolution
from linspec_kernel.problem import KernelCCA as KernelCCA
from linspec_kernel.problem import KernelCCASolution as KernelCCASolution
from linspec_kernel.ridge.problem import KernelRidge as KernelRidge
from linspec_kernel.ridge.problem import KernelRidgeSolution as KernelRidgeSolution
