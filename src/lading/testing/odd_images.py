"""Images in forms that people report of real builders, each with a command and its right output."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import msgspec

from lading.testing.images import first_layer, make_archive, tiny_image


class OddImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and the output that the shell script `script` has in it."""

    name: str
    archive: bytes
    script: str
    output: str


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    """A layer member; a file has so many letters x."""
    made = tarfile.TarInfo(name)
    made.type, made.mode = kind, 0o755
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def layer(*entries: tarfile.TarInfo) -> bytes:
    """A layer archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return buffer.getvalue()


def odd_images() -> Mapping[str, OddImage]:
    """The images by a word for each form."""
    base = first_layer(tiny_image()[1])
    folder, link, hard = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    old = layer(entry("d", folder), entry("d/old", size=1), entry("f", size=2))
    new = [entry("d", folder), entry("d/new", size=1)]
    named = {"SCHILY.xattr.com.apple.provenance": "x", "SCHILY.xattr.user.large": "y" * 5000}
    many = [layer(entry("n", size=number), entry(f"f{number}")) for number in range(1, 509)]

    def image(script: str, output: str, *layers: bytes, **settings: object) -> OddImage:
        name, archive = make_archive([base, *layers], settings)
        return OddImage(name=name, archive=archive, script=script, output=output)

    return {
        "layer twice": image("cat /f", "xx", old, old, layer(), layer()),
        "layer twice apart": image("cat /f", "xx", old, layer(entry("f", size=3)), old),
        "device": image(
            "cat /f", "xx", old, layer(entry("dev/mem", tarfile.CHRTYPE, devmajor=1, devminor=1))
        ),
        "attributes": image(
            "cat /l",
            "xxx",
            layer(
                entry("g", size=3, pax_headers=named),
                entry("l", link, linkname="g", pax_headers={"SCHILY.xattr.user.x": "y"}),
            ),
        ),
        "hard link": image("cat /h", "xx", old, layer(entry("h", hard, linkname="f"))),
        "whiteout before": image("ls /d", "new\n", old, layer(entry(".wh.d"), *new)),
        "whiteout after": image("ls /d", "new\n", old, layer(*new, entry(".wh.d"))),
        "whiteout of nothing": image(
            "ls /e", "f\n", layer(entry("e", folder), entry("e/f"), entry("e/.wh.none"))
        ),
        "label": image("cat /f", "xx", layer(entry("backup", b"V"), entry("f", size=2))),
        "510 layers": image("cat /n; ls /f1 /f508", "x" * 508 + "/f1\n/f508\n", *many, layer()),
        "volume": image(
            "echo hi > /data/a/f; cat /data/a/f", "hi\n", Volumes={"/data": {}, "/data/a": {}}
        ),
        "texts": image("echo hi", "hi\n", Entrypoint="/bin/env", Cmd=None),
        "nameless variable": image("echo $A", "b\n", Env=["=x", "A=b", "PATH=/bin"]),
        "large ids": image(
            "cat /own", "xx", layer(entry("own", size=2, uid=2_000_000, gid=3_000_000, mode=0o600))
        ),
    }
