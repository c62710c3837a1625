"""An image that no engine starts is refused before it is stored."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from lading.client.images.archive import ImageParts, Layer
from lading.client.images.runnable import check_runnable
from lading.client.images.steps import UNWATCHED
from lading.core.errors import Invalid, Malformed
from lading.testing.images import make_layer
from tests.client.images.images_on_disk import config_of, digest

PASSWD = b"root:x:0:0::/:\nann:x:5:6::/:\n"
GROUP = b"root:x:0:\nstaff:x:50:\n"
BASE = make_layer({"etc": None, "etc/passwd": PASSWD, "etc/group": GROUP})
LINKED = make_layer({"etc": None, "etc/passwd": "/nix/store/passwd"})


def parts(tmp_path: Path, user: str, *layers: bytes, padding: int = 0) -> ImageParts:
    """The parts of an image, whose layers are one after the other in one file."""
    path = tmp_path / "layers"
    path.write_bytes(bytes(padding) + b"".join(layers))
    found, offset = [], padding
    for layer in layers:
        found.append(Layer(path=path, offset=offset, size=len(layer), diff_id=digest(layer)))
        offset += len(layer)
    return ImageParts(config=config_of(*layers, config={"User": user}), layers=tuple(found))


@pytest.mark.parametrize(
    ("user", "layers"),
    [
        *((user, (BASE,)) for user in ("", "root", "ann", "ann:staff", "7", "7:8", "0:staff")),
        ("ann", (BASE, make_layer({"a": b"x"}))),
        ("ann", (make_layer({}), BASE, make_layer({"etc/.wh.other": b""}))),
        ("bob", (BASE, make_layer({"etc/passwd": b"bob:x:7:7::/:\n"}))),
        ("bob", (make_layer({"etc/.wh.passwd": b"", "etc/passwd": b"bob:x:7:7::/:\n"}),)),
        # Only an engine can follow a link.
        ("ghost", (LINKED,)),
        ("ghost", (BASE, make_layer({"etc": "/elsewhere"}))),
    ],
)
def test_an_image_that_runs_is_taken(tmp_path: Path, user: str, layers: tuple[bytes, ...]) -> None:
    check_runnable(parts(tmp_path, user, *layers, padding=512), steps=UNWATCHED)


@pytest.mark.parametrize(
    ("user", "layers", "fault"),
    [
        ("ghost", (BASE,), "user 'ghost' is not in its /etc/passwd"),
        ("ghost", (make_layer({"a": b"x"}),), "user 'ghost' is not in its /etc/passwd"),
        ("ann:ghosts", (BASE,), "group 'ghosts' is not in its /etc/group"),
        ("0:ghosts", (BASE,), "group 'ghosts'"),
        ("4294967296", (BASE,), "user '4294967296'"),
        ("ann", (BASE, make_layer({"etc/.wh.passwd": b""})), "user 'ann'"),
        ("ann", (BASE, make_layer({".wh.etc": b""})), "user 'ann'"),
        ("ann", (BASE, make_layer({"etc/.wh..wh..opq": b""})), "user 'ann'"),
        ("ann", (BASE, make_layer({"etc/passwd": b"bob:x:7:7::/:\n"})), "user 'ann'"),
        ("a\0b", (BASE,), "NUL in User"),
        ("ann", (make_layer({"../x": b""}),), "leads out of the layer"),
    ],
)
def test_a_user_that_is_not_there_is_refused(
    tmp_path: Path, user: str, layers: tuple[bytes, ...], fault: str
) -> None:
    with pytest.raises(Invalid, match=fault) as caught:
        check_runnable(parts(tmp_path, user, *layers), steps=UNWATCHED)
    assert caught.value.message.startswith("image: it cannot be run: ")


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    good = parts(tmp_path, "", BASE)
    settings = json.loads(good.config)
    for change in ({"Entrypoint": 1}, {"Env": [1]}, {"Cmd": ["a\0b"]}):
        bad = ImageParts(
            config=json.dumps(settings | {"config": change}).encode(), layers=good.layers
        )
        with pytest.raises(Invalid, match="it cannot be run"):
            check_runnable(bad, steps=UNWATCHED)


def test_a_layer_of_a_stranger_is_read_in_bounds(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.GNUTYPE_LONGNAME
    chained = io.BytesIO(header.tobuf(tarfile.GNU_FORMAT) * 2000).getvalue()
    with pytest.raises(Malformed, match="headers stand before a member"):
        check_runnable(parts(tmp_path, "ann", chained), steps=UNWATCHED)
