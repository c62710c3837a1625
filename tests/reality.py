"""Real parts that tests need: where one is missing, CI fails and a developer's run leaves the test
out.
"""

from __future__ import annotations

import os
import shutil
import socket

import pytest


def need(present: bool, part: str) -> None:
    """Go on only with the part."""
    if present:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{part} is missing; 'make test' installs it as root on Debian and Ubuntu")
    pytest.skip(f"{part} is missing")


def need_root() -> None:
    """Go on only as root."""
    need(os.geteuid() == 0, "root")


def need_ipv6() -> None:
    """Go on only where this machine speaks IPv6 with itself."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            there = True
    except OSError:
        there = False
    if not there:
        pytest.skip("IPv6 is missing")


def need_program(name: str) -> None:
    """Go on only where the program is installed."""
    need(shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None, name)
