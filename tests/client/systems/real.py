"""The imports of the client on the system that this is: `python -m tests.client.systems.real` exits
with 1 if a module cannot be imported that the system should have.
"""

from __future__ import annotations

import sys
from typing import Final

from lading.cli.endings.extras import PACKAGES
from tests.client.systems.imports import failed_imports, lacks_package_of_users

OF_UNIX: Final = frozenset(
    {
        "lading.client.caches.content_caches", "lading.client.caches.disk_cache",
        "lading.client.caches.disk_space", "lading.client.caches.entry_files",
        "lading.client.caches.tree_cache", "lading.client.images.layer_cache",
        "lading.client.images.registry", "lading.client.images.runner",
        "lading.client.mount.fuse", "lading.client.mount.open_blocks",
        "lading.client.mount.operations", "lading.client.mount.service",
        "lading.cli.files.mount",
    }
)  # fmt: skip
"""Modules that need the locks of Unix: mounts, and the cache of layers with its users."""


def unexpected(faults: dict[str, str], *, is_windows: bool) -> dict[str, str]:
    """The faults that are for want of no extra, of no package of users and of no lock of Unix."""
    return {
        name: fault
        for name, fault in faults.items()
        if not any(f"'{package}'" in fault for package in PACKAGES)
        and not lacks_package_of_users(fault)
        and not (is_windows and name in OF_UNIX)
    }


if __name__ == "__main__":
    left = unexpected(failed_imports(), is_windows=sys.platform == "win32")
    for name, fault in left.items():
        sys.stderr.write(f"{name}: {fault}\n")
    sys.exit(bool(left))
