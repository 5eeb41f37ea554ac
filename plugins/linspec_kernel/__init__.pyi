from linspec_kernel.problem import KernelCCA as KernelCCA
from linspec_kernel.solution import KernelCCASolution as KernelCCASolution
