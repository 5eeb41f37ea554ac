"""Answers beside the data that they belong to: in an AnnData, or over the coordinates of a DataArray of xarray.

Problem: scores, weights and loadings are arrays, but the tools of a field look for them where its data are: in obsm and
varm of an AnnData, or in variables over the coordinates of a map.
Method: one reading of the rows gives scores, and one gives loadings. Rows of an AnnData are matched with the answer by
the names of its variables, so an answer on the highly variable genes goes into the AnnData of all genes. Labels of
xarray are those of the data, with all their levels, so `unstack` makes maps of weights and loadings.
Source: the names of principal components in scanpy (Wolf, Angerer & Theis 2018, doi:10.1186/s13059-017-1382-0).
Where we differ: neither library is imported. Data are known by their classes, and are asked to hold the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec.arrays import to_host
from linspec.errors import InvalidProblem, UnsupportedData, shown
from linspec.frames import column_names_of
from linspec.operators import LinearOperator, as_operator
from linspec.operators.opening import labelled
from linspec.workers import brought_here

# ---- AnnData ------------------------------------------------------------------------------------


def annotated_rows(solution: Any, passed: Mapping[str, Any], layer: str | None) -> dict[str, LinearOperator]:
    """Return the rows of each AnnData, with the variables of the answer in its order where these have names.

    Raises
    ------
    UnsupportedData
        One is no AnnData, or a view: what is written to a view goes into a copy.
    InvalidProblem
        Two matrices have the same AnnData, or there is no such layer.
    """
    rows = {}
    for matrix, annotated in passed.items():
        _check_annotated(matrix, annotated, layer)
        known, names = solution.column_names.get(matrix), column_names_of(annotated)
        some = annotated
        if known and names and known != names and set(known) <= set(names):
            some = annotated[:, list(known)]
        if layer is not None:
            some = labelled(some.layers[layer], some.obs_names, columns=column_names_of(some))
        rows[matrix] = as_operator(some, matrix)
    if len(set(map(id, passed.values()))) < len(passed):
        raise InvalidProblem(
            f"write_to must be given an AnnData for each of {', '.join(passed)}; got the same one twice. Pass a copy."
        )
    return rows


def _check_annotated(matrix: str, annotated: Any, layer: str | None) -> None:
    holds = all(hasattr(annotated, part) for part in ("obsm", "varm", "uns")) and not hasattr(
        annotated, "mod"
    )
    if not holds or getattr(annotated, "is_view", False):
        raise UnsupportedData(
            f"write_to must be given an AnnData for {matrix} that is no view; got a {type(annotated).__name__}"
            f"{', a view: what is written to it goes into a copy' * holds}. Pass the AnnData with these rows, or that "
            "the view shows, whose variables are found by their names; of a MuData its modalities, as in "
            'write_to(data["rna"], data["atac"]).'
        )
    if layer is not None and layer not in annotated.layers:
        raise InvalidProblem(
            f"layer must be one of {', '.join(map(repr, annotated.layers)) or 'none'}; got {shown(layer)}. Pass the "
            "layer that was solved for."
        )


def write_annotated(
    annotated: Any, names: Mapping[str, str], parts: Mapping[str, Any], rows: LinearOperator
) -> None:
    """Write scores, weights and loadings of one matrix into its AnnData, under these names.

    Variables that the answer does not know have no part in its scores, weight 0, and no known correlation, NaN.
    """
    known = rows.column_names
    places = slice(None) if known is None else annotated.var_names.get_indexer(list(known))
    annotated.obsm[names["scores"]] = to_host(brought_here(parts["scores"]))
    for part, unknown in (("weights", 0.0), ("loadings", np.nan)):
        if part in parts:
            values = to_host(parts[part])
            whole = np.full((len(annotated.var_names), values.shape[1]), unknown, values.dtype)
            whole[places] = values
            annotated.varm[names[part]] = whole


# ---- xarray -------------------------------------------------------------------------------------


def check_data_arrays(passed: Mapping[str, Any]) -> None:
    """Refuse data without coordinates: only a DataArray with two dimensions has them for rows and for columns."""
    for matrix, data in passed.items():
        if not hasattr(data, "coords") or getattr(data, "ndim", 0) != 2:
            raise UnsupportedData(
                f"to_xarray must be given a DataArray of xarray with two dimensions for {matrix}; got a "
                f"{type(data).__name__} of shape {shown(getattr(data, 'shape', None))}. Make one of the rows, or take "
                "the arrays of transform and loadings."
            )


def data_set_of(data: Any, component: str, values: Mapping[str, Any], parts: Mapping[str, Any]) -> Any:
    """Return scores, weights and loadings of one matrix over the coordinates of its data, as a Dataset of xarray.

    Underscores are appended to a name that the data have already.
    """
    coordinates = data.coords.to_dataset()

    def free(name: str) -> str:
        return free(f"{name}_") if name in coordinates or name in data.dims else name

    component = free(component)
    variables: dict[str, Any] = {free(name): (component, array) for name, array in values.items()}
    for part, array in parts.items():
        variables[free(part)] = (data.dims[part != "scores"], component), array
    numbers = np.arange(1, 1 + parts["scores"].shape[1])
    return coordinates.assign(variables).assign_coords({component: numbers})
