#!/usr/bin/env bash
# anndata's concat_on_disk cuts the numbers of later files to the dtype of the first: .9 becomes 0, 2400 becomes 255
#
# Package: anndata 0.12.19 with h5py 3.16.0 and zarr 3.1.6.
# Documentation: experimental/merge.py says of concat_on_disk that it differs from anndata.concat in not loading the
#   objects into memory. Nothing is said of the dtype. concat takes the common dtype of all, as NumPy does.
# Seen: sparse matrices (CSR), 200 cells x 50 genes in each of four files: counts as integers, counts corrected for
#   background (floats), logarithms of counts (floats), and counts of up to 2400. If the integers come first, all that
#   follow become integers: the mean .753 for 1.064 of the corrected counts and .289 for .502 of the logarithms, and one
#   stored entry in five is 0. If the first file has its counts in uint8, 2400 becomes 255 in an .h5ad file, and is
#   taken modulo 256 in zarr. float64 becomes float32 after float32. The same files with floats first, dense matrices,
#   and anndata.concat are right. No warning, and shape, names and sparsity look right.
# Do instead: anndata.concat, or write all files with one dtype, such as adata.X = adata.X.astype("f4"), before
#   concat_on_disk; compare the sums of a few cells afterwards.
# Why it matters: it is the way to one file for a PCA of more cells than memory holds. Batches differ in dtype by what
#   was done to them, so rounding down comes per batch, and looks like an effect of batches.
# linspec: files of one matrix must be of one dtype; a pattern of .h5ad files of several is refused by name.
# Upstream: no report of it was found. Issues 1470 and 1709 are about the dtype of the indices.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check anndata==0.12.19 h5py==3.16.0 zarr==3.1.6 \
    "dask[array]==2026.8.0" numpy==2.4.6 scipy==1.17.1 pandas==2.3.3
cd "$folder"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings
from importlib.metadata import version

import anndata as ad
import numpy as np
import pandas as pd
import scipy.sparse as sp

print(*(f"{name} {version(name)}" for name in ("anndata", "h5py", "zarr", "numpy", "scipy", "pandas")))
warnings.simplefilter("error", RuntimeWarning)                  # of casts; there are none
warnings.simplefilter("ignore", UserWarning)                    # of formats of zarr
rng = np.random.default_rng(0)
counts = rng.poisson(rng.gamma(0.4, 3, size=(600, 50)))
parts = {"integers": counts[:200], "corrected": 0.9 * counts[200:400], "logarithms": np.log1p(counts[400:]),
         "large": 100 * counts[:200]}
places = {name: slice(200 * i, 200 * i + 200) for i, name in enumerate(parts)}
readers = {"h5ad": ad.read_h5ad, "zarr": ad.read_zarr}


def objects(first, matrix):
    for name, values in parts.items():
        X = matrix(values.astype(first if name == "integers" else values.dtype))
        yield name, ad.AnnData(X, obs=pd.DataFrame(index=[f"{name}{i}" for i in range(200)]),
                               var=pd.DataFrame(index=[f"gene{i}" for i in range(50)]))


def joined(form, first, matrix=sp.csr_matrix, shift=0):
    for name, adata in objects(first, matrix):
        getattr(adata, f"write_{form}")(f"{name}.{form}")
    files = np.roll([f"{name}.{form}" for name in parts], -shift).tolist()
    ad.experimental.concat_on_disk(files, f"joined.{form}")
    X = readers[form](f"joined.{form}").X
    return X.dtype, np.roll(X.toarray() if sp.issparse(X) else X, 200 * shift, axis=0)


right = ad.concat([adata for _, adata in objects("i4", sp.csr_matrix)]).X.toarray()
off, exact = {}, {}
for label, options in {"h5ad, int32 first": ("h5ad", "i4"), "zarr, int32 first": ("zarr", "i4"),
                       "h5ad, uint8 first": ("h5ad", "u1"), "zarr, uint8 first": ("zarr", "u1"),
                       "h5ad, floats before": ("h5ad", "i4", sp.csr_matrix, 1),
                       "h5ad, dense, int32 first": ("h5ad", "i4", np.asarray)}.items():
    dtype, X = joined(*options)
    off[label] = {name: 1 - X[p].mean() / right[p].mean() for name, p in places.items()}
    exact[label] = np.allclose(X, right, rtol=1e-12)
    print(f"{label}: {dtype}, zeros for others {((X == 0) & (right != 0)).sum()}")
    print("   means", *(f"{name} {X[p].mean():.3f} for {right[p].mean():.3f} (largest {X[p].max():.5g});"
                        for name, p in places.items()))

checks = {
    "integers first: corrected counts and logarithms are cut, by more than a fifth of their mean": all(
        min(off[label]["corrected"], off[label]["logarithms"]) > 0.2 for label in off if label.endswith("first")
        and "dense" not in label),
    "uint8 first: large counts are lost, too": all(off[f"{form}, uint8 first"]["large"] > 0.2 for form in readers),
    "floats first, and dense matrices: right": exact["h5ad, floats before"] and exact["h5ad, dense, int32 first"],
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: concat_on_disk no longer behaves as described")
EOF
