"""`lading.Executor` behind the interfaces of other people's schedulers: joblib, Dask, Parsl.

Each module imports its package, which no extra of Lading brings: whoever uses it has it.
"""
