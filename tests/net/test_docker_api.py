"""The version that a daemon names in a ping, and what a client does without one."""

from __future__ import annotations

from pathlib import Path

import aiodocker
import aiohttp
import pytest
from aiohttp import web

from lading.net.docker_api import learn_version


@pytest.mark.parametrize(
    ("named", "version"),
    [({"Api-Version": "1.41"}, "v1.41"), ({}, "auto"), ({"Api-Version": "new"}, "auto")],
)
async def test_the_version_of_a_ping_is_used(
    tmp_path: Path, named: dict[str, str], version: str
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(headers=named)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(tmp_path / "sock")).start()
        async with aiodocker.Docker(url=f"unix://{tmp_path}/sock") as docker:
            await learn_version(docker)
            assert (docker.api_version, asked) == (version, ["/_ping"])
            docker.api_version = "v1.30"
            await learn_version(docker)
            assert (docker.api_version, asked) == ("v1.30", ["/_ping"])
    finally:
        await runner.cleanup()


async def test_a_daemon_that_is_not_there(tmp_path: Path) -> None:
    async with aiodocker.Docker(url=f"unix://{tmp_path}/none") as docker:
        with pytest.raises(aiohttp.ClientError):
            await learn_version(docker)
