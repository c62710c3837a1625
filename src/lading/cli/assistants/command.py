"""`lading mcp`."""

from __future__ import annotations

from typing import cast

import click

from lading.cli.interruption import run_until_killed
from lading.cli.session import Connect


@click.command()
@click.option("--write", is_flag=True, help="Let the assistant submit requests again, too.")
def mcp(write: bool) -> None:
    """Serve an assistant over standard input and output, by the Model Context Protocol.

    It reads requests, runs, reasons, logs and small files with your token, and changes nothing.
    An assistant starts this command itself; its configuration names it.

    \b
    lading mcp
    lading --site cluster mcp --write
    """
    # Imported here: the protocol comes with the extra `mcp`.
    from lading.cli.assistants.server import make_server
    from lading.cli.assistants.tools import AssistantTools

    opened = cast(Connect, click.get_current_context().obj)

    async def serve() -> None:
        async with opened() as session:
            server = make_server(AssistantTools(session), may_write=write)
            await server.run_stdio_async()

    run_until_killed(serve())
