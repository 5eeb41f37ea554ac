#!/usr/bin/env bash
# xarray wraps packed data to wrong values: 20 degrees too low for a second file, after concat, to_netcdf or to_zarr
#
# Packages: xarray 2026.9.0 with netCDF4 1.7.5.1.post1 and zarr 3.1.6.
# Documentation: the user guide says that a file's encoding is kept in .encoding and used again for writing.
#   to_zarr(append_dim=...) is said to add along a dimension. A user expects the numbers in memory to be those in the
#   new file, as far as 16 bits go, or a warning.
# Seen: two files of packed temperatures (int16, with a scale and an offset for each month, as those of a reanalysis
#   often are): 275 to 285 K in one, 295 to 305 K in the other. Opened together, by open_mfdataset or concat, all
#   numbers are right. to_netcdf packs them with the scale and offset of the first file. What is out of its range is
#   taken modulo 65,536 (on x86-64): 295 to 305 becomes 275 to 285. The step of 20 K is gone from the new file, and the
#   first singular value of the centred data is 40 for 483. to_zarr(append_dim="time") packs with the scale of the array
#   that is there, even data without any encoding, and assigning new values (ds.t[:] = ...) keeps the scale, too. No
#   warning, and the values look like temperatures.
# Do instead: ds.drop_encoding() before to_netcdf and before the first to_zarr. Open the new file once and compare
#   smallest and largest value.
# Why it matters: a record is put together from many files once, and all analyses read the result. The error is as large
#   as the signal, and whole months have it, so it becomes a component of its own or takes one away.
# linspec: takes arrays as xarray unpacks them, and cannot see what was lost before. Packed arrays of zarr and HDF5 that
#   are opened without xarray are refused, since their integers are not the data.
# Upstream: xarray issues 4282, 5739 and 8135, closed with the advice above; 7039 is open.
# Exit status: 0 while it is so, 1 if it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xarray==2026.9.0 netCDF4==1.7.5.1.post1 zarr==3.1.6 \
    dask==2026.8.0 numpy==2.4.6 pandas==3.1.1
cd "$folder"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" - <<'EOF'
import sys
import warnings
from importlib.metadata import version

import numpy as np
import xarray as xr

print(*(f"{name} {version(name)}" for name in ("xarray", "netCDF4", "zarr", "numpy")))
warnings.simplefilter("error", RuntimeWarning)                  # of casts; there are none
warnings.simplefilter("error", xr.SerializationWarning)
rng = np.random.default_rng(0)
months = []
for i, middle in enumerate((280, 300)):
    values = middle + rng.uniform(-5, 5, size=(30, 40))
    month = xr.Dataset({"t": (("time", "place"), values)}, coords={"time": np.arange(30) + 30 * i})
    packing = {"dtype": "int16", "scale_factor": 20 / 65_000, "add_offset": float(middle), "_FillValue": -32767}
    month.to_netcdf(f"month{i}.nc", encoding={"t": packing})
    months.append(xr.load_dataset(f"month{i}.nc"))
    print(f"month {i}: largest error by packing {np.abs(months[i].t - values).max().item():.1e}")
right = np.concatenate([month.t for month in months])
off = {}


def looked_at(name, dataset, wanted=right):
    values = dataset.t.to_numpy()
    off[name] = np.abs(values - wanted).max()
    spread = [np.linalg.svd(v - v.mean(axis=0), compute_uv=False)[0] for v in (values, wanted)]
    print(f"{name:42s} off by {off[name]:8.1e}; last rows {values[-30:].min():.2f} to {values[-30:].max():.2f}, "
          f"largest singular value {spread[0]:.0f} for {spread[1]:.0f}")


with xr.open_mfdataset(["month0.nc", "month1.nc"]) as together:
    looked_at("opened together", together)
    together.to_netcdf("together.nc")
    together.drop_encoding().to_netcdf("dropped.nc")
looked_at("open_mfdataset, to_netcdf", xr.load_dataset("together.nc"))
xr.concat(months, "time").to_netcdf("concat.nc")
looked_at("concat, to_netcdf", xr.load_dataset("concat.nc"))
months[0].to_zarr("months.zarr", zarr_format=2)
months[1].drop_encoding().to_zarr("months.zarr", append_dim="time")
looked_at("to_zarr, append_dim, nothing to encode", xr.open_zarr("months.zarr").load())
changed = months[0].copy(deep=True)
changed.t[:] = months[1].t.to_numpy()
changed.to_netcdf("changed.nc")
looked_at("assigned", xr.load_dataset("changed.nc"), months[1].t.to_numpy())
looked_at("drop_encoding, to_netcdf", xr.load_dataset("dropped.nc"))

wrong = ("open_mfdataset, to_netcdf", "concat, to_netcdf", "to_zarr, append_dim, nothing to encode", "assigned")
checks = {
    "opened together, and written without encoding: right": max(
        off["opened together"], off["drop_encoding, to_netcdf"]) < 1e-9,
    "written with the encoding of the first: 20 K off": all(19 < off[name] < 21 for name in wrong),
}
for name, held in checks.items():
    print("yes" if held else "NO ", name)
sys.exit(0 if all(checks.values()) else "CHANGED: xarray no longer wraps packed data")
EOF
