"""The files of the configured site."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from lading.client.remote_files import opening
from lading.client.remote_files.opening import opened_files
from lading.client.servers.environment import Server
from lading.client.transport import HttpTransport
from tests.cli.site import Site


class _Local(Server, frozen=True, kw_only=True):
    """A server on a socket."""

    socket: Path

    def transport(self) -> HttpTransport:
        """A new transport to it."""
        return HttpTransport(unix_socket=self.socket)


@pytest.mark.parametrize("is_near", [True, False])
async def test_the_site_is_chosen_by_its_login(
    stage: Site, monkeypatch: pytest.MonkeyPatch, is_near: bool
) -> None:
    chosen: list[str | None] = []

    def find(environ: dict[str, str], data: Path, **_: object) -> Server:
        chosen.append(environ.get("LADING_SITE"))
        return _Local(address="localhost", token=stage.world.admin, socket=stage.socket)

    monkeypatch.setattr(opening, "find_or_start", find)
    monkeypatch.setattr(opening, "find_api_socket", lambda *_: stage.socket if is_near else None)
    address = f"c{uuid4().hex}/a"
    async with opened_files("elsewhere") as files:
        await files.write(address, b"1")
        assert await files.read(address) == b"1"
    assert chosen == ["elsewhere"]
