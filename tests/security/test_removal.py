"""What containers, images and repositories leave is removed however odd it is, and keeps nobody
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lading.client.caches.tree_cache import TreeCache
from lading.process import removal, tree_removal
from lading.supervisor import linux
from tests.reality import need_program, need_root
from tests.supervisor.warm import PATIENCE, start_parent
from tests.system.cluster import LADING
from tests.system.test_supervisor import Stage, staged

# Paths of 200 directories in one another, 13 times: 2,600, in its scratch and in its root file
# system.
NEST = """
for place in /tmp /; do
  cd $place
  path=$(printf 'd/%.0s' $(seq 200))
  for round in 1 2 3 4 5 6 7 8 9 10 11 12 13; do mkdir -p $path && cd -P $path || exit 3; done
  echo x > file || exit 4
done
cd /out && echo done > file
"""
MOUNTS: dict[str, Any] = {"/out": {"kind": "tmp"}, "/tmp": {"kind": "tmp"}}


def _socket(request: pytest.FixtureRequest, engine: str) -> dict[str, Any]:
    if engine == "native":
        return {}
    fixture = "docker_daemon" if engine == "docker" else "podman_service"
    return {f"{engine}_socket": str(request.getfixturevalue(fixture).socket)}


@pytest.mark.system
@pytest.mark.parametrize("engine", ["native", "docker", "podman"])
@pytest.mark.attack(
    "a container leaves thousands of directories nested in one another in its scratch"
)
async def test_nested_directories_are_removed(request: pytest.FixtureRequest, engine: str) -> None:
    need_root()
    need_program("crun")
    async with staged(engine=engine, **_socket(request, engine)) as stage:
        for _ in range(2):
            record = await stage.run(["sh", "-c", NEST], mounts=MOUNTS, output_path="/out")
            assert (record["state"], record["exit_code"]) == ("Complete", 0)
            assert stage.parent.ask("list")[0]["dead"] == []
            assert not (stage.directory / removal.NAME).exists()
            del stage.server.containers[record["uuid"]]


def _attribute(change: str, place: Path) -> None:
    subprocess.run(["chattr", change, str(place)], check=True)


async def _leave_something(stage: Stage) -> dict[str, Any]:
    """Run a container of whose scratch something cannot be removed."""
    script = (
        "mkdir -p /tmp/stay; echo x > /tmp/stay/file; echo up; "
        "while [ ! -e /out/go ]; do sleep 0.02; done"
    )
    record, pidfd = await stage.begun(["sh", "-c", script], mounts=MOUNTS, output_path="/out")
    (stay,) = stage.parent.run.glob("*/mounts/*/stay")
    _attribute("+i", stay)
    for scratch in stay.parent.parent.iterdir():
        (scratch / "go").touch()
    await stage.over(pidfd)
    return record


@pytest.mark.system
@pytest.mark.attack(
    "a container leaves files in its scratch that cannot be removed, to keep its CPUs and memory"
)
async def test_what_stays_keeps_no_room_and_is_removed_later() -> None:
    need_root()
    need_program("crun")
    need_program("chattr")
    async with staged(engine="native") as stage:
        record = await _leave_something(stage)
        assert (record["state"], record["exit_code"]) == ("Complete", 0)
        assert stage.parent.ask("list")[0]["dead"] == []
        aside = stage.directory / removal.NAME
        (left,) = aside.glob(f"{record['uuid']}~*/mounts/*/stay")
        # Only that is left, and the lock.
        assert sum(1 for _ in aside.rglob("*")) == 6
        command = [LADING, "doctor", "--data", str(stage.directory)]
        said = (
            await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False
            )
        ).stdout
        assert f"1 in {aside}" in said
        # The machine goes on.
        del stage.server.containers[record["uuid"]]
        assert (await stage.run(["true"], mounts=MOUNTS, output_path="/out"))["state"] == "Complete"
        _attribute("-i", left)
        # One forkserver at a time serves a directory.
        stage.parent.connection.close()
        await asyncio.to_thread(stage.parent.process.wait, PATIENCE)
        again = start_parent(stage.directory)
        try:
            until = time.monotonic() + PATIENCE
            while aside.exists() and time.monotonic() < until:
                await asyncio.sleep(0.05)
            assert not aside.exists()
        finally:
            again.connection.close()
            again.process.wait(PATIENCE)


def _nest(top: Path, depth: int) -> None:
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


@pytest.mark.attack(
    "an input collection is nested so deep that the cache of inputs cannot remove it"
)
@pytest.mark.quick
async def test_a_deep_collection_does_not_stop_the_cache_of_inputs(tmp_path: Path) -> None:
    cache = TreeCache(tmp_path / "cache" / "trees", 1)

    async def deep(place: Path) -> None:
        _nest(place, 2600)

    async def flat(place: Path) -> None:
        (place / "file").write_text("x")

    for number, fill in enumerate((deep, flat, deep)):
        async with cache.lease(f"{number:032x}+0", fill):
            pass
    assert len(list((tmp_path / "cache" / "trees").glob("*+0"))) == 1
    assert not (tmp_path / "cache" / removal.NAME).exists()
    # The tests' own removal of directories is not made for it.
    tree_removal.remove(tmp_path / "cache")


@pytest.mark.attack("a container makes a scratch so large that its removal takes minutes")
def test_a_removal_takes_some_seconds_at_most(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "uuid"
    directory.mkdir(parents=True)
    for number in range(20000):
        (directory / str(number)).touch()
    began = time.monotonic()
    removal.discard(directory, aside=removal.beside(directory), patience=0.01)
    assert time.monotonic() - began < 5
    assert not directory.exists()
    assert len(removal.waiting(tmp_path / removal.NAME)) == 1
    assert removal.retry(tmp_path / removal.NAME) == 0


@pytest.mark.attack("a container's leftover is swapped for a link to the host while it is removed")
def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "file").touch()
    code = f"""
import os, sys
os.chdir({str(tmp_path / "data" / "run")!r})
print("up", flush=True)
while True:
    for name in ("a", "b"):
        try:
            os.rename("uuid/" + name, "uuid/c")
            os.symlink({str(host)!r}, "uuid/" + name)
            os.rename("uuid/c", "uuid/" + name + "/c")
            os.unlink("uuid/" + name)
            os.rename("uuid/c", "uuid/" + name)
        except OSError:
            pass
"""
    directory = tmp_path / "data" / "run" / "uuid"
    directory.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout is not None
            attacker.stdout.readline()
            for _ in range(30):
                with contextlib.suppress(OSError):
                    for name in ("a", "b"):
                        (directory / name / "x" / "y").mkdir(parents=True)
                        (directory / name / "file").touch()
                        _nest(directory / name / "x", 60)
                linux.discard_directory(directory, aside=removal.beside(directory))
                assert not directory.exists()
                directory.mkdir()
                assert (host / "file").exists()
        finally:
            attacker.kill()
