"""`lading share` and `unshare`: permission links, and URLs with a token for one collection.

Source: docs/spec/api, sections Links and Scopes. The users' page is docs/sharing.md.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click

from lading.cli import display, references
from lading.cli.options import DURATION
from lading.cli.session import CliSession, with_session
from lading.client import sharing
from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time

_TOKENS = "api_client_authorizations"
_LEVELS = ("read", "write", "manage")


@click.command()
@click.argument("what")
@click.argument("who", required=False)
@click.option(
    "--can",
    type=click.Choice(_LEVELS),
    default="read",
    show_default=True,
    help="Level of the access.",
)
@click.option(
    "--link",
    "by_link",
    is_flag=True,
    help="Print an address by which anybody can read the collection.",
)
@click.option(
    "--for",
    "seconds",
    type=DURATION,
    metavar="TIME",
    help="Life of the address of --link, such as 7d.",
)
@display.json_option
def share(
    what: str, who: str | None, can: str, by_link: bool, seconds: int | None, as_json: bool
) -> None:
    """Give WHO access to WHAT, a collection or a project; without WHO, list the existing access.

    WHO is a user (name, e-mail address or uuid), a role (name or uuid), `everyone` with an account
    here, or `public`.
    """
    if by_link and (who or can != "read"):
        raise click.UsageError(
            "--link gives anybody with the address read access; leave WHO and --can out"
        )
    if seconds is not None and not by_link:
        raise click.UsageError("--for is the time of a --link")
    if by_link:
        _share_by_link(what, seconds, as_json)
        return

    async def action(session: CliSession) -> tuple[list[Record], str]:
        uuid = await _find_shared(session, what)
        if who is not None:
            await sharing.set_level(
                session.api,
                uuid,
                await sharing.find_party(session.api, who, uuid[:5]),
                f"can_{can}",
            )
        links = [
            *await sharing.list_permissions(session.api, uuid),
            *await _addresses(session, uuid),
        ]
        return links, describe_public(await _config(session), uuid) if who == "public" else ""

    links, said = with_session(action)
    if as_json:
        display.emit_json(links)
        return
    if not links:
        display.note(f"{what}: shared with nobody")
        return
    display.table(
        ("WHO", "MAY", "UUID"), ((one["who"], one["can"], one["tail_uuid"]) for one in links)
    )
    if said:
        display.note(said)


def _share_by_link(what: str, seconds: int | None, as_json: bool) -> None:
    async def action(session: CliSession) -> Record:
        uuid = await _find_shared(session, what)
        if not is_uuid(uuid, Infix.COLLECTION):
            raise Invalid(f"{what}: a project has no address; share a collection of it")
        ends = (
            None if seconds is None else format_time(datetime.now(UTC) + timedelta(seconds=seconds))
        )
        return await sharing.make_address(session.api, uuid, ends)

    made = with_session(action)
    if as_json:
        display.emit_json(made)
        return
    click.echo(made["url"])
    until = f" until {made['expires_at']}" if made["expires_at"] else ""
    display.note(
        f"anybody with this address reads {what}{until}; 'lading unshare {what} --link' ends it"
    )


@click.command()
@click.argument("what")
@click.argument("who", required=False)
@click.option(
    "--link", "by_link", is_flag=True, help="End the addresses that 'lading share --link' gave."
)
@display.json_option
def unshare(what: str, who: str | None, by_link: bool, as_json: bool) -> None:
    """Remove the access to WHAT that `lading share` gave to WHO."""
    if bool(who) == by_link:
        raise click.UsageError("name either WHO or --link")

    async def action(session: CliSession) -> int:
        uuid = await _find_shared(session, what)
        if who is None:
            kind, found = _TOKENS, await _addresses(session, uuid)
        else:
            kind, found = (
                "links",
                await sharing.links_of(
                    session.api, uuid, await sharing.find_party(session.api, who, uuid[:5])
                ),
            )
        if not found:
            raise NotFound(f"{what}: is not shared {_with(who)}; see 'lading share {what}'")
        for one in found:
            await session.api.delete(kind, one["uuid"])
        return len(found)

    count = with_session(action)
    if as_json:
        display.emit_json({"what": what, "who": who, "removed": count})
    else:
        display.note(f"{what}: no longer shared {_with(who)}")


def _with(who: str | None) -> str:
    return f"with {who}" if who else "by an address"


async def _find_shared(session: CliSession, what: str) -> str:
    """The uuid of the shared collection or project; of one name, the collection."""
    if is_uuid(what, Infix.GROUP):
        return what
    reference = references.need_reference(what)
    try:
        record = await references.find_record(session, reference)
    except NotFound as error:
        # A name with / may be the path of a project.
        with suppress(NotFound):
            return await references.find_project(session, what)
        raise error
    if reference.path:
        raise Invalid(
            f"{what}: files are shared with their collection; "
            f"leave {reference.path!r} out, or copy it first"
        )
    return str(record["uuid"])


async def _addresses(session: CliSession, uuid: str) -> list[Record]:
    """The user's own unexpired tokens that read only this collection."""
    found = await sharing.list_addresses(session.api, uuid, format_time(datetime.now(UTC)))
    return [
        {"who": "by address", "can": "read", "tail_uuid": one["uuid"], "uuid": one["uuid"]}
        for one in found
    ]


def describe_public(config: Record, uuid: str) -> str:
    """A message for the user who shared something with the public; `config` is the server's
    published configuration.
    """
    if not config["Users"]["AnonymousUserToken"]:
        return (
            "but nobody without an account is let in: "
            "the configuration has no Users.AnonymousUserToken"
        )
    return (
        f"anybody reads it at {_files_at(config)}c={uuid}/"
        if is_uuid(uuid, Infix.COLLECTION)
        else ""
    )


def _files_at(config: Record) -> str:
    return str(config["Services"]["WebDAVDownload"]["ExternalURL"])


async def _config(session: CliSession) -> Record:
    found: Record = await session.api.request("GET", "config")
    return found
