"""`lading mcp`."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.cli.site import Site


@pytest.mark.parametrize(("options", "count"), [((), 8), (("--write",), 9)])
def test_it_writes_only_if_the_user_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], count: int
) -> None:
    counts: list[int] = []

    async def serve(server: MCPServer[Any]) -> None:
        counts.append(len(await server.list_tools()))

    monkeypatch.setattr(MCPServer, "run_stdio_async", serve)
    site.lading("mcp", *options)
    assert counts == [count]
