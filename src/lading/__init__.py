"""Lading runs containers as records.

`connect` is the Python API; see `lading.client.site`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lading.client.executor import Executor
    from lading.client.executors.dask_scheduler import DaskScheduler
    from lading.client.executors.joblib_backend import JoblibBackend
    from lading.client.executors.parsl_executor import ParslContainers
    from lading.client.functions import RemoteFunction
    from lading.client.remote_files.path import Path
    from lading.client.run_records.program import RunBlock, run
    from lading.client.runs import Output, Run, RunFailed, RunFuture, Runs
    from lading.client.site import Site, connect
    from lading.client.templates.program import ProgramTemplate, TemplateRun, template

__all__ = [
    "DaskScheduler",
    "Executor",
    "JoblibBackend",
    "Output",
    "ParslContainers",
    "Path",
    "ProgramTemplate",
    "RemoteFunction",
    "Run",
    "RunBlock",
    "RunFailed",
    "RunFuture",
    "Runs",
    "Site",
    "TemplateRun",
    "__version__",
    "connect",
    "run",
    "template",
]
__version__ = "0.3.0"
_HOMES = {
    "DaskScheduler": "executors.dask_scheduler",
    "Executor": "executor",
    "JoblibBackend": "executors.joblib_backend",
    "ParslContainers": "executors.parsl_executor",
    "Path": "remote_files.path",
    "ProgramTemplate": "templates.program",
    "RemoteFunction": "functions",
    "RunBlock": "run_records.program",
    "Site": "site",
    "TemplateRun": "templates.program",
    "connect": "site",
    "run": "run_records.program",
    "template": "templates.program",
}


def __dir__() -> list[str]:
    """The names of the Python API, for completion in a shell or a notebook."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # Loaded when it is used: the command line starts without it.
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"lading.client.{_HOMES.get(name, 'runs')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
