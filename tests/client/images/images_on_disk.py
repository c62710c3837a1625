"""Small images on disk for tests, in the layouts of others."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def tar_of(files: dict[str, bytes | None]) -> bytes:
    """A tar with these files; None makes a directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


LAYERS = (tar_of({"bin/": None, "bin/sh": b"#!\n"}), tar_of({"etc/": None, "etc/motd": b"hello\n"}))


def digest(data: bytes) -> str:
    """`sha256:<hex>`."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config_of(*layers: bytes, **changes: Any) -> bytes:
    """An image configuration for these layers."""
    rootfs = {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}
    return json.dumps(
        {"architecture": "amd64", "os": "linux", "rootfs": rootfs, **changes}
    ).encode()


def saved_files(
    *layers: bytes, tags: list[str] | None = None, config: bytes = b""
) -> dict[str, bytes | None]:
    """The files of a docker-save archive."""
    config = config or config_of(*layers, created="2026-01-02T03:04:05Z")
    names = [f"l{number}/layer.tar" for number, _ in enumerate(layers)]
    manifest = [{"Config": "c.json", "RepoTags": tags, "Layers": names}]
    return {
        "c.json": config,
        **dict(zip(names, layers, strict=True)),
        "manifest.json": json.dumps(manifest).encode(),
    }


def oci_files(
    *layers: bytes, blobs: tuple[bytes, ...] = (), architecture: str = "amd64", name: str = ""
) -> dict[str, bytes | None]:
    """The files of an OCI layout; `blobs` are the layers as stored, when they are compressed."""
    config = config_of(*layers, architecture=architecture)
    stored = blobs or layers
    manifest = json.dumps(
        {
            "config": {"digest": digest(config)},
            "layers": [{"digest": digest(blob)} for blob in stored],
        }
    ).encode()
    described: dict[str, Any] = {"digest": digest(manifest)}
    if name:
        described["annotations"] = {"org.opencontainers.image.ref.name": name}
    files: dict[str, bytes | None] = {
        "oci-layout": b"{}",
        "index.json": json.dumps({"manifests": [described]}).encode(),
    }
    for blob in (config, manifest, *stored):
        files[f"blobs/{digest(blob).replace(':', '/')}"] = blob
    return files


def write_files(folder: Path, files: dict[str, bytes | None]) -> Path:
    """The files in a directory."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    return folder


def write_tar(path: Path, files: dict[str, bytes | None]) -> Path:
    """The files in a tar."""
    path.write_bytes(tar_of(files))
    return path
