from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from lading.client.images.layer_scan import LayerScan, ScanResult
from lading.client.images.tar_reader import TarReader, members
from lading.core.errors import ExecutionError, Failure
from lading.testing.odd_images import entry, layer

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
OLD = layer(entry("d", tarfile.DIRTYPE), entry("d/old", size=1), entry("f", size=1))


@contextmanager
def _opened(data: bytes) -> Iterator[Iterator[tarfile.TarInfo]]:
    with TarReader.open(fileobj=io.BytesIO(data)) as tar:
        yield members(tar)


def scan(*layers: bytes) -> ScanResult:
    return LayerScan().run([partial(_opened, data) for data in layers])


@pytest.mark.parametrize(
    "layers",
    [
        (OLD,),
        (OLD, layer(entry("d/.wh.old"), entry("e/.wh..wh..opq"), entry("g", size=1))),
        (OLD, layer(entry(".wh.d"))),
        (OLD, layer(entry("h", size=1), entry("i", HARD, linkname="h"))),
        # Of the directory is only an entry in the archive.
        (layer(entry("x/y/z", size=1)), layer(entry("x/.wh.y"))),
        (OLD, layer(entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3))),
        (OLD, layer(entry("g", pax_headers={"SCHILY.xattr.user.a": "b", "mtime": "1"}))),
    ],
)
def test_layers_that_each_engine_takes(layers: tuple[bytes, ...]) -> None:
    assert scan(*layers) == ScanResult()


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((OLD, layer(entry(".wh.d"), entry("d/new"))), "removes 'd' and has it too"),
        ((OLD, layer(entry("f"), entry(".wh.f"))), "removes 'f' and has it too"),
        ((OLD, layer(entry("d/.wh.none"))), "removes 'd/none', which no lower one has"),
        ((layer(entry(".wh.f")), OLD), "removes 'f', which no lower one has"),
        ((OLD, layer(entry("h", HARD, linkname="f"))), "'h' is a link to 'f' of a lower layer"),
        (
            (layer(entry("l", LINK, linkname="d"), entry("h", HARD, linkname="l/x")),),
            "'h' is a link to 'l/x'",
        ),
        ((layer(entry("b", b"V")),), "has a label"),
        (
            (layer(entry("l", LINK, linkname="x", pax_headers={"SCHILY.xattr.user.a": "b"})),),
            "an attribute that only files have",
        ),
        (
            (layer(entry("f", pax_headers={"SCHILY.xattr.user.a": "b" * 3000})),),
            "attributes of 3000 bytes",
        ),
        ((layer(),) * 101, "it has 101 layers"),
    ],
)
def test_layers_that_daemons_misread(layers: tuple[bytes, ...], said: str) -> None:
    assert said in scan(*layers).unfit


def test_what_no_container_gets_is_told() -> None:
    found = scan(
        layer(
            entry("sda", tarfile.BLKTYPE, devmajor=8, devminor=0),
            entry("f", pax_headers={"SCHILY.xattr.com.apple.x": "y"}),
        )
    )
    assert [line.split(" is left out")[0] for line in found.left_out.lines()] == [
        "'sda'",
        "the attribute 'com.apple.x' of 'f'",
    ]
    assert not found.unfit


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((layer(entry("h", HARD, linkname="none")),), "'h' is a link to 'none', which no layer"),
        ((layer(entry("h", HARD, linkname=".")),), "a link to a directory"),
        ((layer(entry("h", HARD, linkname="f")), OLD), "which no layer up to this one has"),
        ((layer(entry(".", size=1)),), "root is not a directory"),
        ((layer(entry("f", b"Z")),), "unknown type"),
        ((layer(entry("f", LINK)),), "a link to nothing"),
        ((layer(entry("../f")),), "leads out of the layer"),
        (
            (layer(entry("f", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"})),),
            "which only overlayfs may set",
        ),
    ],
)
def test_layers_that_no_engine_takes(layers: tuple[bytes, ...], said: str) -> None:
    with pytest.raises(ExecutionError, match=said) as caught:
        scan(*layers)
    assert caught.value.failure is Failure.IMAGE


def test_names_are_looked_up_within_bounds() -> None:
    found = LayerScan(most_names=2).run([partial(_opened, layer(*map(entry, (".wh.a",) * 3)))])
    assert "too many" in found.unfit
