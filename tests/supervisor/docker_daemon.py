"""A fake daemon with the Docker API: it has images and loads others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class FakeDaemon:
    """A daemon that has images and loads others, as far as an engine asks it to."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.there: set[str] = set()
        self.loaded: list[bytes] = []
        self.says = b'{"stream":"Loaded image ID"}\n'
        self.id = ""
        self.ping: dict[str, str] = {}
        self.asked = 0
        self.root = "/"

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(headers=self.ping)

    async def _inspect(self, request: web.Request) -> web.Response:
        found = request.match_info["name"] in self.there
        return web.json_response(
            {"Id": "x"} if found else {"message": "no such image"}, status=200 if found else 404
        )

    async def _load(self, request: web.Request) -> web.Response:
        self.loaded.append(await request.read())
        self.there.add(self.id)
        return web.Response(body=self.says, content_type="application/json")

    async def _version(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response({"ApiVersion": "1.41", "Version": "20"})

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"DockerRootDir": self.root})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{version:v[0-9.]+}/version", self._version)
        app.router.add_get("/version", self._version)
        app.router.add_get("/_ping", self._ping)
        app.router.add_get("/{version:v[0-9.]+}/info", self._info)
        app.router.add_get("/{version:v[0-9.]+}/images/{name}/json", self._inspect)
        app.router.add_post("/{version:v[0-9.]+}/images/load", self._load)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, self.socket).start()
        try:
            yield
        finally:
            await runner.cleanup()
