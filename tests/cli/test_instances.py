"""lading instance, against the interface of a fake fleet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lading.cli.main import cli
from lading.dispatch.fleets.cloud.instance_journal import MachineLogRecord, MachineLogs
from lading.dispatch.fleets.cloud.management import managing
from lading.wiring.directory import DataDirectory
from tests.dispatch.fleets.cloud.scene import fleet_with_a_vm


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["instance", *map(str, arguments)])


async def test_vms_are_listed_and_changed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    async with fleet_with_a_vm() as (fleet, _), managing(fleet, "127.0.0.1:0", "hush") as url:
        way = ("--url", url, "--token-file", tmp_path / "token")
        listed = await asyncio.to_thread(run, "list", *way)
        assert listed.output.splitlines()[0].split()[:4] == [
            "INSTANCE",
            "ADDRESS",
            "STATE",
            "BEHAVIOR",
        ]
        assert listed.output.splitlines()[1].split()[:5] == [
            "i-1",
            "10.0.0.1",
            "idle",
            "run",
            "type1",
        ]
        assert (
            json.loads((await asyncio.to_thread(run, "list", "--json", *way)).output)[0]["instance"]
            == "i-1"
        )
        done = await asyncio.to_thread(run, "hold", "i-1", "i-2", *way)
        assert done.exit_code == 1
        assert "lading: i-1: hold" in done.output
        assert "i-2: this dispatcher has no such instance" in done.output
        assert (await asyncio.to_thread(run, "run", "i-1", *way)).exit_code == 0
        assert "lading: i-1: drain" in (await asyncio.to_thread(run, "drain", "i-1", *way)).output


async def test_logs_of_vms_that_are_gone_are_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    async with fleet_with_a_vm() as (fleet, _), managing(fleet, "127.0.0.1:0", "hush") as url:
        way = ("--url", url, "--token-file", tmp_path / "token")
        fleet.pool.journal.logs = MachineLogs(tmp_path / "machines")
        record = MachineLogRecord(id="i-9", type="small", at=1e9, why="it did not boot")
        fleet.pool.journal.logs.keep(record, {"console.log": b"one\n\x1b[2Jpanic\n"})
        listed = await asyncio.to_thread(run, "logs", *way)
        assert listed.output.splitlines()[1].split()[:2] == ["i-9", "small"]
        shown = await asyncio.to_thread(run, "logs", "i-9", *way)
        assert shown.output.endswith("==> console.log <==\none\n\\x1b[2Jpanic\n")
        assert "gone 2001-09-09T01:46:40+00:00: it did not boot" in shown.output
        found = json.loads((await asyncio.to_thread(run, "logs", "i-9", "--json", *way)).output)
        assert found["texts"]["console.log"].startswith("one")
        missing = await asyncio.to_thread(run, "logs", "i-8", *way)
        assert "i-8: no log of such an instance is kept" in missing.output


def test_the_interface_has_to_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--url needs --token-file" in run("list", "--url", "http://x").output
    assert "no 'lading up' keeps its data here" in run("list", "--data", tmp_path / "none").output
    directory = DataDirectory(tmp_path)
    directory.secrets(entropy=bytes(range(256)) * 4)
    assert "ManagementAddress is empty" in run("list", "--data", tmp_path).output
    monkeypatch.setenv("LADING_DATA", str(tmp_path))
    assert (
        f"{tmp_path}/config.yml: Containers.CloudVMs.ManagementAddress is empty"
        in run("list").output
    )
    (tmp_path / "config.yml").write_text(
        "Containers: {CloudVMs: {ManagementAddress: '127.0.0.1:1'}}"
    )
    assert "cannot be reached" in run("list", "--data", tmp_path).output
