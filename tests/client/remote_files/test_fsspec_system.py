"""The file system of fsspec, by the tests that fsspec has for all file systems."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.asyn import sync
from fsspec.tests import abstract

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.remote_files.fsspec_system import LadingFileSystem
from lading.client.remote_files.tree import RemoteFiles
from lading.client.transport import HttpTransport
from tests.cli.site import Site


@pytest.fixture
def fs(stage: Site) -> Iterator[LadingFileSystem]:
    @asynccontextmanager
    async def opening() -> AsyncGenerator[RemoteFiles]:
        async with HttpTransport(unix_socket=stage.socket) as transport:
            token = stage.world.admin
            files = RemoteFiles(ApiClient(transport, token), BlockClient(transport, token))
            yield files
            await files.close()

    system = LadingFileSystem(opening=opening, skip_instance_cache=True)
    yield system
    sync(system.loop, system.close)


@pytest.fixture
def fs_path() -> str:
    """A collection that is not there."""
    return f"c{uuid4().hex}"


class _Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    """A collection of the site as the place of the tests."""

    @pytest.fixture
    def fs(self, fs: LadingFileSystem) -> LadingFileSystem:
        return fs

    @pytest.fixture
    def fs_path(self, fs: LadingFileSystem) -> Iterator[str]:
        path = f"c{uuid4().hex}"
        fs.mkdir(path)
        yield path
        fs.rm(path, recursive=True)

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *names: "/".join(name.rstrip("/") for name in names[:-1]) + f"/{names[-1]}"


class TestCopy(abstract.AbstractCopyTests, _Fixtures):  # type: ignore[misc]
    """cp."""


class TestGet(abstract.AbstractGetTests, _Fixtures):  # type: ignore[misc]
    """get."""


class TestPut(abstract.AbstractPutTests, _Fixtures):  # type: ignore[misc]
    """put."""


class TestOpen(abstract.AbstractOpenTests, _Fixtures):  # type: ignore[misc]
    """open."""


class TestPipe(abstract.AbstractPipeTests, _Fixtures):  # type: ignore[misc]
    """pipe."""


def test_it_is_registered_by_its_entry_point() -> None:
    assert fsspec.get_filesystem_class("lading") is LadingFileSystem


def test_a_large_file_is_streamed_and_read_in_ranges(fs: LadingFileSystem, fs_path: str) -> None:
    line = b"0123456789abcdef" * 64
    with fs.open(f"{fs_path}/d/large", "wb") as file:
        for _ in range(20_000):
            file.write(line)
        assert not fs.exists(f"{fs_path}/d/large")
    assert fs.size(f"{fs_path}/d/large") == 20_000 * len(line)
    with fs.open(f"lading://{fs_path}/d/large", "rb") as file:
        file.seek(19_999 * len(line) + 3)
        assert file.read(5) == line[3:8]
    ranges = fs.cat_ranges([f"{fs_path}/d/large"] * 2, [0, 1025], [4, 1027])
    assert ranges == [b"0123", b"12"]


def test_modes(fs: LadingFileSystem, fs_path: str) -> None:
    fs.pipe(f"{fs_path}/a", b"1")
    with fs.open(f"{fs_path}/a", "ab") as file:
        file.write(b"2")
    with fs.open(f"{fs_path}/a", "a") as file:
        file.write("3")
    assert fs.cat(f"{fs_path}/a") == b"123"
    for mode in ("xb", "x"):
        with pytest.raises(FileExistsError):
            fs.open(f"{fs_path}/a", mode)
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{fs_path}/a", b"4", mode="create")
    with fs.open(f"{fs_path}/empty", "wb"):
        pass
    assert fs.cat(f"{fs_path}/empty") == b""
    with pytest.raises(FileNotFoundError):
        fs.open(f"{fs_path}/none", "rb")
    with pytest.raises(IsADirectoryError):
        fs.open(fs_path, "wb")


def test_a_transaction_shows_all_of_its_files_or_none(fs: LadingFileSystem, fs_path: str) -> None:
    fs.mkdir(fs_path)
    with fs.transaction:
        with fs.open(f"{fs_path}/a", "wb") as file:
            file.write(b"1")
        assert fs.ls(fs_path) == []
    assert fs.cat(f"{fs_path}/a") == b"1"

    def fail() -> None:
        with fs.transaction, fs.open(f"{fs_path}/b", "wb") as file:
            file.write(b"2")
            raise OSError("stop")

    with pytest.raises(OSError, match="stop"):
        fail()
    assert fs.ls(fs_path, detail=False) == [f"{fs_path}/a"]


def test_moves_and_removals_are_by_reference(fs: LadingFileSystem, fs_path: str) -> None:
    fs.pipe({f"{fs_path}/d/{name}": b"1" for name in "abc"})
    fs.mv(f"{fs_path}/d", f"{fs_path}/e")
    fs.mkdir(f"{fs_path}/f")
    fs.mv(f"{fs_path}/e/a", f"{fs_path}/f/")
    fs.mv([f"{fs_path}/e/b"], f"{fs_path}/f/")
    assert fs.find(fs_path) == [f"{fs_path}/{name}" for name in ("e/c", "f/a", "f/b")]
    fs.rm(f"{fs_path}/f/*")
    assert fs.find(fs_path) == [f"{fs_path}/e/c"]
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{fs_path}/e")
    fs.rm(f"{fs_path}/e", recursive=True)
    fs.rmdir(f"{fs_path}/f")
    fs.rmdir(fs_path)
    assert not fs.exists(fs_path)


def test_facts(fs: LadingFileSystem, fs_path: str, tmp_path: Path) -> None:
    fs.pipe({f"{fs_path}/a": b"1", f"{fs_path}/b": b"1"})
    assert fs.ukey(f"{fs_path}/a") == fs.ukey(f"{fs_path}/b")
    assert fs.modified(f"{fs_path}/a") == fs.created(f"{fs_path}/a")
    info = fs.info(fs_path)
    assert (info["type"], info["name"]) == ("directory", fs_path)
    assert fs.info("")["type"] == "directory"
    assert fs_path in fs.ls("", detail=False)
    seen: list[tuple[Any, Any]] = []
    callback = fsspec.Callback(hooks={"seen": lambda size, value, **_: seen.append((size, value))})
    fs.get_file(f"{fs_path}/a", str(tmp_path / "a"), callback=callback)
    fs.put_file(str(tmp_path / "a"), f"{fs_path}/c", callback=callback)
    assert (1, 1) in seen
    fs.invalidate_cache()
    assert fs.cat(f"{fs_path}/c") == b"1"


def test_what_is_pickled_has_no_token(stage: Site) -> None:
    system = fsspec.filesystem("lading", site="elsewhere", skip_instance_cache=True)
    assert system.to_json() == fsspec.filesystem("lading", site="elsewhere").to_json()
    assert stage.world.admin not in system.to_json()
