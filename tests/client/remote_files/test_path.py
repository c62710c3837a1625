"""`lading.Path`, as users of pathlib know paths."""

from __future__ import annotations

import pickle
from pathlib import PurePosixPath
from uuid import uuid4

import pytest

import lading
from lading.core.errors import Invalid


@pytest.fixture
def folder(site: lading.Site) -> lading.Path:
    """A collection that is not there."""
    return lading.Path(f"c{uuid4().hex}", site=site)


def test_names() -> None:
    path = lading.Path("lading://project/data", "x/table.tar.gz")
    assert str(path) == path.as_uri() == "lading://project/data/x/table.tar.gz"
    assert repr(path) == "Path('lading://project/data/x/table.tar.gz')"
    assert path.as_posix() == "project/data/x/table.tar.gz"
    assert (path.name, path.stem, path.suffix) == ("table.tar.gz", "table.tar", ".gz")
    assert path.suffixes == [".tar", ".gz"]
    assert path.parts == ("project", "data", "x", "table.tar.gz")
    assert path.parent == lading.Path("project/data/x")
    assert [str(above) for above in path.parents][-2:] == ["lading://project", "lading://"]
    assert path.with_name("a").name == "a"
    assert path.with_stem("a").name == "a.gz"
    assert path.with_suffix(".zip").name == "table.tar.zip"
    assert path.relative_to("project/data") == PurePosixPath("x/table.tar.gz")
    assert path.is_relative_to("project")
    assert not path.is_relative_to("other")
    assert path.match("*.gz")
    assert lading.Path().as_posix() == ""
    assert lading.Path("a") / "b" / lading.Path("c") == lading.Path("a/b/c")
    assert lading.Path("a").joinpath("b", "c") == lading.Path("a/b/c")


def test_paths_are_values() -> None:
    first, second = lading.Path("a/b"), lading.Path("lading://a/b/")
    assert first == second
    assert len({first, second}) == 1
    assert sorted([lading.Path("b"), lading.Path("a")]) == [lading.Path("a"), lading.Path("b")]
    assert first != "a/b"
    assert pickle.loads(pickle.dumps(first)) == first
    for wrong in ("../a", "a/../../b"):
        with pytest.raises(Invalid, match="without .."):
            lading.Path(wrong)


def test_reading_and_writing(folder: lading.Path) -> None:
    file = folder / "d" / "a.txt"
    assert not file.exists()
    assert file.write_text("grün\n") == 5
    assert file.read_text() == "grün\n"
    assert file.read_bytes() == "grün\n".encode()
    assert file.stat().size == 6
    assert file.is_file()
    assert not file.is_dir()
    assert folder.is_dir()
    with file.open("a") as stream:
        stream.write("blau\n")
    with file.open() as stream:
        assert list(stream) == ["grün\n", "blau\n"]
    with file.open("rb") as stream:
        assert stream.seek(-5, 2) == 6
        assert stream.read() == b"blau\n"
    with file.open("wb") as stream:
        stream.write(b"1")
        assert file.read_bytes() != b"1"
    assert file.read_bytes() == b"1"
    with pytest.raises(FileExistsError):
        file.open("x")
    with pytest.raises(FileNotFoundError):
        (folder / "none").read_bytes()
    with pytest.raises(IsADirectoryError):
        (folder / "d").read_bytes()
    with pytest.raises(Invalid, match="no mode of a file"):
        file.open("r+")


def test_changing(folder: lading.Path) -> None:
    (folder / "d").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        (folder / "d").mkdir()
    (folder / "d").mkdir(exist_ok=True)
    with pytest.raises(FileNotFoundError):
        (folder / "x" / "y").mkdir()
    (folder / "a").touch()
    (folder / "a").touch()
    with pytest.raises(FileExistsError):
        (folder / "a").touch(exist_ok=False)
    assert (folder / "a").rename(folder / "b") == folder / "b"
    (folder / "b").copy(folder / "c")
    with pytest.raises(FileExistsError):
        (folder / "b").rename(folder / "c")
    (folder / "b").replace(folder / "c")
    assert [path.name for path in folder.iterdir()] == ["c", "d"]
    with pytest.raises(NotADirectoryError):
        list((folder / "c").iterdir())
    with pytest.raises(IsADirectoryError):
        (folder / "d").unlink()
    with pytest.raises(FileNotFoundError):
        (folder / "none").unlink()
    (folder / "none").unlink(missing_ok=True)
    (folder / "c").unlink()
    (folder / "d").rmdir()
    folder.rmdir()
    assert not folder.exists()


def test_finding(folder: lading.Path) -> None:
    for name in ("a.csv", "b.txt", "d/c.csv", "d/e/f.csv"):
        (folder / name).write_bytes(b"")

    def names(pattern: str) -> list[str]:
        return [str(path.relative_to(folder)) for path in folder.glob(pattern)]

    assert names("*.csv") == ["a.csv"]
    assert names("*/*.csv") == ["d/c.csv"]
    assert sorted(names("**/*.csv")) == ["a.csv", "d/c.csv", "d/e/f.csv"]
    assert names("d/e") == ["d/e"]
    assert [path.name for path in folder.rglob("f.*")] == ["f.csv"]
    for pattern in ("", "/a", "../*"):
        with pytest.raises(Invalid, match="no pattern"):
            names(pattern)
    walked = [(path.name, folders, files) for path, folders, files in folder.walk()]
    assert walked[1:] == [("d", ["e"], ["c.csv"]), ("e", [], ["f.csv"])]


def test_without_a_site_it_connects_once(
    site: lading.Site, folder: lading.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[lading.Site] = []

    def connect() -> lading.Site:
        connections.append(site)
        return site

    monkeypatch.setattr("lading.client.site.connect", connect)
    (folder / "a").write_bytes(b"1")
    assert lading.Path(folder.as_posix(), "a").read_bytes() == b"1"
    assert lading.Path(folder.as_posix()).exists()
    assert connections == [site]
    monkeypatch.undo()
    from lading.client.remote_files import path

    path.connected.cache_clear()
