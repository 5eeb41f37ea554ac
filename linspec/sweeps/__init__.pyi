from linspec.sweeps.blocks import BlockOperator as BlockOperator
from linspec.sweeps.blocks import Call as Call
from linspec.sweeps.blocks import Engine as Engine
from linspec.sweeps.blocks import InProcess as InProcess
