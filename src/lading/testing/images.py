"""A tiny image for tests: some programs of this machine with their libraries, as docker save would
write it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

PROGRAMS = tuple(
    f"/bin/{name}" for name in ("dash", "cat", "mkdir", "ln", "ls", "sleep", "dd", "true", "env")
)
_LIBRARY = re.compile(r"/[^ ]+")


def make_layer(
    entries: Mapping[str, bytes | str | None], *, modes: Mapping[str, int] | None = None
) -> bytes:
    """A layer archive: bytes are files (0755), text is the target of a symbolic link, None is a
    directory.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.mode = (modes or {}).get(name, 0o755)
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def make_archive(
    layers: Iterable[bytes], settings: Mapping[str, object] | None = None
) -> tuple[str, bytes]:
    """The image id (`sha256:<hex>`) and the archive, in docker-save layout, of these layers, lowest
    first.
    """
    layers = list(layers)
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **(settings or {})},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": [{"created": "1970-01-01T00:00:00Z"} for _ in layers],
        }
    ).encode()
    name = hashlib.sha256(config).hexdigest()
    files = {f"{number}/layer.tar": layer for number, layer in enumerate(layers)}
    manifest = json.dumps(
        [{"Config": f"{name}.json", "RepoTags": None, "Layers": list(files)}]
    ).encode()
    return f"sha256:{name}", make_layer(
        {**files, f"{name}.json": config, "manifest.json": manifest}
    )


def tiny_image(
    *, programs: Iterable[str] = PROGRAMS, settings: Mapping[str, object] | None = None
) -> tuple[str, bytes]:
    """The id and the archive of an image with some programs of this machine, `/bin/sh` and a user
    `nobody`.
    """
    files: dict[str, bytes | str | None] = {
        "bin": None,
        "etc": None,
        "tmp": None,
        "dev": None,
        "proc": None,
        "sys": None,
    }
    for program in programs:
        for path in (program, *_libraries(program)):
            for folder in reversed(Path(path).parents[:-1]):
                files.setdefault(str(folder)[1:], None)
            files[path[1:]] = Path(path).read_bytes()
    files["bin/sh"] = "dash"
    files["etc/passwd"] = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
    files["etc/group"] = b"root:x:0:\nnogroup:x:65534:\n"
    return make_archive([make_layer(files, modes={"tmp": 0o1777})], settings)


def layered_image() -> tuple[str, bytes]:
    """Two layers: a removed file, a directory made anew, a file replaced."""
    _, archive = tiny_image()
    low = {
        "d": None,
        "d/gone": b"x",
        "d/kept": b"x",
        "e": None,
        "e/old": b"x",
        "f": None,
        "f/same": b"lower\n",
    }
    high = {
        "d": None,
        "d/.wh.gone": b"",
        "e": None,
        "e/.wh..wh..opq": b"",
        "e/new": b"x",
        "f": None,
        "f/same": b"upper\n",
    }
    return make_archive([first_layer(archive), make_layer(low), make_layer(high)])


def first_layer(archive: bytes) -> bytes:
    """The lowest layer of an archive that `tiny_image` made."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile("0/layer.tar")
        assert member is not None
        return member.read()


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(
        ["/usr/bin/ldd", program], capture_output=True, text=True, check=True
    ).stdout
    return [match[0] for line in listed.splitlines() if (match := _LIBRARY.search(line))]


class ArchiveImage:
    """Implements lading.supervisor.engines.ImageSource over an archive in memory; counts how often
    it is read.
    """

    def __init__(self, name: str, archive: bytes, *, pdh: str = "") -> None:
        self.reads = 0
        self._name = name
        self._archive = archive
        self._pdh = pdh or f"{hashlib.md5(archive, usedforsecurity=False).hexdigest()}+100"

    @property
    def pdh(self) -> str:
        """Its collection."""
        return self._pdh

    async def name(self) -> str:
        """Its id."""
        return self._name

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its bytes, in two pieces."""
        self.reads += 1
        half = len(self._archive) // 2
        yield self._archive[:half]
        yield self._archive[half:]
