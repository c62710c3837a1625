"""A bounded run against the daemon of HPC containers; `make fuzz` makes 10,000 calls."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.daemon import try_daemon
from tests.hpc_daemon import Rig


def test_no_call_breaks_the_daemon_s_document(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.up()
    try:
        faults, statuses = try_daemon(rig, calls=150, number=1)
        assert faults == []
        assert {200, 401} <= set(statuses)
        assert rig.query()["containerStatus"] == "Running"
    finally:
        rig.down()
