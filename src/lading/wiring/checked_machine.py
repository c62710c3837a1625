"""The machine that is checked, and the result of a check."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lading.supervisor.rootless_trial import RootlessTrial


class CheckResult(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: its finding, and the command that corrects it ("" if nothing is wrong)."""

    name: str
    verdict: CheckResult
    finding: str
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMachine:
    """The machine to examine; tests use another root and other programs."""

    data: Path
    user: int
    root: Path = Path("/")
    which: Callable[[str], str | None] = shutil.which
    library: Callable[[str], str | None] = find_library
    version: tuple[int, ...] = sys.version_info[:3]
    python_is_optimised: Callable[[], bool] = lambda: _is_optimised(
        sys.base_prefix, sysconfig.get_config_var("CONFIG_ARGS")
    )
    user_ids_fault: Callable[[Path], str] = lambda path: _user_ids_fault(path)
    try_native: Callable[[Path], RootlessTrial] | None = None
    """Tries the native engine for an ordinary user; None: with the real kernel."""
    delegated: Callable[[], Sequence[str]] = lambda: _delegated()
    """The controllers of control groups that the user may use."""
    can_write: Callable[[Path], bool] = lambda path: os.access(path, os.W_OK)
    """Whether this process may write to a directory: its mount may be for reading alone."""
    starter_fault: Callable[[], str] = lambda: _starter_fault()
    docker_answers: Callable[[Path], bool] = lambda path: _answers(path)
    port_is_free: Callable[[tuple[str, int]], bool] = lambda address: _is_free(address)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def read(self, path: str) -> str:
        """The text of a system file; "" if it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text()
        except OSError:
            return ""


def _starter_fault() -> str:
    from lading.supervisor.starter import starter

    return starter.fault()


def _user_ids_fault(data: Path) -> str:
    from lading.supervisor.engines.id_mappings import fault_of

    # The data directory may not exist yet; its nearest parent is on the same file system.
    nearest = next(path for path in (data, *data.parents) if path.is_dir())
    return fault_of(nearest)


def _delegated() -> Sequence[str]:
    from lading.supervisor.engines.choice import delegated_controllers
    from lading.supervisor.limits.user_scope import UserScope

    # `lading up` enters such a scope; this command is outside.
    return delegated_controllers() or UserScope().controllers()


def _is_optimised(prefix: str, arguments: str | None) -> bool:
    # Debian's Python is optimised but does not report it. Without information, as for an embedded
    # Python, no warning is given.
    return prefix == "/usr" or arguments is None or "--enable-optimizations" in arguments


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        # Seconds; Docker answers at once or not at all.
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _is_free(address: tuple[str, int]) -> bool:
    with socket.socket() as listener:
        # As the server does: connections of an earlier one in TIME_WAIT do not matter.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError:
            return False
    return True
