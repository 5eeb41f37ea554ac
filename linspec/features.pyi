from linspec.kernels.features import FeatureMap as FeatureMap
from linspec.kernels.features import FeatureOperator as FeatureOperator
from linspec.kernels.features import FourierMap as FourierMap
from linspec.kernels.features import KernelMap as KernelMap
from linspec.kernels.features import drawn_rows as drawn_rows
from linspec.kernels.features import fourier as fourier
from linspec.kernels.features import nystrom as nystrom
from linspec.kernels.features import turn_of as turn_of
