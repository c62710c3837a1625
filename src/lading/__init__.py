"""Lading runs containers as records.

`connect` is the Python API; see `lading.client.site`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lading.client.site import Output, Run, RunFailed, Site, connect

__all__ = ["Output", "Run", "RunFailed", "Site", "__version__", "connect"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    # Loaded when it is used: the command line starts without it.
    if name in __all__:
        from lading.client import site

        return getattr(site, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
