"""Problems, solvers, the run between them, and the solution with its certificate.

Read `problem` first, then `solver`, then `on_rows` and `run`. `verdict` says how a run ended. `solution` is what users
get. `solve` has the one call; `select` chooses a solver.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "COMPONENT_SCORES": "linspec.solving.linear_solution",
    "ComponentRegressionSolution": "linspec.solving.linear_solution",
    "with_parts": "linspec.registry.options",
    "NewRows": "linspec.solving.new_rows",
    "PredictionScore": "linspec.solving.prediction_score",
    "Solver": "linspec.solving.solver",
    "RegressionSolution": "linspec.solving.linear_solution",
    "RidgesSolution": "linspec.solving.along_ridges",
    "WithRidges": "linspec.solving.along_ridges",
    "check_rows_count": "linspec.solving.checks",
    "adopt": "linspec.solving.stating",
    "check_columns": "linspec.solving.tables",
    "check_flag": "linspec.solving.checks",
    "check_device": "linspec.solving.checks",
    "check_k": "linspec.solving.checks",
    "check_ridge": "linspec.solving.checks",
    "check_rows": "linspec.solving.checks",
    "fewer_than_asked": "linspec.solving.verdict",
    "finite_array": "linspec.solving.checks",
    "left_out_nearby": "linspec.solving.verdict",
    "moments_of_rows": "linspec.solving.linear_solution",
    "refuse_iterators": "linspec.solving.checks",
    "score_of_predictions": "linspec.solving.prediction_score",
    "table_of_columns": "linspec.solving.tables",
    "table_of_components": "linspec.solving.tables",
    "table_of_features": "linspec.solving.tables",
    "table_of_rows": "linspec.solving.tables",
    "table_of_training_rows": "linspec.solving.tables",
    "vectors_by_name": "linspec.solving.tables",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
