from __future__ import annotations

from pathlib import Path

from lading.testing.asgi import AsgiTransport
from lading.wiring.applications.file_servers import make_file_servers
from lading.wiring.directory import DataDirectory
from tests.webdav.site import site


async def test_files_are_served(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        uuid = await here.collection({"f": b"x"})
        directory = DataDirectory(tmp_path / "data")
        app = make_file_servers(here.transport, here.world.config, directory)
        headers = {"authorization": f"Bearer {here.world.admin}"}
        transport = AsgiTransport(app)
        answer = await transport.request("GET", f"/c={uuid}/f", headers=headers)
        assert (answer.status, answer.body) == (200, b"x")
