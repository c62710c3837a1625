from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lading.supervisor import linux
from lading.supervisor.limits.counters import descendants
from tests.reality import need_program

needs_root = pytest.mark.usefixtures("as_root")


def in_own_namespace(work: str, directory: Path) -> str:
    """What a fresh process prints that has left the machine's mount namespace."""
    code = f"""
import os, sys
from pathlib import Path
from lading.supervisor import linux
directory = Path({str(directory)!r})
assert not linux.has_own_mounts()
linux.leave_mount_namespace()
assert linux.has_own_mounts()
{work}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_root
def test_an_overlay_is_seen_by_nobody_else(tmp_path: Path) -> None:
    for name in ("low:er,1", "low2", "upper", "work", "root"):
        (tmp_path / name).mkdir()
    (tmp_path / "low:er,1" / "same").write_text("top")
    (tmp_path / "low2" / "same").write_text("bottom")
    (tmp_path / "low2" / "other").write_text("x")
    work = """
lower = [str(directory / name) for name in ("low:er,1", "low2")]
upper, work = str(directory / "upper"), str(directory / "work")
linux.mount_overlay(str(directory / "root"), lower=lower, upper=upper, work=work)
(directory / "root" / "new").write_text("y")
print(sorted(os.listdir(directory / "root")), (directory / "root" / "same").read_text())
print(linux.mounts_below(str(directory)) == [str(directory / "root")])
"""
    assert in_own_namespace(work, tmp_path) == "['new', 'other', 'same'] top\nTrue\n"
    assert (tmp_path / "upper" / "new").exists()
    assert linux.mounts_below(str(tmp_path)) == []


@needs_root
def test_files_of_others_in_user_space_are_left_behind(disk_path: Path) -> None:
    """Their programs could not end while a supervisor runs, where the machine does not share its
    mounts.
    """
    need_program("fusermount3")
    for name in ("theirs", "ours"):
        (disk_path / name).mkdir()
    work = """
descriptors = [os.open("/dev/fuse", os.O_RDWR) for _ in range(2)]
for name, descriptor in zip(("theirs", "ours"), descriptors):
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0"
    linux.mount("x", str(directory / name), "fuse.x", options)
before = linux.mounts_below(str(directory))
linux.leave_mount_namespace(directory / "ours" / "run")
print(len(before), linux.mounts_below(str(directory)) == [str(directory / "ours")])
linux.unmount(str(directory / "ours"))
"""
    assert in_own_namespace(work, disk_path) == "2 True\n"


@needs_root
def test_mounts_are_undone_before_a_directory_is_removed(tmp_path: Path) -> None:
    kept = tmp_path / "gone" / "mount point"
    kept.mkdir(parents=True)
    work = """
linux.mount("tmpfs", str(directory / "gone" / "mount point"), "tmpfs", "size=1m")
(directory / "gone" / "mount point" / "x").write_text("x")
linux.discard_directory(directory / "gone", aside=directory / "removed")
print(linux.mounts_below(str(directory)))
"""
    assert in_own_namespace(work, tmp_path) == "[]\n"
    assert not (tmp_path / "gone").exists()


@needs_root
def test_faults_name_the_place(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        linux.unmount(str(tmp_path))
    with pytest.raises(OSError, match="No such device"):
        linux.mount("x", str(tmp_path), "no-such-file-system", "")
    with pytest.raises(OSError, match=str(tmp_path)):
        linux.mount_overlay(
            str(tmp_path / "none"), lower=[str(tmp_path)], upper=str(tmp_path), work=str(tmp_path)
        )


def test_removing_what_is_not_there(tmp_path: Path) -> None:
    linux.discard_directory(tmp_path / "none", aside=tmp_path / "removed")
    linux.discard_directory(tmp_path / "none", aside=tmp_path / "removed", last="lock")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    linux.discard_directory(tmp_path / "link", aside=tmp_path / "removed")
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_the_last_file_goes_with_the_rest(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "x").touch()
    (directory / "lock").touch()
    (directory / "other").touch()
    linux.discard_directory(directory, aside=tmp_path / "removed", last="lock")
    assert not directory.exists()


async def test_the_end_of_a_child_is_noticed() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        await linux.ended(child.pid)
        assert not linux.is_running(child.pid)
    assert linux.is_running(os.getpid())
    assert not linux.is_running(child.pid)


def _unshare() -> list[str]:
    """The program that makes namespaces; an ordinary user needs a user namespace for others."""
    return ["unshare"] if os.geteuid() == 0 else ["unshare", "--map-root-user"]


@pytest.mark.parametrize(
    ("script", "catches"), [("exec sleep 60", False), ("trap : TERM; echo; cat; :", True)]
)
def test_whether_the_first_process_of_a_namespace_catches_a_signal(
    script: str, catches: bool
) -> None:
    command = [*_unshare(), "--fork", "--pid", "--kill-child", "sh", "-c", f"echo; {script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outer:
        assert outer.stdin is not None
        assert outer.stdout is not None
        outer.stdout.read(2 if catches else 1)
        try:
            init = linux.find_init([1 << 30, *descendants(outer.pid)])
            assert init is not None
            assert linux.catches(init, signal.SIGTERM) is catches
        finally:
            outer.kill()


def test_a_namespace_in_a_container_has_a_first_process_too() -> None:
    inner = "unshare --fork --pid --kill-child sh -c 'echo; exec cat'; :"
    command = [*_unshare(), "--fork", "--pid", "--kill-child", "sh", "-c", inner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outer:
        assert outer.stdout is not None
        outer.stdout.read(1)
        first, *others = descendants(outer.pid)[1:]
        try:
            assert linux.find_init([*reversed(others), first]) == first
        finally:
            outer.kill()


def test_a_process_that_is_not_there_is_no_first_one_and_catches_nothing() -> None:
    assert linux.find_init([os.getpid(), 1 << 30]) is None
    assert not linux.catches(1 << 30, signal.SIGTERM)


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 8192)
    with source.open("rb", 0) as reading, target.open("wb", 0) as writing:
        shares = linux.share_blocks(reading.fileno(), writing.fileno())
    assert target.read_bytes() == (source.read_bytes() if shares else b"")


def test_a_lock_is_seen_while_its_holder_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not linux.is_locked(path)
    with path.open("w") as file:
        assert not linux.is_locked(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        assert linux.is_locked(path)
    assert not linux.is_locked(path)
