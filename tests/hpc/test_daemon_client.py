"""Talking to a daemon."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.hpc.daemon_client import DaemonClient
from lading.hpc.plan import make_identity
from tests.hpc_daemon import Rig, until


async def test_everything_a_conductor_needs(rig: Rig) -> None:
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    assert (await caller.ask("/v1/query"))["codeStatus"] == "Waiting"
    await caller.tell("/v1/daemon-configuration", {"daemonParameters": {"worldRank": 0}})
    rig.code("printf 0123")
    rig.prepare()
    await caller.command("start")
    rig.reach(codeStatus="Stopped")
    assert (await caller.log("stdout", 2), await caller.log("stdout", 9)) == (b"23", b"")
    with pytest.raises(Unavailable, match="Code already started"):
        await caller.command("start")


@pytest.mark.parametrize("name", ["mesh.txt", "my \N{LATIN SMALL LETTER A WITH DIAERESIS}.txt"])
@pytest.mark.parametrize("size", [0, 5, (1 << 20) + 1])
async def test_a_file_becomes_one_that_the_code_may_change(
    rig: Rig, tmp_path: Path, name: str, size: int
) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    source.chmod(0o444)
    await DaemonClient("127.0.0.1", rig.identity, rig.port).put_file(name, source)
    made = rig.root / "hpcaas" / "files" / name
    assert (made.read_bytes(), made.stat().st_mode & 0o777) == (source.read_bytes(), 0o666)


async def test_a_file_that_cannot_be_read_is_named(rig: Rig, tmp_path: Path) -> None:
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    with pytest.raises(Unavailable, match="mesh: cannot be read: No such file"):
        await caller.put_file("mesh", tmp_path / "none")


async def test_nobody_else_is_taken_for_the_daemon(rig: Rig) -> None:
    other = make_identity("localhost", now=datetime.now(UTC))
    for identity in (other, dataclasses.replace(rig.identity, certificate=other.certificate)):
        with pytest.raises(Unavailable, match="does not answer"):
            await DaemonClient("127.0.0.1", identity, rig.port).ask("/v1/query")
    wrong = dataclasses.replace(rig.identity, authorization="wrong")
    with pytest.raises(Unavailable, match="Bad Authorization"):
        await DaemonClient("127.0.0.1", wrong, rig.port).ask("/v1/query")
    with pytest.raises(Unavailable, match="no JSend"):
        await DaemonClient("127.0.0.1", rig.identity, rig.port).ask("/v1/logs/stdout")


async def test_who_follows_is_told_when_there_is_something_new(rig: Rig) -> None:
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    rig.code(
        f"while ! [ -e {rig.root}/go ]; do sleep 0.02; done; echo news; read x < {rig.root}/pipe"
    )
    os.mkfifo(rig.root / "pipe")
    rig.configure(childFailurePolicy="direct")
    rig.prepare()
    await caller.command("start")
    known, said = await caller.follow("", wait=30)
    assert (said["codeStatus"], said["logs"]["stdout"]) == ("Running", 0)
    again, said = await caller.follow(known, wait=1)
    assert again == known
    (rig.root / "go").touch()
    known, said = await caller.follow(known, wait=30)
    assert said["logs"]["stdout"] == 5
    following = asyncio.create_task(caller.follow(known, wait=30))
    (rig.root / "hpcaas/updates/percentComplete").write_text("40")
    known, said = await following
    if said["percentComplete"] is None:
        # It was seen before anything was in it.
        known, said = await caller.follow(known, wait=30)
    assert said["percentComplete"] == 40
    following = asyncio.create_task(caller.follow(known, wait=30))
    (rig.root / "pipe").write_text("end\n")
    known, said = await following
    assert said["codeStatus"] == "Stopped"
    caller.close()


async def test_who_follows_comes_back_to_a_daemon_that_was_started_again(rig: Rig) -> None:
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    known, _ = await caller.follow("", wait=0)
    rig.kill()
    with pytest.raises(Unavailable, match="does not answer"):
        await caller.follow(known, wait=30)
    with pytest.raises(Unavailable, match="does not answer"):
        await caller.follow(known, wait=30)
    rig.up()
    caller.port = rig.port
    assert (await caller.follow(known, wait=0))[1]["codeStatus"] == "Waiting"
    caller.close()


async def test_beside_code_that_runs_the_daemon_does_nothing(rig: Rig) -> None:
    """It is not woken once, though it is followed: no timer, no look at processes or files.

    One of ten windows of three seconds must be quite still: the kernel wakes a process now and then
    on its own account, a timer does so in all of them.
    """
    caller = DaemonClient("127.0.0.1", rig.identity, rig.port)
    rig.code("exec sleep 120")
    rig.prepare()
    await caller.command("start")
    known, _ = await caller.follow("", wait=0)
    following = asyncio.create_task(caller.follow(known, wait=60))
    await asyncio.to_thread(until, lambda: _is_still(rig))
    assert 0 in [woken async for woken in _windows(rig, following)]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    caller.close()


async def _windows(rig: Rig, following: asyncio.Task[object]) -> AsyncIterator[int]:
    """How often the daemon was woken in each window of three seconds, up to the first still one."""
    for _ in range(10):
        before = _wakes(rig)
        await asyncio.wait([following], timeout=3)
        assert not following.done()
        yield (woken := _wakes(rig) - before)
        if not woken:
            return


def _is_still(rig: Rig) -> bool:
    before = _wakes(rig)
    threading.Event().wait(0.5)
    return _wakes(rig) == before


def _wakes(rig: Rig) -> int:
    assert rig.process is not None
    return int(Path(f"/proc/{rig.process.pid}/schedstat").read_text().split()[2])
