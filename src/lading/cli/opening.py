"""`lading open`: the page of the server in a browser, logged in by a one-time link."""

from __future__ import annotations

import webbrowser
from urllib.parse import urlencode

import click
import msgspec

from lading.cli import display
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@click.command(name="open")
@click.argument("reference", required=False, metavar="[REQUEST]")
@click.option("--print", "is_printed", is_flag=True, help="Print the link; open no browser.")
@display.with_json
def open_page(reference: str | None, is_printed: bool) -> display.Output:
    """Open the page of the server in a browser, at REQUEST if one is named.

    The link logs in once, within a minute; afterwards it is worthless. Do not pass it on.
    """

    async def action(session: CliSession) -> tuple[str, int]:
        place = "/ui/"
        if reference:
            place = f"/ui/requests/{(await find_request(session, reference))['uuid']}"
        answer = await session.api.raw(
            "POST", "/ui/links", headers=_FORM, body=urlencode({"next": place}).encode()
        )
        made = msgspec.json.decode(answer.body)
        return f"https://{session.address}{made['path']}", int(made["seconds"])

    link, seconds = with_session(action)
    yield {"link": link, "seconds": seconds}
    if is_printed or not webbrowser.open(link):
        click.echo(link)
        display.note(f"the link logs in once, within {seconds} s")


open = open_page
"""The command by its name, as `main` looks for it."""
