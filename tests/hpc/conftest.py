"""A daemon of a real process for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hpc_daemon import Rig


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Rig]:
    """A daemon that is not started yet."""
    rig = Rig(tmp_path)
    yield rig
    rig.down()


@pytest.fixture
def rig(idle: Rig) -> Rig:
    """A daemon that answers."""
    idle.up()
    return idle
