"""A Python interpreter without the packages that extras bring, and without the server's modules, to
see that the client needs neither: `python -m tests.client.systems.bare` imports every module of the
client and prints those that cannot be imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from lading.cli.endings.extras import PACKAGES, SERVER
from tests.client.systems.imports import OF_USERS, failed_imports


class Lacking(MetaPathFinder):
    """Finds no module with one of these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError, as Python does where no finder has the module."""
        levels = fullname.split(".")
        if self._names & {levels[0], ".".join(levels[:2])}:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def become_bare(*, has_server_modules: bool = False) -> None:
    """Hide the packages from this process, and the server's modules unless it has them."""
    names = PACKAGES if has_server_modules else PACKAGES | SERVER
    sys.meta_path.insert(0, Lacking(names | OF_USERS))


if __name__ == "__main__":
    become_bare()
    json.dump(failed_imports(), sys.stdout)
