"""Files for tests of engines: a tiny image, and a device tree with fake GPUs.

The image has some programs of this machine with their libraries, as docker save would write it. The
device tree is a directory of device files like /dev/null, with the names that drivers give.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import struct
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

PROGRAMS = tuple(
    f"/bin/{name}" for name in ("dash", "cat", "mkdir", "ln", "ls", "sleep", "dd", "true", "env")
)
_LIBRARY = re.compile(r"/[^ ]+")
_NULL = os.makedev(1, 3)


def make_layer(
    entries: Mapping[str, bytes | str | None],
    *,
    modes: Mapping[str, int] | None = None,
    owner: tuple[int, int] = (0, 0),
) -> bytes:
    """A layer archive: bytes are files (0755), text is the target of a symbolic link, None is a
    directory. `owner`: user and group of all of them.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.mode = (modes or {}).get(name, 0o755)
            member.uid, member.gid = owner
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def make_archive(
    layers: Iterable[bytes], settings: Mapping[str, object] | None = None, *, name: str = ""
) -> tuple[str, bytes]:
    """The image id (`sha256:<hex>`) and the archive, in docker-save layout, of these layers, lowest
    first. `name` is a name with a tag.
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
    digest = hashlib.sha256(config).hexdigest()
    files = {f"{number}/layer.tar": layer for number, layer in enumerate(layers)}
    manifest = json.dumps(
        [
            {
                "Config": f"{digest}.json",
                "RepoTags": [name] if name else None,
                "Layers": list(files),
            }
        ]
    ).encode()
    return f"sha256:{digest}", make_layer(
        {**files, f"{digest}.json": config, "manifest.json": manifest}
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


def make_devices(
    root: Path, *, cuda: int = 0, rocm: int = 0, intel: int = 0, real: bool = True
) -> Path:
    """The root of a tree with so many GPUs; `real` makes them device files, which takes root, else
    they are empty.
    """
    names = [f"nvidia{number}" for number in range(cuda)]
    names += ["nvidiactl", "nvidia-uvm"] if cuda else []
    names += ["kfd"] if rocm else []
    makers = {f"renderD{128 + number}": "0x1002" for number in range(rocm)}
    makers |= {f"renderD{128 + rocm + number}": "0x8086" for number in range(intel)}
    names += [f"dri/{name}" for name in makers]
    (root / "dev/dri").mkdir(parents=True)
    for name in names:
        path = root / "dev" / name
        if real:
            os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
            path.chmod(0o666)
        else:
            path.touch()
    for render, maker in makers.items():
        _write(root / f"sys/class/drm/{render}/device/vendor", f"{maker}\n")
    for number in range(rocm):
        _write(
            root / f"sys/class/kfd/kfd/topology/nodes/{number + 1}/properties",
            "simd_count 4\ngfx_target_version 90010\n",
        )
        _write(
            root / f"sys/class/drm/renderD{128 + number}/device/mem_info_vram_total",
            f"{(number + 1) << 34}\n",
        )
    if rocm:
        _write(
            root / "sys/class/kfd/kfd/topology/nodes/0/properties",
            "simd_count 0\ngfx_target_version 0\n",
        )
    return root


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def make_loader_cache(libraries: Iterable[tuple[str, str]], *, flags: int = 0x0303) -> bytes:
    """The cache of the dynamic loader with these names and paths, as glibc writes it. `flags`: by
    default the flags of libraries of 64 bits.
    """
    rows = list(libraries)
    texts = bytearray()
    entries = b""
    start = 48 + 24 * len(rows)
    for row in rows:
        offsets = []
        for word in row:
            offsets.append(start + len(texts))
            texts += word.encode() + b"\0"
        entries += struct.pack("<iIIIQ", flags, *offsets, 0, 0)
    head = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(rows), len(texts))
    return head + entries + texts


def add_driver(root: Path) -> None:
    """Add the files of a driver of NVIDIA to a tree: a library that is a text, its links, the cache
    of the loader, and a program that prints that it was run.
    """
    folder = "usr/lib/x86_64-linux-gnu"
    _write(root / folder / "libcuda.so.550.54", "the library of the driver\n")
    for link, target in (("libcuda.so.1", "libcuda.so.550.54"), ("libcuda.so", "libcuda.so.1")):
        (root / folder / link).symlink_to(target)
    names = [(name, f"/{folder}/{name}") for name in ("libcuda.so.1", "libcuda.so")]
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/ld.so.cache").write_bytes(make_loader_cache(names))
    _write(root / "usr/bin/nvidia-smi", "#!/bin/sh\necho GPU 0: of a test\n")
    (root / "usr/bin/nvidia-smi").chmod(0o755)
