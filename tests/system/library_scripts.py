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
JOBLIB: Final = """
from math import sqrt

import joblib
import lading


def label(number, word="n"):
    return f"{word}{number}"


joblib.register_parallel_backend("lading", lading.JoblibBackend)
with joblib.parallel_config(backend="lading", image="tools:1", verbose=False):
    roots = joblib.Parallel()(joblib.delayed(sqrt)(number ** 2) for number in range(4))
    assert roots == [0, 1, 2, 3]
    labels = joblib.Parallel()([joblib.delayed(label)(1), joblib.delayed(label)(2, word="m")])
    assert labels == ["n1", "m2"]
"""
DASK_TASKS: Final = """
import dask
import lading


@dask.delayed
def double(number):
    return 2 * number


@dask.delayed
def total(numbers):
    return sum(numbers)


scheduler = lading.DaskScheduler(image="tools:1", verbose=False)
assert dask.compute(total([double(1), double(2)]) + 1, scheduler=scheduler) == (7,)
"""
PARSL: Final = """
from pathlib import Path

import lading
import parsl
from parsl.data_provider.files import File


@parsl.python_app
def double(number):
    return 2 * number


@parsl.bash_app
def count(inputs=(), outputs=(), stdout=None):
    return f"wc -l <{inputs[0].filepath} >{outputs[0].filepath}; echo counted"


@parsl.bash_app
def fail():
    return "exit 3"


Path("lines.txt").write_text("a\\nb\\n")
containers = lading.ParslContainers(image="tools:1", verbose=False)
with parsl.load(parsl.Config(executors=[containers])):
    assert double(double(2)).result() == 8
    lines = File(str(Path("lines.txt").absolute()))
    counted = count(inputs=[lines], outputs=[File("number.txt")], stdout="said.txt")
    assert counted.result() == 0
    assert Path("number.txt").read_text().strip() == "2"
    assert Path("said.txt").read_text() == "counted\\n"
    try:
        fail().result()
    except parsl.app.errors.BashExitFailure as error:
        assert error.exitcode == 3
    else:
        raise AssertionError("it did not fail")
"""
FUTURES: Final = """
import concurrent.futures

import lading


def divide(first, second=1):
    return first / second


with lading.Executor(image="tools:1", verbose=False) as executor:
    assert executor.submit(pow, 2, 8).result() == 256
    assert list(executor.map(pow, range(4), range(4))) == list(map(pow, range(4), range(4)))
    future = executor.submit(divide, 1, second=0)
    assert isinstance(future.exception(), lading.RunFailed)
    futures = [executor.submit(divide, number) for number in range(3)]
    assert not concurrent.futures.wait(futures).not_done
    assert {each.result() for each in concurrent.futures.as_completed(futures)} == {0, 1, 2}
try:
    executor.submit(pow, 2, 5)
except RuntimeError:
    pass
else:
    raise AssertionError("it takes calls after its end")
"""
EXECUTORS: Final = {
    "joblib": JOBLIB, "dask": DASK_TASKS, "parsl": PARSL, "concurrent.futures": FUTURES,
}  # fmt: skip
SCRIPTS: Final = {"pandas": PANDAS, "dask": DASK, "zarr": ZARR, "duckdb": DUCKDB}
