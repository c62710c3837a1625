"""The daemon alone."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from lading.hpc.package import write_package


def test_it_runs_without_lading_or_anything_else(tmp_path: Path) -> None:
    file = tmp_path / "daemon"
    with file.open("wb") as opened:
        write_package(opened)
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
        env={},
        check=False,
    )
    assert done.stderr.startswith("lading: TLS_PUBLIC_CERT, TLS_PRIVATE_KEY, AUTHORIZATION missing")
    assert done.returncode == 2


def test_equal_sources_are_equal_bytes() -> None:
    one, two = io.BytesIO(), io.BytesIO()
    write_package(one)
    write_package(two)
    assert one.getvalue() == two.getvalue()
