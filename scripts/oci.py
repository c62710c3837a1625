"""Writes the image archive of the server from a root file system: `oci.py ROOT.tar TARGET`.

The archive is an OCI image layout (index.json) that also has the manifest.json of `docker save`, as
Docker 25 and later write it: `podman load`, `skopeo` and every `docker load` read it. The same root
gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DATA = "/var/lib/lading"
ENTRY = ["/usr/bin/tini", "--", "/usr/bin/lading"]
COMMAND = ["up", "--data", DATA, "--listen", "0.0.0.0:9440", "--log", "stderr"]


def main() -> None:
    """Write the archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--name", required=True, help="name and tag, lading:1.0")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--version", required=True)
    options = parser.parse_args()
    created = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), tz=UTC).isoformat()
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder) / "layer"
        diff_id = _digest(options.root)
        with (
            options.root.open("rb") as source,
            layer.open("wb") as out,
            gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="", compresslevel=6) as packed,
        ):
            shutil.copyfileobj(source, packed, 1 << 20)
        config = _json(
            {
                "created": created,
                "architecture": options.architecture,
                "os": "linux",
                "config": _settings(options.version),
                "rootfs": {"type": "layers", "diff_ids": [diff_id]},
                "history": [{"created": created, "created_by": "scripts/image.sh"}],
            }
        )
        _write(options.target, layer, config, options.name)


def _settings(version: str) -> dict[str, Any]:
    """Command and settings of a container of the image."""
    return {
        "Entrypoint": ENTRY,
        "Cmd": COMMAND,
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            f"LADING_DATA={DATA}",
        ],
        "ExposedPorts": {"9440/tcp": {}},
        "Volumes": {DATA: {}},
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.title": "Lading",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def _write(target: Path, layer: Path, config: bytes, name: str) -> None:
    kind = "application/vnd.oci.image"
    layer_digest, config_digest = _digest(layer), f"sha256:{hashlib.sha256(config).hexdigest()}"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": {
                "mediaType": f"{kind}.config.v1+json",
                "digest": config_digest,
                "size": len(config),
            },
            "layers": [
                {
                    "mediaType": f"{kind}.layer.v1.tar+gzip",
                    "digest": layer_digest,
                    "size": layer.stat().st_size,
                }
            ],
        }
    )
    manifest_digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    index = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}.index.v1+json",
            "manifests": [
                {
                    "mediaType": f"{kind}.manifest.v1+json",
                    "digest": manifest_digest,
                    "size": len(manifest),
                    "annotations": {
                        "io.containerd.image.name": f"docker.io/library/{name}",
                        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
                    },
                }
            ],
        }
    )
    listed = [{"Config": _blob(config_digest), "RepoTags": [name], "Layers": [_blob(layer_digest)]}]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in (
            ("oci-layout", _json({"imageLayoutVersion": "1.0.0"})),
            ("index.json", index),
            ("manifest.json", _json(listed)),
            (_blob(manifest_digest), manifest),
            (_blob(config_digest), config),
        ):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        member = tarfile.TarInfo(_blob(layer_digest))
        member.size = layer.stat().st_size
        with layer.open("rb") as file:
            tar.addfile(member, file)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


if __name__ == "__main__":
    main()
