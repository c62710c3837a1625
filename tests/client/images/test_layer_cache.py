"""Layers on disk: whole or a part, never damaged, never without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.client.images.layer_cache import LayerCache
from lading.core.errors import Conflict, Malformed
from tests.client.images.images_on_disk import digest

_DATA = b"a layer"
_DIGEST = digest(_DATA)


def _put(shelf: LayerCache, data: bytes, name: str = "") -> Path:
    with shelf.part(name or digest(data)) as file:
        file.write(data)
    shelf.keep(name or digest(data))
    return shelf.directory / shelf.member(name or digest(data))


def test_a_part_goes_on_and_becomes_whole(tmp_path: Path) -> None:
    shelf = LayerCache(tmp_path / "new" / "layers")
    assert not shelf.has(_DIGEST)
    with shelf.part(_DIGEST) as file:
        file.write(_DATA[:3])
    assert not shelf.has(_DIGEST)
    with shelf.part(_DIGEST) as file:
        assert file.seek(0, 2) == 3
        file.write(_DATA[3:])
    shelf.keep(_DIGEST)
    assert shelf.has(_DIGEST)
    assert (shelf.directory / shelf.member(_DIGEST)).read_bytes() == _DATA


def test_what_differs_from_its_digest_is_removed(tmp_path: Path) -> None:
    shelf = LayerCache(tmp_path)
    with pytest.raises(Malformed, match="what the registry sent is sha256:"):
        _put(shelf, b"other", _DIGEST)
    path = _put(shelf, _DATA)
    path.write_bytes(b"flipped")
    assert not shelf.has(_DIGEST)
    assert list((tmp_path / "sha256").iterdir()) == []


def test_one_at_a_time(tmp_path: Path) -> None:
    shelf = LayerCache(tmp_path)
    with (
        shelf.part(_DIGEST),
        pytest.raises(Conflict, match="another command fetches this layer"),
        shelf.part(_DIGEST),
    ):
        pass


def test_the_old_and_the_many_are_forgotten(tmp_path: Path) -> None:
    shelf = LayerCache(tmp_path, room=20)
    paths = [_put(shelf, bytes([number]) * 8) for number in range(4)]
    for number, path in enumerate(paths):
        age = 40 * 86400 if number == 0 else 100 - number
        stamp = path.stat().st_mtime - age
        os.utime(path, (stamp, stamp))
    shelf.tidy()
    assert [path.exists() for path in paths] == [False, False, True, True]
