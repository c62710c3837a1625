"""The client on a simulated macOS: every module is imported, and its suites run, in an interpreter
without the names that this system lacks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.client.systems.imports import lacks_package_of_users

_ROOT = Path(__file__).parents[3]
_SUITES = (
    "test_api", "test_blocks", "files/test_collections", "files/test_downloads",
    "files/test_local_files", "files/test_uploads", "images/test_archive",
)  # fmt: skip


def test_every_module_of_the_client_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.systems.macos"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    faults = json.loads(done.stdout)
    assert {name for name, fault in faults.items() if not lacks_package_of_users(fault)} == set()


def test_the_suites_of_the_client_pass() -> None:
    files = [f"tests/client/{name}.py" for name in _SUITES]
    plugins = ("-p", "tests.client.systems.macos", "-p", "no:cacheprovider", "-p", "no:xdist")
    # Paths of sockets have 108 characters at most.
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, f"--basetemp={folder}/t", *files],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
    assert done.returncode == 0, done.stdout[-4000:]
