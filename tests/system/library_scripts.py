"""Scripts that libraries of other people run with the file system of fsspec, in an environment of
their own, each as a user would write it.
"""

from __future__ import annotations

from typing import Final

REGISTER: Final = """
import fsspec
from lading.client.remote_files.fsspec_system import LadingFileSystem

# What the entry point does where the distribution is installed.
fsspec.register_implementation("lading", LadingFileSystem)
"""
PANDAS: Final = """
import pandas

frame = pandas.DataFrame({"name": ["a", "b", "c"], "number": [1, 2, 3]})
for kind in ("csv", "parquet"):
    address = f"lading://frames/pandas/frame.{kind}"
    write, read = getattr(frame, f"to_{kind}"), getattr(pandas, f"read_{kind}")
    write(address, index=False)
    assert read(address).equals(frame), kind
numbers = pandas.read_parquet("lading://frames/pandas/frame.parquet", columns=["number"])
assert numbers["number"].sum() == 6
frame.to_csv("lading://frames/pandas/frame.csv.gz", index=False)
assert pandas.read_csv("lading://frames/pandas/frame.csv.gz").equals(frame)
"""
DASK: Final = """
import dask
import dask.bag
import dask.dataframe
import pandas

dask.config.set(scheduler="threads")
frame = pandas.DataFrame({"key": list(range(1000)), "value": [0.5] * 1000})
parts = dask.dataframe.from_pandas(frame, npartitions=4)
parts.to_parquet("lading://frames/dask/parts")
table = dask.dataframe.read_parquet("lading://frames/dask/parts")
assert table.npartitions == 4
assert table["value"].sum().compute() == 500.0
parts.to_csv("lading://frames/dask/lines/*.csv", index=False)
assert len(dask.dataframe.read_csv("lading://frames/dask/lines/*.csv")) == 1000
assert dask.bag.read_text("lading://frames/dask/lines/0.csv").count().compute() == 251
"""
ZARR: Final = """
import numpy
import xarray
import zarr

cube = xarray.Dataset({"t": (("x", "y"), numpy.arange(10_000.0).reshape(100, 100))})
cube.to_zarr("lading://frames/cube.zarr", mode="w", encoding={"t": {"chunks": (10, 50)}})
again = xarray.open_zarr("lading://frames/cube.zarr", chunks=None)
assert (again["t"].values == cube["t"].values).all()
array = zarr.open("lading://frames/cube.zarr/t", mode="r")
assert array[99, 99] == 9999.0
"""
DUCKDB: Final = """
import duckdb

duckdb.register_filesystem(fsspec.filesystem("lading"))
duckdb.sql("COPY (SELECT range AS n FROM range(100000)) TO 'lading://frames/duck.parquet'")
answer = duckdb.sql("SELECT count(*), max(n) FROM read_parquet('lading://frames/duck.parquet')")
assert answer.fetchall() == [(100000, 99999)]
"""
SCRIPTS: Final = {"pandas": PANDAS, "dask": DASK, "zarr": ZARR, "duckdb": DUCKDB}
