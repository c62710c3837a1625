from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account
from lading.core.user_ids import PLAIN
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, LiveSource, check_live
from lading.supervisor.engines.id_mappings import fault_of
from lading.supervisor.engines.user_namespace import UserNamespace, UserNamespacePolicy, refuse
from tests.reality import need, need_root


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[UserNamespace]:
    need_root()
    need(fault_of(tmp_path) == "", "idmapped mounts")
    made = UserNamespace(tmp_path / "run", tmp_path / "machine")
    made.open()
    yield made
    made.close()
    assert linux.mounts_below(str(tmp_path)) == []
    assert not made.directory.exists()


def test_binds_are_shown_mapped_and_go_again(namespace: UserNamespace, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "file").touch(mode=0o600)
    folder, file = namespace.binds(
        (Bind(str(tmp_path / "given"), "/a", False), Bind(str(tmp_path / "file"), "/b", True))
    )
    assert (folder.target, file.target, file.readonly) == ("/a", "/b", True)
    assert Path(file.source).stat().st_uid == namespace.root
    assert Path(folder.source).stat().st_gid == namespace.root
    with pytest.raises(OSError, match="Read-only"):
        Path(file.source).write_text("x")


def test_layers_are_shown_once_to_all_ranks(namespace: UserNamespace, tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    (shown,) = namespace.layers([str(tmp_path / "layer")])
    assert Path(shown).stat().st_uid == namespace.root
    assert namespace.layers([str(tmp_path / "layer")]) == [shown]


def test_devices_are_copies_for_all_its_users(namespace: UserNamespace) -> None:
    assert namespace.devices(()) == ()
    (made,) = namespace.devices((Device("/dev/null", "/dev/card"),))
    found = Path(made.source).stat()
    assert (found.st_rdev, found.st_mode & 0o777) == (Path("/dev/null").stat().st_rdev, 0o666)
    assert found.st_uid == namespace.root
    assert made.target == "/dev/card"


def test_the_gate_is_a_pipe_of_its_own(namespace: UserNamespace) -> None:
    path, descriptor = namespace.gate()
    assert Path(path).is_fifo()
    os.close(descriptor)


def test_a_stream_cannot_be_written_back(namespace: UserNamespace, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("data")
    with (tmp_path / "input").open("rb") as file:
        descriptor = namespace.stream(file.fileno(), readonly=True)
    assert os.fstat(descriptor).st_uid == namespace.root
    with pytest.raises(OSError, match="Read-only"):
        os.fchmod(descriptor, 0o777)
    os.close(descriptor)


def test_large_ids_are_mapped_one_by_one(namespace: UserNamespace, tmp_path: Path) -> None:
    namespace.open((3_000_000, 2_000_000))
    assert namespace.lacking(Account(2_000_000, PLAIN - 1, (7, PLAIN))) == {PLAIN}
    (tmp_path / "own").touch(mode=0o600)
    os.chown(tmp_path / "own", 2_000_000, 3_000_000)
    (shown,) = namespace.binds((Bind(str(tmp_path / "own"), "/a", False),))
    found = Path(shown.source).stat()
    assert (found.st_uid, found.st_gid) == (namespace.root + PLAIN, namespace.root + PLAIN + 1)
    namespace.close()
    with pytest.raises(ExecutionError, match="more than 256 users and groups") as caught:
        namespace.open(range(PLAIN, PLAIN + 257))
    assert caught.value.failure is Failure.IMAGE
    namespace.open()


def test_another_object_takes_away_what_was_left(namespace: UserNamespace, tmp_path: Path) -> None:
    namespace.binds((Bind(str(tmp_path), "/a", False),))
    # One mount over the other.
    namespace.open()
    UserNamespace(tmp_path / "run", tmp_path / "machine").close()
    assert not namespace.directory.exists()
    UserNamespace(tmp_path / "run", tmp_path / "machine").close()


def test_nothing_of_a_directory_that_is_not_empty_is_removed(tmp_path: Path) -> None:
    made = UserNamespace(tmp_path / "run", tmp_path / "machine")
    made.directory.mkdir(parents=True)
    (made.directory / "kept").touch()
    with pytest.raises(OSError, match="not empty"):
        made.close()
    (made.directory / "kept").unlink()
    made.close()
    assert not made.directory.exists()


def test_what_cannot_be_mapped_is_told(namespace: UserNamespace) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        namespace.binds((Bind("/proc/self", "/a", False),))
    with pytest.raises(OSError, match="Invalid argument"):
        namespace.layers(["/proc/self"])
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Invalid argument"):
        namespace.stream(reading, readonly=True)
    os.close(reading)
    os.close(writing)


def test_what_does_unmapped_is_shown_as_it_is(namespace: UserNamespace) -> None:
    # The kernel maps no procfs.
    (made,) = namespace.binds((Bind("/proc/version", "/a", True),))
    assert "Linux" in Path(made.source).read_text()


def test_auto_goes_on_and_always_does_not() -> None:
    error = OSError(22, "Invalid argument", "/data")
    assert refuse(UserNamespacePolicy.AUTO, error).endswith(
        "its root is the machine's: Invalid argument: /data"
    )
    with pytest.raises(
        ExecutionError, match="UserNamespaces is always: Invalid argument: /data"
    ) as caught:
        refuse(UserNamespacePolicy.ALWAYS, error)
    assert caught.value.failure is Failure.NODE
    assert refuse(UserNamespacePolicy.AUTO, OSError(1, "no reason")).endswith(": no reason")


def test_a_live_mount_belongs_to_its_owner(namespace: UserNamespace, tmp_path: Path) -> None:
    place = tmp_path / "live"
    place.mkdir()
    (place / "other").touch()
    (place / "made").touch()
    os.chown(place, 43210, 43210)
    os.chown(place / "made", 43210, 54321)
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    live = LiveSource(descriptor, 43210, 43210, (54321,))
    (bind,) = namespace.binds((Bind(f"/proc/self/fd/{descriptor}", "/a", False, live=live),))
    os.close(descriptor)
    shown = Path(bind.source)
    assert shown.stat().st_uid == namespace.root
    assert (shown / "other").stat().st_uid == 65534
    made = (shown / "made").stat()
    assert (made.st_uid, made.st_gid) == (namespace.root, namespace.root + 1)
    assert os.statvfs(shown).f_flag & os.ST_NOSUID


def test_live_mounts_need_a_namespace() -> None:
    plain = Bind("/x", "/a", False)
    check_live([plain], "none")
    with pytest.raises(ExecutionError, match="a live mount needs the native engine"):
        check_live([plain, structs.replace(plain, live=LiveSource(3, 1, 1))], "none")
