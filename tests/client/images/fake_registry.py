"""A registry in memory: what is asked of it is written down, and it can be made to fail."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.client.images.images_on_disk import config_of, digest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def manifest_of(*stored: bytes, config: bytes, **changes: Any) -> bytes:
    """The manifest of an image whose layers are `stored` so."""
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": digest(config), "size": len(config)},
        "layers": [
            {"mediaType": _LAYER, "digest": digest(blob), "size": len(blob)} for blob in stored
        ],
    }
    return json.dumps({**document, **changes}).encode()


def index_of(manifests: Mapping[str, bytes]) -> bytes:
    """An index of manifests by platform, `linux/arm64/v8`."""
    entries = []
    for platform, manifest in manifests.items():
        names = zip(("os", "architecture", "variant"), platform.split("/"), strict=False)
        named = {"mediaType": MANIFEST, "digest": digest(manifest), "size": len(manifest)}
        entries.append({**named, "platform": dict(names)})
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()


@dataclass
class FakeRegistry:
    """Blobs and manifests by digest, and tags.

    `login`: the `Authorization` without which nothing is given; `challenge` is what it then asks
    for, `token` what its token service gives. `breaks`: bytes after which each answer of a layer
    breaks off, one after another. `elsewhere`: where blobs are sent to.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    login: str = ""
    challenge: str = ""
    token_login: str = ""
    token: str = ""
    breaks: list[int] = field(default_factory=list)
    elsewhere: str = ""
    status: int = 0
    ranges: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)

    def push(
        self,
        repository: str,
        tag: str,
        *layers: bytes,
        stored: tuple[bytes, ...] = (),
        **changes: Any,
    ) -> bytes:
        """Have an image; its manifest."""
        config = config_of(*layers, **changes)
        manifest = manifest_of(*(stored or layers), config=config)
        for blob in (config, *(stored or layers)):
            self.blobs[digest(blob)] = blob
        self.tag(repository, tag, manifest)
        return manifest

    def tag(self, repository: str, tag: str, manifest: bytes) -> None:
        """Name a manifest or an index."""
        self.manifests[f"{repository}/{tag}"] = manifest
        self.manifests[f"{repository}/{digest(manifest)}"] = manifest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        await self._answer(request)(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        path, authorization = request.url.path, request.headers.get("authorization", "")
        self.asked.append((path, request.headers.get("range", "")))
        self.authorizations.append(authorization)
        if path == "/token":
            refused = authorization != self.token_login
            return Response(status_code=401) if refused else JSONResponse({"token": self.token})
        if self.login and authorization != self.login:
            return Response(
                status_code=401,
                headers={"www-authenticate": self.challenge} if self.challenge else {},
            )
        if self.status:
            return Response(status_code=self.status)
        name, _, version = path.removeprefix("/v2/").rpartition("/")
        if name.endswith("/manifests"):
            found = self.manifests.get(f"{name.removesuffix('/manifests')}/{version}")
            return (
                Response(found, media_type=MANIFEST)
                if found is not None
                else Response(status_code=404)
            )
        if self.elsewhere:
            return Response(
                status_code=307, headers={"location": f"{self.elsewhere}{path}?signed=1"}
            )
        blob = self.blobs.get(version)
        return self._blob(blob, request) if blob is not None else Response(status_code=404)

    def _blob(self, blob: bytes, request: Request) -> Response:
        asked = request.headers.get("range", "")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        part = blob[start:]
        limit = self.breaks.pop(0) if self.breaks else len(part)
        headers = {"content-length": str(len(part))}
        return StreamingResponse(_pieces(part, limit), 206 if start else 200, headers=headers)


async def _pieces(data: bytes, limit: int) -> AsyncGenerator[bytes]:
    for start in range(0, limit, 1000):
        yield data[start : min(start + 1000, limit)]
    if limit < len(data):
        raise ConnectionError("broken on purpose")
