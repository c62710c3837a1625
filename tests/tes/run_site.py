"""The API, blocks and WES in one process, and short ways to call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lading.api.container_access.port_addresses import PortAddresses
from lading.blobs.app import make_app as make_blocks
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.core.records.schema import JSON, Record
from lading.tes.exchange import ServiceIdentity
from lading.tes.wes_app import make_app
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume
from lading.testing.world import ApiReply, World, call_asgi, world
from lading.wiring.server import combine

PREFIX = "/ga4gh/wes/v1"
PARAMS = {
    "workflow_params": "{}",
    "workflow_type": "CWL",
    "workflow_type_version": "v1.2",
    "workflow_url": "main.cwl",
}
_BOUNDARY = "a-boundary"


def form(fields: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> bytes:
    """A body of multipart/form-data: fields, and attachments by path."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    for path, data in (files or {}).items():
        parts.append((f'name="workflow_attachment"; filename="{path}"', data))
    lines = [
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n"
        % (_BOUNDARY.encode(), head.encode(), data)
        for head, data in parts
    ]
    return b"".join(lines) + b"--%s--\r\n" % _BOUNDARY.encode()


FORM = f"multipart/form-data; boundary={_BOUNDARY}"


@dataclass(slots=True, kw_only=True)
class RunWorld:
    """A world with WES."""

    world: World
    app: Any
    volume: MemoryVolume

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        token: str | None = None,
        query: str = "",
        kind: str = FORM,
    ) -> ApiReply:
        """One exchange, as the admin by default; a token of "" sends none."""
        given = self.world.admin if token is None else token
        headers = {"content-type": kind}
        if given:
            headers["authorization"] = f"Bearer {given}"
        return await call_asgi(
            self.app, method, f"{PREFIX}/{path}", query=query, headers=headers, body=body
        )

    async def ok(self, method: str, path: str, body: bytes = b"", **more: Any) -> Record:
        """The JSON of a call that must succeed."""
        reply = await self.call(method, path, body, **more)
        assert reply.status == 200, reply.body.decode()
        found: Record = reply.json
        return found

    async def create(
        self,
        params: JSON = None,
        *,
        files: Mapping[str, bytes] | None = None,
        token: str | None = None,
        **fields: str,
    ) -> str:
        """Start a run of `main.cwl`; its id."""
        given = {**PARAMS, "workflow_params": msgspec.json.encode(params or {}).decode(), **fields}
        attached = {"main.cwl": b"class: Workflow"} if files is None else files
        made = await self.ok("POST", "runs", form(given, attached), token=token)
        return str(made["run_id"])

    async def end(self, run: str, output: bytes, *, exit_code: int = 0) -> Record:
        """Run the container of a run to its end, with this output object; its request."""
        container = (await self.request(run))["container_uuid"]
        supervisor = await self.world.lock(container)
        own = await self.world.container_token(container)
        await self.volume.put(self.world.blocks.put(output)[:32], output)
        files = {"cwl.output.json": output}
        made = await self.world.collection(files, token=own, is_trashed=True)
        await self.world.finish(
            container, supervisor, exit_code=exit_code, output=made["portable_data_hash"]
        )
        return await self.request(run)

    async def request(self, run: str) -> Record:
        """The request of a run."""
        found: Record = await self.world.ok("GET", f"container_requests/{run}")
        return found


@asynccontextmanager
async def run_world(root: Path, *, image: str = "", **overrides: JSON) -> AsyncIterator[RunWorld]:
    """A world with WES below an empty directory; `overrides` are configuration keys. The image of
    the runner is there unless `image` names another one.
    """
    async with world(root, **overrides) as made:
        volume = MemoryVolume()
        mounts = VolumeSet([VolumeMount(uuid=f"{made.cluster}-nyw5e-{0:015}", volume=volume)])
        blocks = make_blocks(
            mounts,
            made.config,
            clock=lambda: made.clock().timestamp(),
            check_token=made.app.check_token,
        )
        whole = AsgiTransport(combine(made.app, blocks, blocks, PortAddresses()))
        app = make_app(
            whole,
            made.config.TES,
            ServiceIdentity(cluster=made.cluster, url=made.config.ExternalURL),
            image=image or await made.ensure_image(),
            engine_version="3.2.1",
            secret=b"secret",
        )
        yield RunWorld(world=made, app=app, volume=volume)
