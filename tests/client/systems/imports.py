"""Imports of every module of the client."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

ROOMS: Final = (
    "lading.core", "lading.process", "lading.net", "lading.config", "lading.client", "lading.cli",
)  # fmt: skip


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
