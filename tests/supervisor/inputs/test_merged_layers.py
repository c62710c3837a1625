from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from lading.supervisor.inputs.merged_layers import MergedLayers
from lading.supervisor.inputs.unpack import unpack_layer
from lading.testing.odd_images import entry, layer

pytestmark = pytest.mark.usefixtures("as_root")
FOLDER, LINK = tarfile.DIRTYPE, tarfile.SYMTYPE


@pytest.fixture
def merged(tmp_path: Path) -> MergedLayers:
    """Three layers, the lowest first."""
    layers = (
        layer(
            entry("a/low", size=1),
            entry("b/low", size=1),
            entry("c", size=1),
            entry("l", LINK, linkname="/a"),
            entry("up", LINK, linkname="../../a"),
        ),
        layer(entry("a/.wh.low"), entry("a/middle", size=2), entry("b/.wh..wh..opq")),
        layer(
            entry("b/high", size=3), entry("c/d", size=1), entry("round", LINK, linkname="round")
        ),
    )
    paths = []
    for number, data in enumerate(layers):
        paths.append(tmp_path / str(number))
        unpack_layer(io.BytesIO(data), paths[-1], limit=1 << 20)
    return MergedLayers(paths)


def test_all_that_one_layer_on_the_other_shows(merged: MergedLayers) -> None:
    with merged:
        found = [(one.path, one.status.st_size) for one in merged.walk(max_depth=9)]
    files = {path: size for path, size in found if path not in ("a", "b", "c", "l", "up", "round")}
    assert files == {"a/middle": 2, "b/high": 3, "c/d": 1}
    assert len(found) == 9
    order = [path for path, _ in found]
    assert order.index("a") < order.index("a/middle")


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("a/middle", 2),
        ("a/low", None),
        ("a/none/x", None),
        ("b/low", None),
        ("b/high", 3),
        ("c", 0),
        ("c/d", 1),
        ("l/middle", 2),
        ("up/middle", 2),
        ("a/middle/x", None),
        ("round/x", None),
    ],
)
def test_where_a_path_leads(merged: MergedLayers, path: str, size: int | None) -> None:
    with merged:
        found = merged.find(path)
        is_folder = found is not None and found.path == "c"
        assert (0 if is_folder else found and found.status.st_size) == size


def test_only_so_deep(merged: MergedLayers) -> None:
    with merged, pytest.raises(OSError, match="more than -1 deep"):
        list(merged.walk(max_depth=-1))


@pytest.mark.parametrize(
    ("path", "is_occupied"),
    [("a", True), ("b", True), ("c/d", True), ("l", True), ("none/x", False), ("a/low", False)],
)
def test_places_that_an_image_occupies(merged: MergedLayers, path: str, is_occupied: bool) -> None:
    with merged:
        assert merged.is_occupied(path) is is_occupied


def test_a_directory_whose_entries_were_all_removed_is_free(tmp_path: Path) -> None:
    layers = (layer(entry("d/x", size=1)), layer(entry("d/.wh.x")))
    paths = []
    for number, data in enumerate(layers):
        paths.append(tmp_path / str(number))
        unpack_layer(io.BytesIO(data), paths[-1], limit=1 << 20)
    with MergedLayers(paths) as merged:
        assert not merged.is_occupied("d")
