from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.mounting.mount_steps import GitTree
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.process.cancellation import Stopped
from lading.supervisor.inputs.git_archives import fetch, unpack
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import CONTAINER
from tests.repository import Repository


def archive(*members: tuple[str, str | bytes, int]) -> io.BytesIO:
    """An archive of files (bytes), links (text) and directories (mode 0)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content, mode in members:
            member = tarfile.TarInfo(name)
            member.mode = mode
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            elif not mode:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(content)
            tar.addfile(
                member, io.BytesIO(content) if isinstance(content, bytes) and mode else None
            )
    file.seek(0)
    return file


def test_what_git_makes_is_laid_out(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    (tmp_path / "repository" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "repository" / "run.sh").chmod(0o755)
    (tmp_path / "repository" / "link").symlink_to("tools/grep")
    repository.commit(tools__grep="x" * 2_000_000)
    made = repository.git("archive", "--format=tar", f"--output={tmp_path / 'tar'}", "main^{tree}")
    assert made == ""
    (tmp_path / "to").mkdir()
    with (tmp_path / "tar").open("rb") as file:
        unpack(file, tmp_path / "to")
    assert (tmp_path / "to" / "tools" / "grep").stat().st_size == 2_000_000
    assert (tmp_path / "to" / "tools" / "grep").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "to" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert str((tmp_path / "to" / "link").readlink()) == "tools/grep"


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ([("../x", b"1", 0o644)], "leads out of it"),
        ([("/x", b"1", 0o644)], "leads out of it"),
        ([("l", "/tmp", 0o777), ("l/x", b"1", 0o644)], "is not a directory"),
        ([("l", "..", 0o777), ("l/y/x", b"1", 0o644)], "is not a directory"),
        ([("x", b"1", 0o644), ("x", b"2", 0o644)], "is there twice"),
    ],
)
def test_nothing_is_written_outside(
    tmp_path: Path, members: list[tuple[str, str | bytes, int]], fault: str
) -> None:
    (tmp_path / "to").mkdir()
    with pytest.raises(ExecutionError, match=fault) as caught:
        unpack(archive(*members), tmp_path / "to")
    assert caught.value.failure is Failure.INFRASTRUCTURE
    assert [one.name for one in tmp_path.iterdir()] == ["to"]


@pytest.mark.parametrize("target", ["x" * 5000, ""])
def test_a_link_that_no_file_system_has_is_a_fault_of_the_input(
    tmp_path: Path, target: str
) -> None:
    with pytest.raises(ExecutionError, match="cannot be written") as caught:
        unpack(archive(("x", target, 0o777)), tmp_path)
    assert caught.value.failure is Failure.INPUT


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_git_does_not_know_is_refused(tmp_path: Path, kind: bytes) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo("x")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    file.seek(0)
    with pytest.raises(ExecutionError, match="has the type"):
        unpack(file, tmp_path)


@pytest.mark.parametrize("length", [0, 100, 512, 1000, 1536, 2048])
def test_an_archive_that_was_cut_off_is_no_tree(tmp_path: Path, length: int) -> None:
    whole = archive(("a", b"x" * 700, 0o644), ("b", b"y" * 10, 0o644)).getvalue()
    with pytest.raises(Unavailable):
        unpack(io.BytesIO(whole[:length]), tmp_path)


def test_an_empty_tree(tmp_path: Path) -> None:
    unpack(archive(), tmp_path)
    assert list(tmp_path.iterdir()) == []


class Served:
    """A server with one answer."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status
        self.paths: list[str] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        self.paths.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.body})

    def api(self) -> ApiClient:
        return ApiClient(AsgiTransport(self), "t", retry=NO_RETRY)


async def test_a_tree_is_fetched(tmp_path: Path) -> None:
    server = Served(archive(("d", b"", 0), ("d/x", b"1", 0o644)).getvalue())
    (tmp_path / "to").mkdir()
    await fetch(server.api(), CONTAINER, GitTree("a" * 40, "tree"), tmp_path / "to")
    assert (tmp_path / "to" / "d" / "x").read_bytes() == b"1"
    assert server.paths == [f"/arvados/v1/containers/{CONTAINER}/git_tree?hash={'a' * 40}"]
    assert [one.name for one in tmp_path.iterdir()] == ["to"]


async def test_a_blob_is_fetched_and_checked(tmp_path: Path) -> None:
    digest = hashlib.sha1(b"blob 5\0hello", usedforsecurity=False).hexdigest()
    (tmp_path / "to").mkdir()
    with pytest.raises(Unavailable, match="are another object"):
        await fetch(Served(b"hell").api(), CONTAINER, GitTree(digest, "blob"), tmp_path / "to")
    await fetch(Served(b"hello").api(), CONTAINER, GitTree(digest, "blob"), tmp_path / "to")
    assert (tmp_path / "to" / "blob").read_bytes() == b"hello"
    assert GitTree(digest, "blob").key == f"git-{digest}"


async def test_a_tree_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="git tree aaaa.*: gone") as caught:
        await fetch(
            Served(b'{"errors":["gone"]}', 404).api(),
            CONTAINER,
            GitTree("a" * 40, "tree"),
            tmp_path,
        )
    assert caught.value.failure is Failure.INPUT


def test_unpacking_can_be_stopped(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        unpack(archive(("a", b"x", 0o644)), tmp_path, stop=lambda: True)
    assert list(tmp_path.iterdir()) == []
