"""Directories are given up within some seconds: removed, or moved aside and removed later."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from lading.process import removal, tree_removal


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "run" / "uuid"
    (place / "a").mkdir(parents=True)
    (place / "lock").touch()
    return place


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what cannot be removed."""
    real, names = tree_removal.remove, list[str]()

    def remove(place: Path, **how: object) -> None:
        if any(place.name.startswith(one) for one in names):
            raise OSError(errno.EBUSY, "Device or resource busy", place.name)
        real(place, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(tree_removal, "remove", remove)
    return names


def test_what_can_be_removed_is(directory: Path, tmp_path: Path) -> None:
    for _ in range(2):
        removal.discard(directory, aside=removal.beside(directory), last="lock")
        assert [one.name for one in tmp_path.iterdir()] == ["run"]
        assert list((tmp_path / "run").iterdir()) == []


def test_what_cannot_is_moved_aside_and_told(
    directory: Path, tmp_path: Path, busy: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    busy.append("uuid")
    removal.discard(directory, aside=removal.beside(directory))
    assert not directory.exists()
    (name,) = removal.waiting(tmp_path / "removed")
    assert name.startswith("uuid~")
    assert "to be removed later: [Errno 16] Device or resource busy" in caplog.text


def test_what_takes_too_long_is_moved_aside(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    removal.discard(directory, aside=tmp_path / "x" / "removed", patience=-1)
    assert not directory.exists()
    assert len(removal.waiting(tmp_path / "x" / "removed")) == 1
    assert "takes longer than -1 s" in caplog.text


def test_what_is_gone_meanwhile_is_no_error(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(place: Path, **_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(tree_removal, "remove", remove)
    removal.discard(tmp_path / "none", aside=tmp_path / "removed")
    assert removal.waiting(tmp_path / "removed") == []


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EXDEV, "another file system"), (errno.EROFS, "Read-only")]
)
def test_what_cannot_be_moved_either_is_an_error(
    directory: Path, busy: list[str], monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def rename(*_: object) -> None:
        raise OSError(number, "Read-only file system")

    busy.append("uuid")
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match=words):
        removal.discard(directory, aside=removal.beside(directory))
    assert directory.exists()


def test_it_is_tried_again(
    directory: Path, tmp_path: Path, busy: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    aside = tmp_path / "removed"
    busy.append("uuid")
    removal.discard(directory, aside=aside)
    (aside / "other" / "x").mkdir(parents=True)
    caplog.set_level(logging.INFO)
    assert removal.retry(aside, stop=lambda: True) == 2
    assert removal.retry(aside) == 1
    assert "still cannot be removed" in caplog.text
    busy.clear()
    assert removal.retry(aside) == 0
    assert not aside.exists()
    assert removal.retry(aside) == 0


def test_places_of_a_data_directory() -> None:
    assert removal.places(Path("/data")) == (Path("/data/removed"), Path("/data/cache/removed"))
    assert removal.beside(Path("/data/run/uuid")) == Path("/data/removed")
