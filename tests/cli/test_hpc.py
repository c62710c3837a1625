"""`lading hpc`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lading.cli.hpc import RankTable
from tests.cli.site import Play, Site


def _lading(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TLS_PUBLIC_CERT", "AUTHORIZATION")
    }
    command = [sys.executable, "-m", "lading", "hpc", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


def test_the_daemon_is_reached_and_says_what_is_missing() -> None:
    done = _lading("daemon", "--port", "0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "AUTHORIZATION missing" in done.stderr


def test_the_daemon_can_be_had_alone(tmp_path: Path) -> None:
    done = _lading("package", str(tmp_path / "daemon"))
    assert done.returncode == 0
    assert (tmp_path / "daemon").stat().st_mode & 0o777 == 0o755


def test_a_gang_is_asked_for(site: Site, here: Path) -> None:
    image = site.call(site.world.ensure_image())
    (here / "mesh.txt").write_text("mesh\n")
    command = (
        "hpc",
        "run",
        "--size",
        "3",
        "--image",
        image,
        "--launcher",
        "all",
        "--param",
        "N=5",
        "--file",
        "mesh.txt",
        "--vcpus",
        "0",
    )
    done = site.command(*command, "--", "solve", "-x", plays=[Play(stdout=b"[0] solved\n")])
    assert done.stdout == "[0] solved\n"
    request = json.loads(site.lading("request", "list", "--json").stdout)[0]
    shown = json.loads(site.lading("request", "show", "--json", request["uuid"]).stdout)
    made = shown.get("request", shown)
    assert made["scheduling_parameters"]["nodes"] == 3
    assert made["scheduling_parameters"]["launcher"] == "all"
    assert made["environment"] == {"N": "5"}
    assert made["mounts"]["/hpcaas/files/mesh.txt"]["writable"] is True
    assert made["runtime_constraints"]["vcpus"] == 1
    assert made["scheduling_parameters"]["share_vcpus"] is True


def test_one_container_is_no_cluster() -> None:
    assert _lading("run", "--size", "1", "--", "x").returncode == 125


def test_lines_on_ranks_are_shown_however_they_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    with RankTable(live=False) as table:
        for piece in (b"2 containers started\nrank 0 Run", b"ning\n", b"rank 1 Waiting\n"):
            table.write(piece)
            table.flush()
    assert capsys.readouterr().err.splitlines() == [
        "lading: 2 containers started", "lading: rank 0 Running", "lading: rank 1 Waiting",
    ]  # fmt: skip


def test_the_table_of_ranks_is_kept_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    with RankTable(live=True) as table:
        table.write(b"rank 0 Running 40%\nrank 1 Lost\n")
        table.flush()
        table.write(b"rank 0 Stopped 100%\n")
        table.flush()
    shown = capsys.readouterr().err
    assert "RANK" in shown
    assert "Stopped 100%" in shown
    assert "Lost" in shown
