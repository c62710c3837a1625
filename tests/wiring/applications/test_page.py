"""The page as a part of the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lading.api.container_access.port_addresses import PortAddresses
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world
from lading.wiring.applications.page import OnDemandPage, is_page_path
from lading.wiring.server import combine


def _scope(path: str, accept: bytes = b"text/html,*/*", method: str = "GET") -> dict[str, Any]:
    return {"path": path, "method": method, "headers": [(b"accept", accept)]}


@pytest.mark.parametrize(
    ("scope", "is_ours"),
    [
        (_scope("/ui/"), True),
        (_scope("/ui"), True),
        (_scope("/ui/x", b"", "POST"), True),
        (_scope("/uix"), False),
        (_scope("/"), True),
        (_scope("/", b"application/json"), False),
        (_scope("/", method="POST"), False),
        (_scope("/arvados/v1/"), False),
    ],
)
def test_addresses_of_the_page(scope: dict[str, Any], is_ours: bool) -> None:
    assert is_page_path(scope) is is_ours


def _whole(it: World) -> AsgiTransport:
    page = OnDemandPage(AsgiTransport(it.app), it.root / "page")
    return AsgiTransport(combine(it.app, it.app, it.app, PortAddresses(), page=page))


async def test_the_root_leads_browsers_to_the_page(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        transport = _whole(it)
        answer = await transport.request("GET", "/", headers={"accept": "text/html"})
        assert (answer.status, answer.headers["location"]) == (307, "/ui/")
        assert (await transport.request("GET", "/", headers={})).status == 200
        answer = await transport.request("GET", "/ui/login", headers={})
        assert b"<h1>Log in</h1>" in answer.body


def test_a_server_starts_without_the_page() -> None:
    code = (
        "import sys, lading.wiring.server;"
        " print([one for one in ('jinja2', 'lading.web') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
