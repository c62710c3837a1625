"""Files of a site as one tree, on the API's own application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pytest

import lading
from lading.client.remote_files.faults import (
    FileIsThere,
    IsDirectory,
    IsNoDirectory,
    NoSuchFile,
    NotPermitted,
)
from lading.client.remote_files.tree import RemoteFiles
from lading.core.errors import Invalid
from tests.cli.site import Site


@pytest.fixture
def files(site: lading.Site) -> RemoteFiles:
    return site.files


@pytest.fixture
def name() -> str:
    """A name in the home that nothing has."""
    return f"c{uuid4().hex}"


def names(site: lading.Site, address: str) -> list[str]:
    return [entry.name for entry in site.call(site.files.entries(address))]


def test_a_file_is_written_listed_read_and_removed(
    site: lading.Site, files: RemoteFiles, name: str
) -> None:
    site.call(files.write(f"{name}/d/a.txt", b"0123456789"))
    assert site.call(files.read(f"lading://{name}/d/a.txt")) == b"0123456789"
    assert site.call(files.read(f"{name}/d/a.txt", 2, 5)) == b"234"
    assert site.call(files.read(f"{name}/d/a.txt", -3)) == b"789"
    entry = site.call(files.entry(f"{name}/d/a.txt"))
    assert (entry.kind, entry.size, entry.name) == ("file", 10, "a.txt")
    assert entry.modified > 0
    assert names(site, name) == ["d"]
    assert name in names(site, "")
    assert [entry.path for entry in site.call(files.walk(name))] == [f"{name}/d", f"{name}/d/a.txt"]
    site.call(files.remove(f"{name}/d", recursive=True))
    with pytest.raises(NoSuchFile):
        site.call(files.entry(f"{name}/d/a.txt"))


def test_addresses_by_uuid_and_by_hash(site: lading.Site, files: RemoteFiles, name: str) -> None:
    site.call(files.write(f"{name}/a", b"1"))
    uuid = site.call(files.entry(name)).uuid
    record = site.call(site.api.get("collections", uuid))
    assert site.call(files.read(f"{uuid}/a")) == b"1"
    assert site.call(files.read(f"{record['portable_data_hash']}/a")) == b"1"
    site.call(files.write(f"{uuid}/b", b"2"))
    assert names(site, uuid) == ["a", "b"]
    for change in (
        files.write(f"{record['portable_data_hash']}/b", b"2"),
        files.remove(f"{record['portable_data_hash']}/a"),
        files.make_directory(f"{record['portable_data_hash']}/d"),
    ):
        with pytest.raises(NotPermitted, match="cannot change"):
            site.call(change)


def test_projects_are_directories(site: lading.Site, files: RemoteFiles, name: str) -> None:
    project = site.call(site.api.create("groups", {"name": name, "group_class": "project"}))
    inner = {"name": "inner", "group_class": "project", "owner_uuid": project["uuid"]}
    site.call(site.api.create("groups", inner))
    site.call(files.write(f"{name}/inner/data/x/y", b"1"))
    assert names(site, name) == ["inner"]
    assert names(site, f"{name}/inner") == ["data"]
    assert site.call(files.read(f"{project['uuid']}/inner/data/x/y")) == b"1"
    assert site.call(files.entry(f"{name}/inner")).kind == "directory"
    for address in (f"{name}/inner", "", f"{name}/inner/data"):
        with pytest.raises(IsDirectory):
            site.call(files.write(address, b"1"))
    with pytest.raises(NotPermitted, match="lading project"):
        site.call(files.remove(name, recursive=True))
    with pytest.raises(IsDirectory, match="is a project"):
        site.call(files.read(name))


def test_what_is_in_the_way_is_refused(site: lading.Site, files: RemoteFiles, name: str) -> None:
    site.call(files.write(f"{name}/a", b"1"))
    site.call(files.make_directory(f"{name}/d"))
    site.call(files.make_directory(f"{name}/d", exist_ok=True))
    with pytest.raises(FileIsThere):
        site.call(files.make_directory(f"{name}/d"))
    with pytest.raises(FileIsThere):
        site.call(files.make_directory(f"{name}/a", exist_ok=True))
    with pytest.raises(IsNoDirectory):
        site.call(files.write(f"{name}/a/b", b"1"))
    with pytest.raises(IsDirectory):
        site.call(files.write(f"{name}/d", b"1"))
    with pytest.raises(FileIsThere):
        site.call(files.write(f"{name}/a", b"1", exclusive=True))
    with pytest.raises(NoSuchFile):
        site.call(files.make_directory(f"{name}/x/y", parents=False))
    with pytest.raises(IsDirectory):
        site.call(files.remove_file(f"{name}/d"))
    with pytest.raises(Invalid):
        site.call(files.entry(f"{name}/../a"))
    with pytest.raises(NoSuchFile):
        site.call(files.read(f"{name}/none"))
    site.call(files.remove(f"{name}/d"))
    assert names(site, name) == ["a"]


def test_copies_and_moves(site: lading.Site, files: RemoteFiles, name: str) -> None:
    site.call(files.write(f"{name}/d/a", b"1"))
    site.call(files.copy(f"{name}/d/a", f"{name}/b"))
    site.call(files.copy(f"{name}/d", f"{name}2/e"))
    site.call(files.move(f"{name}/b", f"{name}/c"))
    site.call(files.move(f"{name}2/e/a", f"{name}/z"))
    assert names(site, name) == ["c", "d", "z"]
    assert names(site, f"{name}2/e") == []
    site.call(files.copy(name, f"{name}3"))
    assert names(site, f"{name}3") == ["c", "d", "z"]
    with pytest.raises(Invalid, match="into itself"):
        site.call(files.move(f"{name}/d", f"{name}/d/x"))
    with pytest.raises(FileIsThere):
        site.call(files.move(f"{name}/c", f"{name}/z", exclusive=True))
    with pytest.raises(FileIsThere, match="not empty"):
        site.call(files.copy(f"{name}3", f"{name}/d"))
    site.call(files.move(name, f"{name}4"))
    assert names(site, f"{name}4") == ["c", "d", "z"]
    with pytest.raises(NoSuchFile):
        site.call(files.entry(name))


def test_many_files_at_once_in_a_new_collection(
    site: lading.Site, files: RemoteFiles, name: str
) -> None:
    async def write() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(files.write(f"{name}/{number:02}", b"%d" % number))

    site.call(write())
    assert len(names(site, name)) == 40
    assert site.call(files.read(f"{name}/17")) == b"17"


def test_appended_and_dropped(site: lading.Site, files: RemoteFiles, name: str) -> None:
    async def append() -> None:
        writer = await files.writer(f"{name}/a", appends=True)
        await writer.write(b"23")
        assert writer.size == 3
        await writer.commit()
        dropped = await files.writer(f"{name}/a")
        await dropped.write(b"x")
        await dropped.abort()

    site.call(files.write(f"{name}/a", b"1"))
    site.call(append())
    assert site.call(files.read(f"{name}/a")) == b"123"


def test_others_see_and_change_the_same_files(
    site: lading.Site, connecting: Callable[[], lading.Site], files: RemoteFiles, name: str
) -> None:
    site.call(files.write(f"{name}/a", b"1"))
    with connecting() as second:
        assert second.call(second.files.read(f"{name}/a")) == b"1"
        second.call(second.files.write(f"{name}/b", b"2"))
        files.expire()
        assert names(site, name) == ["a", "b"]
        second.call(second.files.remove(name, recursive=True))
    files.expire()
    with pytest.raises(NoSuchFile):
        site.call(files.entry(name))


def test_an_output_of_a_request(stage: Site, site: lading.Site, image: str) -> None:
    from tests.cli.site import Play

    with stage.acting(Play(files={"x": b"42"})):
        run = site.run(["make x"], image=image).result(30)
    assert site.call(site.files.read(f"{run.uuid}/x")) == b"42"
