"""The store as a directory: a real mount of a real server, read by ordinary programs, killed, left
without a server.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.mount import mount_points
from lading.client.servers.environment import find_server
from tests.reality import need, need_program
from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import LADING, Cluster, is_alive, running_cluster

pytestmark = pytest.mark.system
PATIENCE = 180.0


@pytest.fixture(scope="module", autouse=True)
def _fuse() -> None:
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")
    need_program("fusermount3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("mount") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of several blocks, many small ones, names that are hard to write, an empty
    directory.
    """
    root = tmp_path_factory.mktemp("source")
    chance = random.Random(4)
    (root / "big").write_bytes(chance.randbytes(70 << 20))
    (root / "many").mkdir()
    for number in range(300):
        (root / "many" / f"file {number} é").write_bytes(chance.randbytes(number * 10))
    (root / "empty").mkdir()
    return root


@pytest.fixture(scope="module")
def pdh(cluster: Cluster, source: Path) -> str:
    return cluster.lading("put", str(source), "--name", "source").stdout.strip()


@contextmanager
def mounted(
    cluster: Cluster, root: Path, *options: str, apart: bool = False
) -> Iterator[tuple[Path, int]]:
    """A mount in the background, with a cache of its own, and the number of its process.

    `apart`: the server lends it no files, as if it was on another machine.
    """
    place = root / "mount"
    place.mkdir(exist_ok=True)
    here = (
        replace(cluster, environment=cluster.environment | {"LADING_DATA": ""})
        if apart
        else cluster
    )
    answer = json.loads(
        here.lading(
            "mount", str(place), "--cache-dir", str(root / "cache"), "--json", *options
        ).stdout
    )
    try:
        yield place, answer["pid"]
    finally:
        if mount_points.kind_of(place):
            cluster.lading("mount", "--unmount", str(place))
        _until(lambda: not is_alive(answer["pid"]))


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _until(what: object) -> None:
    limit = time.monotonic() + PATIENCE
    while not what():  # type: ignore[operator]
        assert time.monotonic() < limit
        time.sleep(0.05)


def _same(one: Path, other: Path) -> None:
    done = subprocess.run(
        ["diff", "-r", str(one), str(other)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.quick
def test_ordinary_programs_read_it(
    cluster: Cluster, source: Path, pdh: str, tmp_path: Path
) -> None:
    with mounted(cluster, tmp_path) as (place, _):
        assert _names(place) == ["README", "by_id", "by_tag", "home", "shared"]
        _same(source, place / "by_id" / pdh)
        _same(source, place / "home" / "source")
        found = subprocess.run(
            ["find", str(place / "by_id" / pdh), "-type", "f"], capture_output=True, check=True
        )
        assert len(found.stdout.splitlines()) == 301
        with pytest.raises(OSError) as caught:
            (place / "home" / "source" / "big").write_bytes(b"")
        assert caught.value.errno == errno.EROFS


def test_four_read_at_once(cluster: Cluster, source: Path, pdh: str, tmp_path: Path) -> None:
    with mounted(cluster, tmp_path, "--collection", pdh, apart=True) as (place, _):
        command = ["cmp", str(source / "big"), str(place / "big")]
        readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
        assert [reader.communicate(timeout=120)[0] for reader in readers] == [b""] * 4
    blocks = [path for path in (tmp_path / "cache" / "blocks").glob("???/*") if path.stat().st_size]
    assert len(blocks) == 2


def test_on_the_machine_of_the_server_nothing_is_kept_twice(
    cluster: Cluster, source: Path, pdh: str, tmp_path: Path
) -> None:
    place = tmp_path / "m"
    place.mkdir()
    command = (
        "mount",
        str(place),
        "--collection",
        pdh,
        "--cache-dir",
        str(tmp_path / "c"),
        "--json",
        "--exec",
    )
    done = cluster.lading(*command, "diff", "-r", str(source), str(place))
    found = json.loads(done.stdout)["statistics"]
    assert (found["blocks_lent"], found["blocks_fetched"], found["failed"]) == (3, 0, 0)
    assert list((tmp_path / "c" / "blocks").glob("???/*")) == []


def test_a_flipped_bit_is_never_read_and_named(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 5000)
    with running_cluster(tmp_path / "data") as cluster:
        pdh = cluster.lading("put", str(tmp_path / "one")).stdout.strip()
        block = next(
            path
            for path in (tmp_path / "data" / "blocks").glob("???/*")
            if path.stat().st_size == 5000
        )
        for apart in (False, True):
            root = tmp_path / f"apart {apart}"
            root.mkdir()
            with mounted(cluster, root, "--collection", pdh, "--timeout", "1s", apart=apart) as (
                place,
                _,
            ):
                if not apart:
                    assert (place / "one").read_bytes() == b"1" * 5000
                    # The block is open, and was verified; the kernel keeps nothing of the mounted
                    # file.
                    with (place / "one").open("rb") as file:
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    with block.open("r+b") as file:
                        file.seek(2500)
                        file.write(b"0")
                with pytest.raises(OSError) as caught:
                    (place / "one").read_bytes()
                assert caught.value.errno == errno.EIO
            assert block.name in (root / "cache" / "mount.log").read_text()


def test_what_is_made_or_removed_shows_at_once(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("new")
    with mounted(cluster, tmp_path) as (place, _):
        assert "fresh" not in _names(place / "home")
        uuid = json.loads(
            cluster.lading("put", str(tmp_path / "note"), "--name", "fresh", "--json").stdout
        )["uuid"]
        began = time.monotonic()
        _until(lambda: (place / "home" / "fresh" / "note").exists())
        assert time.monotonic() - began < 5
        assert (place / "by_id" / uuid / "note").read_text() == "new"


def test_a_file_that_changed_is_read_anew(cluster: Cluster, tmp_path: Path) -> None:
    for name, text in (("before", "first"), ("after", "other")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    before, after = (_put(cluster, tmp_path / name) for name in ("before", "after"))
    with mounted(cluster, tmp_path) as (place, _):
        path = place / "by_id" / before["uuid"] / "file"
        assert path.read_text() == "first"
        asyncio.run(_replace(cluster, before["uuid"], after["portable_data_hash"]))
        _until(lambda: path.read_text() == "other")


def _put(cluster: Cluster, path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(cluster.lading("put", str(path), "--json").stdout)
    return found


async def _replace(cluster: Cluster, uuid: str, pdh: str) -> None:
    server = find_server(cluster.environment, Path("/nonexistent"))
    async with server.transport() as transport:
        api = ApiClient(transport, server.token)
        text = (await api.get("collections", pdh))["manifest_text"]
        await api.update("collections", uuid, {"manifest_text": text})


def test_it_is_there_for_one_command(cluster: Cluster, pdh: str, tmp_path: Path) -> None:
    place = tmp_path / "m"
    place.mkdir()
    command = (
        "mount",
        str(place),
        "--collection",
        pdh,
        "--cache-dir",
        str(tmp_path / "c"),
        "--json",
        "--exec",
    )
    done = cluster.lading(*command, "sh", "-c", f"ls {place}; exit 3", check=False)
    listed, _, answer = done.stdout.partition("{")
    assert (done.returncode, listed.split()) == (3, ["big", "empty", "many"])
    assert json.loads("{" + answer)["statistics"]["failed"] == 0
    assert _names(place) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_term_unmount(cluster: Cluster, tmp_path: Path, number: int) -> None:
    command = [LADING, "mount", str(tmp_path), "--foreground", "--cache-dir", str(tmp_path / "c")]
    running = subprocess.Popen(command, env=cluster.environment, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "mounted; Ctrl-C unmounts it" in running.stderr.readline()
    time.sleep(1)
    assert mount_points.kind_of(tmp_path) == "fuse.lading"
    running.send_signal(number)
    running.communicate(timeout=PATIENCE)
    assert (running.returncode, mount_points.kind_of(tmp_path)) == (0, "")


def test_a_killed_mount_is_explained_and_taken_away(
    cluster: Cluster, pdh: str, tmp_path: Path
) -> None:
    with mounted(cluster, tmp_path, "--collection", pdh) as (place, pid):
        os.kill(pid, signal.SIGKILL)
        _until(lambda: not is_alive(pid))
        with pytest.raises(OSError) as caught:
            _names(place)
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        again = cluster.lading("mount", str(place), check=False)
        assert again.returncode == 1
        assert (
            f"a mount is there whose process is gone; take it away: lading mount --unmount {place}"
            in again.stderr
        )
        cluster.lading("mount", "--unmount", str(place))
        assert _names(place) == []
    with mounted(cluster, tmp_path, "--collection", pdh) as (place, _):
        assert (place / "many" / "file 1 é").stat().st_size == 10


def test_without_a_server_it_fails_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 5000)
    (tmp_path / "two").write_bytes(b"2" * 5000)
    with running_cluster(tmp_path / "data") as cluster:
        one, two = (
            cluster.lading("put", str(tmp_path / name)).stdout.strip() for name in ("one", "two")
        )
        with mounted(cluster, tmp_path, "--timeout", "1s") as (place, _):
            assert (place / "by_id" / one / "one").read_bytes() == b"1" * 5000
            assert (place / "by_id" / two / "two").stat().st_size == 5000
            cluster.stop()
            assert (place / "by_id" / one / "one").read_bytes() == b"1" * 5000
            began = time.monotonic()
            for path in (place / "by_id" / two / "two", place / "by_id" / f"{'0' * 32}+10" / "x"):
                with pytest.raises(OSError) as caught:
                    path.read_bytes()
                assert caught.value.errno == errno.EIO
            assert time.monotonic() - began < 15
            cluster.start()
            _until(lambda: _reads(place / "by_id" / two / "two", b"2" * 5000))
        log = (tmp_path / "cache" / "mount.log").read_text()
    assert "read path=" in log
    assert "cannot be reached" in log or "no answer within" in log


def _reads(path: Path, expected: bytes) -> bool:
    try:
        return path.read_bytes() == expected
    except OSError:
        return False


def test_a_lost_block_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 5000)
    with running_cluster(tmp_path / "data") as cluster:
        pdh = cluster.lading("put", str(tmp_path / "one")).stdout.strip()
        block = next(
            path
            for path in (tmp_path / "data" / "blocks").glob("*/*")
            if path.stat().st_size == 5000
        )
        block.unlink()
        with mounted(cluster, tmp_path, "--collection", pdh) as (place, _):
            with pytest.raises(OSError) as caught:
                (place / "one").read_bytes()
            assert caught.value.errno == errno.EIO
        assert block.name in (tmp_path / "cache" / "mount.log").read_text()


def test_unmodified_arv_mount_reads_the_same(
    cluster: Cluster, source: Path, pdh: str, tmp_path: Path
) -> None:
    need_program("fusermount")
    programs, place = client_environment(), tmp_path / "arv"
    place.mkdir()
    environment = cluster.environment | {"HOME": str(tmp_path)}
    command = [
        str(programs / "arv-mount"),
        "--by-id",
        str(place),
        "--exec",
        "diff",
        "-r",
        str(source),
        f"{place}/{pdh}",
    ]
    log = tmp_path / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, env=environment, stdout=out, stderr=out) as program,
    ):
        try:
            code = program.wait(120)
        except subprocess.TimeoutExpired:
            pytest.fail(f"arv-mount hangs: {log.read_text()}\n{_waits(program.pid)}")
        finally:
            program.kill()
            # One that was killed leaves its mount, and nobody could remove the directory.
            subprocess.run(["fusermount", "-u", "-z", str(place)], capture_output=True, check=False)
    assert code == 0, log.read_text()


def _waits(pid: int) -> str:
    """Where in the kernel the threads of a process and of its children are."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    tasks = [task for one in (str(pid), *children) for task in Path(f"/proc/{one}/task").iterdir()]
    return "\n".join(
        f"{one.name} {(one / 'comm').read_text().strip()} {(one / 'wchan').read_text()}"
        for one in tasks
    )
