"""Answers beside their data: in an AnnData under the names of scanpy, over the coordinates of a DataArray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, UnsupportedData

RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((40, 2))
COUNTS = SHARED @ RNG.standard_normal((2, 6)) * 3 + RNG.standard_normal((40, 6)) + 4
PROTEINS = SHARED @ RNG.standard_normal((2, 3)) * 3 + RNG.standard_normal((40, 3))
CELLS, GENES = [f"cell{i}" for i in range(40)], [f"gene{j}" for j in range(6)]


def sign_free(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), rtol=1e-8, atol=1e-10)


# ---- AnnData ----------------------------------------------------------------------------------


class AnnData:
    """What linspec asks of an `anndata.AnnData`."""

    def __init__(self, X: Any, genes: list[str], cells: list[str] = CELLS) -> None:
        pd = pytest.importorskip("pandas", reason="no pandas")
        self.X, self.obs_names, self.var_names = X, pd.Index(cells), pd.Index(genes)
        self.layers: dict[str, Any] = {}
        self.obsm: dict[str, Any] = {}
        self.varm: dict[str, Any] = {}
        self.uns: dict[str, Any] = {}
        self.is_view = False

    def __getitem__(self, chosen: tuple[slice, list[str]]) -> AnnData:
        rows, names = chosen
        places = self.var_names.get_indexer(names)
        part = AnnData(self.X[rows][:, places], list(names), list(self.obs_names[rows]))
        part.layers = {name: layer[rows][:, places] for name, layer in self.layers.items()}
        part.is_view = True
        return part


AnnData.__module__ = "anndata._core.anndata"  # by which linspec knows it


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_principal_components_go_where_scanpy_looks(wrap: Any) -> None:
    adata = AnnData(wrap(COUNTS), GENES)
    solution = ls.solve(ls.SVD(adata, k=3, center=True))
    solution.write_to(adata)
    centred = COUNTS - COUNTS.mean(axis=0)
    U, S, Vh = np.linalg.svd(centred, full_matrices=False)
    sign_free(adata.obsm["X_pca"], U[:, :3] * S[:3])
    sign_free(adata.varm["PCs"], Vh[:3].T)
    np.testing.assert_allclose(adata.uns["pca"]["variance"], S[:3] ** 2 / 39)
    np.testing.assert_allclose(adata.uns["pca"]["variance_ratio"], S[:3] ** 2 / (S**2).sum())
    loadings = np.corrcoef(COUNTS.T, adata.obsm["X_pca"].T)[:6, 6:]
    np.testing.assert_allclose(adata.varm["pca_loadings"], loadings, atol=1e-10)
    solution.write_to(adata, key="svd")
    np.testing.assert_array_equal(adata.varm["svd_weights"], adata.varm["PCs"])
    table = solution.scores_table(adata)
    assert list(table.index) == CELLS
    assert list(solution.weights_table().index) == GENES


def test_an_answer_on_some_genes_goes_into_all_of_them_in_any_order() -> None:
    some = [GENES[j] for j in (4, 1, 2)]
    solution = ls.solve(ls.SVD(AnnData(COUNTS[:, [4, 1, 2]], some), k=2, center=True))
    adata = AnnData(COUNTS, GENES)
    solution.write_to(adata, key="some")
    np.testing.assert_allclose(adata.obsm["X_some"], solution.transform(COUNTS[:, [4, 1, 2]]))
    np.testing.assert_array_equal(adata.varm["some_weights"][[4, 1, 2]], solution.Vh.T)
    assert not adata.varm["some_weights"][[0, 3, 5]].any()  # the scores are the rows times these
    assert np.isnan(adata.varm["some_loadings"][[0, 3, 5]]).all()  # nobody has looked at these
    adata.layers["twice"] = 2 * COUNTS
    solution.write_to(adata, key="twice", layer="twice")
    np.testing.assert_allclose(adata.obsm["X_twice"], solution.transform(2 * COUNTS[:, [4, 1, 2]]))


def test_each_view_of_a_cca_goes_into_its_own() -> None:
    rna, protein = AnnData(COUNTS, GENES), AnnData(PROTEINS, list("pqr"))
    solution = ls.solve(ls.CCA(rna, protein, k=2))
    solution.write_to(rna, protein)
    for adata, weights, data in ((rna, solution.x_weights, COUNTS), (protein, solution.y_weights, PROTEINS)):
        np.testing.assert_allclose(adata.obsm["X_cca"], (data - data.mean(axis=0)) @ weights)
        np.testing.assert_array_equal(adata.varm["cca_weights"], weights)
        np.testing.assert_array_equal(adata.uns["cca"]["canonical_correlation"], solution.correlations)
    kernel = ls.solve(ls.KernelCCA(rna, protein, k=1, ridge=0.1))
    kernel.write_to(rna, key="kernel")  # of X alone; functions of rows have no weights of columns
    assert {*rna.varm} == {"cca_weights", "cca_loadings", "kernel_loadings"}


def test_what_would_be_lost_or_wrong_is_refused() -> None:
    adata = AnnData(COUNTS, GENES)
    solution = ls.solve(ls.SVD(adata, k=1))
    pairs = ls.solve(ls.CCA(adata, AnnData(COUNTS[:, :2] ** 2, list("pq")), k=1))
    whole = AnnData(COUNTS, GENES)
    whole.mod = {}  # type: ignore[attr-defined]  # as a MuData has
    for kind, words, call in (
        (UnsupportedData, "got a .*, a view", lambda: solution.write_to(adata[:, GENES])),
        (UnsupportedData, "no view; got a ndarray", lambda: solution.write_to(COUNTS)),
        (UnsupportedData, "of a MuData its modalities", lambda: solution.write_to(whole)),
        (InvalidProblem, "layer must be one of none; got 'x'", lambda: solution.write_to(adata, layer="x")),
        (
            InvalidProblem,
            "the columns of the training data",
            lambda: solution.write_to(AnnData(COUNTS, [*"abcdef"])),
        ),
        (InvalidProblem, "got the same one twice", lambda: pairs.write_to(adata, adata)),
        (InvalidProblem, "same order", lambda: ls.CCA(adata, AnnData(PROTEINS, [*"pqr"], CELLS[::-1]), k=1)),
    ):
        with pytest.raises(kind, match=words):
            call()
    assert (adata.obsm, adata.varm, adata.uns) == ({}, {}, {})


# ---- xarray -----------------------------------------------------------------------------------


@pytest.fixture
def xr() -> Any:
    return pytest.importorskip("xarray", reason="no xarray")


def field(xr: Any) -> Any:
    """Temperatures by time, latitude and longitude; one place is missing."""
    values = (SHARED @ RNG.standard_normal((2, 12))).reshape(40, 3, 4) + RNG.standard_normal((40, 3, 4))
    values[:, 0, 1] = np.nan
    coords = {"time": np.arange(1980, 2020), "lat": [-30.0, 0.0, 30.0], "lon": [0.0, 90.0, 180.0, 270.0]}
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name="sst", attrs={"units": "K"})


def test_maps_of_a_stacked_field(xr: Any) -> None:
    sst = field(xr)
    rows = sst.stack(place=("lat", "lon")).dropna("place")
    solution = ls.solve(ls.SVD(rows, k=2, center=True))
    maps = solution.to_xarray(rows)
    A = rows.values
    U, S, Vh = np.linalg.svd(A - A.mean(axis=0), full_matrices=False)
    sign_free(maps.scores, U[:, :2] * S[:2])
    assert (maps.scores.dims, list(maps.time.values[:2])) == (("time", "component"), [1980, 1981])
    weights = maps.weights.unstack("place").sel(component=1)
    sign_free(weights.sel(lat=30.0, lon=90.0), Vh[0, -3])
    assert np.isnan(weights.sel(lat=-30.0, lon=90.0))
    np.testing.assert_allclose(maps.explained_variance_ratio, S[:2] ** 2 / (S**2).sum())
    loadings = np.corrcoef(A.T, maps.scores.values.T)[:11, 11:]
    np.testing.assert_allclose(maps.loadings, loadings, atol=1e-10)
    table = solution.scores_table(rows)
    assert (table.index.name, list(table.index[:2])) == ("time", [1980, 1981])
    assert solution.column_names["A"] == tuple(f"{lat}, {lon}" for lat, lon in rows.indexes["place"])


def test_a_field_on_dask_is_computed_by_dask(xr: Any) -> None:
    da = pytest.importorskip("dask.array", reason="no dask")
    rows = field(xr).stack(place=("lat", "lon")).dropna("place")
    lazy = rows.chunk(time=15)
    solution = ls.solve(ls.SVD(lazy, k=2, center=True))
    assert solution.column_names == ls.solve(ls.SVD(rows, k=1)).column_names
    scores = solution.to_xarray(lazy).scores
    assert isinstance(scores.data, da.Array)
    np.testing.assert_allclose(scores, solution.transform(rows), atol=1e-10)


def test_data_arrays_are_named_and_paired_by_their_coordinates(xr: Any) -> None:
    sst = field(xr)
    rows = sst.stack(place=("lat", "lon")).dropna("place")
    rain = xr.DataArray(
        PROTEINS, dims=("time", "component"), coords={"time": sst.time, "scores": ("time", np.ones(40))}
    )
    pairs = ls.solve(ls.CCA(rows, rain, k=1, ridge=1.0))
    x, y = pairs.to_xarray(rows, rain)
    assert (x.weights.dims, y.weights.dims) == (("place", "component"), ("component", "component_"))
    assert (y.scores == 1).all()  # the coordinate of the data; the scores are beside it
    np.testing.assert_allclose(y.scores_, pairs.transform(Y=PROTEINS))
    target = sst[:, 1, 1]
    found = ls.solve(ls.LeastSquares(rain, target)).weights_table()
    exact = np.linalg.lstsq(PROTEINS, target.values, rcond=None)[0]
    np.testing.assert_allclose(found["sst"], exact)
    for kind, words, call in (
        (InvalidProblem, r"A\.stack\(column=\('lat', 'lon'\)\)", lambda: ls.SVD(sst, k=1)),
        (InvalidProblem, "the same labels in another order", lambda: ls.CCA(rows, rain[::-1], k=1)),
        (InvalidProblem, "another order", lambda: ls.SVD(rows, k=1, sample_weight=rain[::-1, 0] ** 2)),
        (InvalidProblem, "columns of the training data", lambda: pairs.transform(rows[:, ::-1])),
        (UnsupportedData, "another of its variables", lambda: ls.SVD(sst.to_dataset(), k=1)),
        (UnsupportedData, "a DataArray of xarray with two dim", lambda: pairs.to_xarray(rows.values)),
    ):
        with pytest.raises(kind, match=words):
            call()


def test_rows_with_gaps_leave_a_field_with_its_labels(xr: Any) -> None:
    pytest.importorskip("dask", reason="no dask")
    rows = field(xr).stack(place=("lat", "lon")).dropna("place")
    gaps = rows.where(rows.time != 1985)
    with pytest.warns(UserWarning, match="1 of 40 rows"):
        complete, counts = ls.drop_missing(gaps.chunk({"time": 7}), COUNTS)
    assert complete.chunks is not None  # nothing was computed
    xr.testing.assert_identical(complete.compute(), rows.drop_sel(time=1985))
    np.testing.assert_array_equal(counts, np.delete(COUNTS, 5, axis=0))
