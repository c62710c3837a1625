"""Imports of every module of the client."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

ROOMS: Final = (
    "lading.core", "lading.process", "lading.net", "lading.config", "lading.client", "lading.cli",
)  # fmt: skip

OF_USERS: Final = frozenset({"dask", "joblib", "parsl"})
"""Packages that no extra brings: whoever uses an executor for one of them has it."""


def failed_imports() -> dict[str, str]:
    """The modules of the client that cannot be imported, with the error."""
    failed: dict[str, str] = {}
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except (ImportError, AttributeError, OSError) as error:
                failed[module.name] = f"{type(error).__name__}: {error}"
    return failed


def lacks_package_of_users(fault: str) -> bool:
    """Whether the error of an import says that a package of OF_USERS is not installed."""
    return any(f"'{package}'" in fault for package in OF_USERS)
