from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.hpc.layout import FILES, keep_identity, read_identity

VALUES = {"TLS_PUBLIC_CERT": "c", "TLS_PRIVATE_KEY": "k", "AUTHORIZATION": "a"}


def test_an_identity_is_that_of_the_environment_or_of_the_start_before(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="TLS_PRIVATE_KEY, AUTHORIZATION missing"):
        read_identity(tmp_path, {"TLS_PUBLIC_CERT": "c"})
    assert read_identity(tmp_path, VALUES) == VALUES
    keep_identity(tmp_path, VALUES)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in FILES.values()} == {0o600}
    assert read_identity(tmp_path, {"AUTHORIZATION": "b"}) == {**VALUES, "AUTHORIZATION": "b"}


def test_no_environment_shows_it() -> None:
    program = (
        "import os, subprocess; "
        "from lading.hpc.layout import forget_environment; forget_environment(); "
        "print(open('/proc/self/environ').read(), "
        "dict(os.environ), subprocess.check_output('env', text=True))"
    )
    environment = {**dict.fromkeys(VALUES, "secret"), "OTHER": "shown"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "secret" not in done.stdout
    assert "OTHER=shown" in done.stdout
