"""Ranks on other machines, with annexes that are acted; real ones are in tests/system."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.hpc import network, remote_ranks
from lading.hpc.plan import make_identity
from lading.hpc.ranks import NativeGround
from lading.hpc.remote_ranks import SpreadGround, read_identity
from lading.net.rpc import LinePipe

IDENTITY = make_identity("container_1", now=datetime.now(UTC))

WIRES = (network.Wire("lw4", 4000), network.Wire("lw6", 6000, 6))


class Annex:
    """The other end of a pipe."""

    def __init__(self) -> None:
        mine, theirs = os.pipe(), os.pipe()
        self.pipe = LinePipe(mine[0], theirs[1])
        self._reading, self._writing = (
            os.fdopen(theirs[0], "rb"),
            os.fdopen(mine[1], "wb", buffering=0),
        )

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
    native = NativeGround("u", ("/b/0", "/b/1"), ("crun",), spread=True)
    return SpreadGround(native, WIRES, (annex.pipe,), tmp_path)


async def ended(*annexes: Annex) -> None:
    """They go, and the conductor's end notices."""
    for one in annexes:
        one.send(b"")
        await one.pipe.reader.read()


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
    annex.send(b"an archive")
    assert await ground.gather() == []
    assert annex.told() == {"end": True}
    assert (tmp_path / "1.tar").read_bytes() == b"an archive"


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


async def test_why_a_rank_elsewhere_cannot_be_started_is_said(
    ground: SpreadGround, annex: Annex
) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    for named, failure in (
        ({}, Failure.INFRASTRUCTURE),
        ({"failure": "disk"}, Failure.DISK),
        ({"failure": "node"}, Failure.NODE),
        ({"failure": "command"}, Failure.INFRASTRUCTURE),
        ({"failure": ["disk"]}, Failure.INFRASTRUCTURE),
    ):
        annex.say(fault="no room", **named)
        with pytest.raises(ExecutionError, match="rank 1: no room") as caught:
            await ground.start(1, IDENTITY, {})
        assert caught.value.failure is failure
    annex.send(b"")
    with pytest.raises(ExecutionError, match="has ended"):
        await ground.start(1, IDENTITY, {})


async def test_an_archive_that_the_disk_cannot_hold_is_thrown_away(
    ground: SpreadGround, annex: Annex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    monkeypatch.setattr(remote_ranks, "spool_room", lambda _: 5)
    annex.send(b"an endless stream")
    assert await ground.gather() == [
        "rank 1: its output could not be had: the disk of the first machine has no room for it"
    ]
    assert list(tmp_path.iterdir()) == []


async def test_an_annex_that_sends_too_slowly_is_not_waited_for(
    ground: SpreadGround, annex: Annex, tmp_path: Path
) -> None:
    annex.say(port=5000, address="10.0.0.2", leader="10.0.0.1")
    await ground.open()
    ground.silence = 0.01
    (said,) = await ground.gather()
    assert "sent less than" in said
    assert list(tmp_path.iterdir()) == []
    await ended(annex)


def test_a_spool_leaves_some_of_the_disk_free(tmp_path: Path) -> None:
    assert 0 <= remote_ranks.spool_room(tmp_path) < shutil.disk_usage(tmp_path).free / 2


async def test_what_is_no_message_is_a_fault(ground: SpreadGround, annex: Annex) -> None:
    annex.send(b"srun: error\n")
    with pytest.raises(ExecutionError, match="does not answer"):
        await ground.open()
