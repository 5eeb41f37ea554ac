from typing import Any

from linspec import datasets as datasets
from linspec import errors as errors
from linspec import features as features
from linspec import kernels as kernels
from linspec import metrics as metrics
from linspec import plots as plots
from linspec import targets as targets
from linspec import testing as testing
from linspec.families.cca.inference.bootstrap import bootstrap as bootstrap
from linspec.families.cca.inference.permutation import null_correlations as null_correlations
from linspec.families.cca.inference.permutation import permutation_test as permutation_test
from linspec.families.cca.inference.significance import significance as significance
from linspec.families.cca.problem import CCA as CCA
from linspec.families.cca.solution import CCASolution as CCASolution
from linspec.families.discriminant.classifier import LinearClassifier as LinearClassifier
from linspec.families.discriminant.problem import Discriminant as Discriminant
from linspec.families.discriminant.solution import DiscriminantSolution as DiscriminantSolution
from linspec.families.least_squares.problem import LeastSquares as LeastSquares
from linspec.families.least_squares.solution import LeastSquaresSolution as LeastSquaresSolution
from linspec.families.ridge_path import ridge_path as ridge_path
from linspec.families.svd.problem import SVD as SVD
from linspec.families.svd.solution import SVDSolution as SVDSolution
from linspec.kernels.kernel_matrices import KernelOperator as KernelOperator
from linspec.moments.moments import Moments as Moments
from linspec.operators import LinearOperator as LinearOperator
from linspec.operators import as_operator as as_operator
from linspec.operators import open_rows as open_rows
from linspec.operators import paired as paired
from linspec.operators.labelled import labelled as labelled
from linspec.registry.hookspecs import hookimpl as hookimpl
from linspec.registry.loading import PluginInfo as PluginInfo
from linspec.registry.options import form_option as form_option
from linspec.registry.options import limit_option as limit_option
from linspec.registry.options import option as option
from linspec.registry.options import part as part
from linspec.registry.options import sweeps_option as sweeps_option
from linspec.registry.options import tol_option as tol_option
from linspec.registry.queries import describe as describe
from linspec.registry.queries import normalizers as normalizers
from linspec.registry.queries import plugins as plugins
from linspec.registry.queries import problems as problems
from linspec.registry.queries import register as register
from linspec.registry.queries import solvers as solvers
from linspec.registry.queries import test_matrices as test_matrices
from linspec.registry.spec import Needs as Needs
from linspec.registry.spec import NormalizerSpec as NormalizerSpec
from linspec.registry.spec import OperatorSpec as OperatorSpec
from linspec.registry.spec import ProblemSpec as ProblemSpec
from linspec.registry.spec import SolverSpec as SolverSpec
from linspec.registry.spec import TestMatrixSpec as TestMatrixSpec
from linspec.solving.checkpoints import Checkpoint as Checkpoint
from linspec.solving.conclusion import Conclusion as Conclusion
from linspec.solving.normalizer import Normalizer as Normalizer
from linspec.solving.problem import Problem as Problem
from linspec.solving.projection import project as project
from linspec.solving.random_test_matrix import TestMatrix as TestMatrix
from linspec.solving.run import Run as Run
from linspec.solving.select import Selection as Selection
from linspec.solving.select import select as select
from linspec.solving.solution import Solution as Solution
from linspec.solving.solution import Status as Status
from linspec.solving.solution import load_solution as load_solution
from linspec.solving.solve import solve as solve
from linspec.solving.solver import LeastSquaresState as LeastSquaresState
from linspec.solving.solver import Solver as Solver
from linspec.studies.comparison import Comparison as Comparison
from linspec.studies.comparison import compare as compare
from linspec.studies.held_out.result import CrossValidation as CrossValidation
from linspec.studies.held_out.scores import HeldOutScore as HeldOutScore
from linspec.studies.held_out.validation import cross_validate as cross_validate

__version__: str

# The registry knows no classes: what its functions give is said here.
def get_problem(name: str) -> type[Problem[Any]]: ...
def get_solver(name: str, problem: Any = None) -> type[Solver]: ...
