from __future__ import annotations

from pathlib import Path

from lading.testing.asgi import AsgiTransport
from lading.wiring.applications.file_servers import make_file_servers
from lading.wiring.directory import DataDirectory
from tests.webdav.site import site


async def _no_secret(_: str) -> str:
    return ""


async def test_files_are_served(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        uuid = await here.collection({"f": b"x"})
        directory = DataDirectory(tmp_path / "data")
        servers = make_file_servers(
            here.transport, here.world.config, directory, find_secret=_no_secret
        )
        headers = {"authorization": f"Bearer {here.world.admin}"}
        transport = AsgiTransport(servers.webdav)
        answer = await transport.request("GET", f"/c={uuid}/f", headers=headers)
        assert (answer.status, answer.body) == (200, b"x")
        answer = await AsgiTransport(servers.s3.app).request("GET", f"/s3/{uuid}/f", headers={})
        assert (answer.status, b"<Code>AccessDenied</Code>" in answer.body) == (403, True)
