"""Ranks on other machines, with annexes that are acted; real ones are in tests/system."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError
from lading.hpc import network
from lading.hpc.annexes import Pipe, SpreadGround, read_identity, unpack
from lading.hpc.credentials import make_identity
from lading.hpc.ranks import NativeGround

IDENTITY = make_identity("container_1", now=datetime.now(UTC))

WIRES = (network.Wire("lw4", 4000), network.Wire("lw6", 6000, 6))


class Annex:
    """The other end of a pipe."""

    def __init__(self) -> None:
        mine, theirs = os.pipe(), os.pipe()
        self.pipe = Pipe(mine[0], theirs[1])
        self._reading, self._writing = os.fdopen(theirs[0], "rb"), os.fdopen(mine[1], "wb", buffering=0)

    def say(self, **words: Any) -> None:
        self._writing.write(json.dumps(words).encode() + b"\n")

    def send(self, data: bytes) -> None:
        self._writing.write(data)
        self._writing.close()

    def told(self) -> Any:
        return json.loads(self._reading.readline())

    def close(self) -> None:
        for end in (self._reading, self._writing):
            end.close()
        os.close(self.pipe.writing)


@pytest.fixture
def annex() -> Any:
    made = Annex()
    yield made
    made.close()


@pytest.fixture
def ground(annex: Annex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpreadGround:
    async def nothing(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(network, "make_bridge", nothing)
    monkeypatch.setattr(network, "tell_peers", nothing)
    (tmp_path / "out").mkdir()
    native = NativeGround("u", ("/b/0", "/b/1"), ("crun",), spread=True)
    return SpreadGround(native, WIRES, (annex.pipe,), tmp_path / "out", tmp_path)


async def ended(*annexes: Annex) -> None:
    """They go, and the conductor's end notices."""
    for one in annexes:
        one.send(b"")
        await one.pipe.reader.read()


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as opened:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("_", "/"))
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


async def test_a_rank_elsewhere_is_started_and_its_output_comes_here(
    ground: SpreadGround, annex: Annex, tmp_path: Path
) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    annex.say(started=True)
    assert await ground.start(1, IDENTITY, {"A": "b"}) == network.address(1)
    told = annex.told()
    assert told["peers"] == [[0, "10.0.0.1", 4000], [1, "10.0.0.2", 5000]]
    assert (read_identity(told["identity"]), told["environment"]) == (IDENTITY, {"A": "b"})
    (tmp_path / "out/both").write_text("of rank 0")
    annex.send(archive(both="of rank 1", ranks_1_r="result"))
    assert await ground.gather() == []
    assert annex.told() == {"end": True}
    kept = {
        str(one.relative_to(tmp_path / "out")): one.read_text()
        for one in (tmp_path / "out").rglob("*")
        if one.is_file()
    }
    assert kept == {"both": "of rank 0", "ranks/1/r": "result"}
    assert list(tmp_path.glob("*.tar")) == []


async def test_machines_may_know_each_other_by_ipv6(ground: SpreadGround, annex: Annex) -> None:
    annex.say(port=5000, address="fd00::2", leader="fd00::1")
    await ground.open()
    annex.say(started=True)
    await ground.start(1, IDENTITY, {})
    assert annex.told()["peers"] == [[0, "fd00::1", 6000], [1, "fd00::2", 5000]]
    await ended(annex)


async def test_a_machine_without_ipv6_says_so(ground: SpreadGround, annex: Annex) -> None:
    ground.wires = WIRES[:1]
    annex.say(port=5000, address="fd00::2", leader="fd00::1")
    with pytest.raises(ExecutionError, match="this machine has no IPv6"):
        await ground.open()
    await ended(annex)


async def test_addresses_of_two_kinds_are_refused(ground: SpreadGround, annex: Annex) -> None:
    other = Annex()
    ground.pipes = (annex.pipe, other.pipe)
    annex.say(port=5000, address="fd00::2", leader="fd00::1")
    other.say(port=5000, address="10.0.0.3", leader="10.0.0.1")
    try:
        with pytest.raises(ExecutionError, match="one kind of address"):
            await ground.open()
        await ended(annex, other)
    finally:
        other.close()


async def test_why_a_rank_elsewhere_cannot_be_started_is_said(ground: SpreadGround, annex: Annex) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    annex.say(fault="no room")
    with pytest.raises(ExecutionError, match="rank 1: no room"):
        await ground.start(1, IDENTITY, {})
    annex.send(b"")
    with pytest.raises(ExecutionError, match="has ended"):
        await ground.start(1, IDENTITY, {})


async def test_an_annex_that_goes_loses_only_its_output(ground: SpreadGround, annex: Annex) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    annex.send(archive(a="x" * 9000)[:3000])
    (said,) = await ground.gather()
    assert said.startswith("rank 1: not all of its output could be had")


async def test_what_is_no_message_is_a_fault(ground: SpreadGround, annex: Annex) -> None:
    annex.send(b"srun: error\n")
    with pytest.raises(ExecutionError, match="does not answer"):
        await ground.open()


def test_nothing_is_written_outside(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/away").symlink_to(tmp_path)
    made = tmp_path / "a.tar"
    with tarfile.open(made, "w") as opened:
        for name in ("../x", "away/y"):
            opened.addfile(tarfile.TarInfo(name), io.BytesIO())
        for name, kind, target in (
            ("link", tarfile.SYMTYPE, "/etc/passwd"),
            ("same", tarfile.LNKTYPE, "../a.tar"),
            ("pipe", tarfile.FIFOTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            opened.addfile(member)
    said = unpack(made, tmp_path / "out", 2)
    assert [one.partition(" is left out")[0] for one in said] == [
        "rank 2: ../x", "rank 2: away/y", "rank 2: link", "rank 2: same", "rank 2: pipe",
    ]  # fmt: skip
    assert {one.name for one in tmp_path.iterdir()} == {"out", "a.tar"}


def test_what_belongs_there_is_written_with_plain_rights(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    made = tmp_path / "a.tar"
    with tarfile.open(made, "w") as opened:
        file = tarfile.TarInfo("file")
        file.mode, file.uid = 0o4777, 12345
        opened.addfile(file)
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "file"
        opened.addfile(link)
    assert unpack(made, tmp_path / "out", 2) == []
    found = (tmp_path / "out/link").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o755, os.geteuid())
