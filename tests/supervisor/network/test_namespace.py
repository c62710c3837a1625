from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.supervisor.network.container_network import inside, is_own, open_namespace
from tests.reality import need_root
from tests.supervisor.network.namespaces import other_network


def test_work_in_another_network() -> None:
    need_root()
    with other_network() as pid:
        descriptor = open_namespace(pid)
        try:
            assert not is_own(descriptor)
            links = inside(descriptor, lambda: Path("/proc/thread-self/net/dev").read_text())
            assert len(links.splitlines()) == 3
            assert subprocess.run(["true"], check=True).returncode == 0
        finally:
            os.close(descriptor)


def test_the_own_network_is_known() -> None:
    descriptor = open_namespace(os.getpid())
    try:
        assert is_own(descriptor)
    finally:
        os.close(descriptor)


def test_faults_come_through() -> None:
    with pytest.raises(FileNotFoundError):
        open_namespace(4_194_305)
    with open("/dev/zero", "rb") as file, pytest.raises(OSError, match="Invalid argument"):
        inside(file.fileno(), lambda: None)
    need_root()

    def fail() -> None:
        raise Invalid("so it is")

    with other_network() as pid:
        descriptor = open_namespace(pid)
        with pytest.raises(Invalid, match="so it is"):
            inside(descriptor, fail)
        os.close(descriptor)
