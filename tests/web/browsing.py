"""A site with the page, and browsers that visit it."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.types import ASGIApp

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World
from lading.web.app import make_app
from lading.web.open_shells import ShellChecks
from tests.webdav.site import Site, site

_FORM = "application/x-www-form-urlencoded"


@dataclass(slots=True, kw_only=True)
class Browser:
    """Keeps cookies and sends what browsers send."""

    app: ASGIApp
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Response:
        """Open an address, as if it were typed."""
        return await self.send("GET", path, {"sec-fetch-site": "none", **_named(headers)}, b"")

    async def post(
        self, path: str, form: Mapping[str, str] | None = None, **headers: str
    ) -> Response:
        """Send a form of the page, with the token of its session."""
        return await self.post_fields(path, list((form or {}).items()), **headers)

    async def post_fields(
        self, path: str, form: Sequence[tuple[str, str]], **headers: str
    ) -> Response:
        """Send a form whose fields may have several values. `form_token` may be among them."""
        fields = [("form_token", await self.form_token()), *form]
        if "form_token" in dict(form):
            fields = list(form)
        sent = {"sec-fetch-site": "same-origin", "content-type": _FORM, **_named(headers)}
        return await self.send("POST", path, sent, urlencode(fields).encode())

    async def form_token(self) -> str:
        """The token in the forms of the session; "" without one."""
        found = re.search(r'name="form_token" value="(\w+)"', await self.text("/ui/"))
        return found[1] if found else ""

    async def text(self, path: str) -> str:
        """The page at an address."""
        return (await self.get(path)).body.decode()

    async def words(self, path: str) -> str:
        """The words that a page shows."""
        text = re.sub(r"<(script|style|title).*?</\1>|<[^>]*>", " ", await self.text(path))
        return " ".join(unescape(text).split())

    async def log_in(self, token: str) -> None:
        """Log in with a token."""
        answer = await self.post("/ui/login", {"token": token})
        assert (answer.status, answer.headers["location"]) == (303, "/ui/")

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"accept": "text/html", **({"cookie": kept} if kept else {}), **headers}
        answer = await AsgiTransport(self.app).request(method, path, headers=sent, body=body)
        if "set-cookie" in answer.headers:
            name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return answer


@dataclass(slots=True, kw_only=True)
class PageSite:
    """A world with its files and the page."""

    files: Site
    app: ASGIApp
    directory: Path

    @property
    def world(self) -> World:
        """The API."""
        return self.files.world

    def browser(self) -> Browser:
        """A browser without cookies."""
        return Browser(app=self.app)

    async def logged_in(self, token: str | None = None) -> Browser:
        """A browser of the holder of a token, the admin by default."""
        made = self.browser()
        await made.log_in(token or self.world.admin)
        return made


@asynccontextmanager
async def page_site(
    root: Path, *, shell_checks: ShellChecks | None = None, **settings: Any
) -> AsyncIterator[PageSite]:
    """A site below an empty directory; `settings` are those of `lading.testing.world`."""
    async with site(root, **settings) as files:
        directory = root / "page"
        app = make_app(
            files.transport,
            directory=directory,
            clock=files.world.clock,
            entropy=random.Random(5).randbytes,
            shell_checks=shell_checks,
        )
        yield PageSite(files=files, app=app, directory=directory)
        await files.transport.close()


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
