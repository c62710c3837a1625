"""`lading share` and `unshare`: permission links, and URLs with a token for one collection.

A request is shared with its container, its log and its output (`client.sharing`).

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
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.quantities import format_time

_TOKENS = "api_client_authorizations"
_LEVELS = ("read", "write", "manage")
_OF_REQUEST = ("request", "container", "log", "output")


@click.command()
@click.argument("target", metavar="WHAT")
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
@click.option(
    "--enter",
    "may_enter",
    is_flag=True,
    help="Also let the user WHO into the containers of a request: shells and ports.",
)
@display.with_json
def share(
    target: str,
    who: str | None,
    can: str,
    by_link: bool,
    seconds: int | None,
    may_enter: bool,
) -> display.Output:
    """Give WHO access to WHAT, a collection, a project, or a request with its container, log and
    output; without WHO, list the existing access.

    WHO is a user (name, e-mail address or uuid), a role (name or uuid), `everyone` with an account
    here, or `public`.
    """
    if by_link and (who or can != "read" or may_enter):
        raise click.UsageError(
            "--link gives anybody with the address read access; leave WHO, --can and --enter out"
        )
    if may_enter and not who:
        raise click.UsageError("--enter is for a user: name WHO")
    if seconds is not None and not by_link:
        raise click.UsageError("--for is the time of a --link")
    if by_link:
        yield from _share_by_link(target, seconds)
        return

    async def action(session: CliSession) -> tuple[list[Record], str]:
        uuid = await _find_shared(session, target)
        if who is not None:
            party = await sharing.find_party(session.api, who, uuid[:5])
            await sharing.share_with(session.api, uuid, party, f"can_{can}", may_enter=may_enter)
        access = [
            *await sharing.list_access(session.api, uuid),
            *await _addresses(session, uuid),
        ]
        if who == "public":
            return access, describe_public(await _config(session), uuid)
        return access, _missing(uuid, access) if who else ""

    links, remark = with_session(action)
    yield links
    if not links:
        display.note(f"{target}: shared with nobody")
        return
    _show(links)
    if remark:
        display.note(remark)


def _show(links: list[Record]) -> None:
    if not any(link["of"] in _OF_REQUEST for link in links):
        display.table(
            ("WHO", "MAY", "UUID"),
            ((link["who"], link["can"], link["tail_uuid"]) for link in links),
        )
        return
    # Of a request: its records one by one, so that the answer names all that is shared.
    display.table(
        ("WHO", "MAY", "OF", "UUID"),
        ((link["who"], link["can"], link["of"], link["head_uuid"]) for link in links),
    )


def _missing(uuid: str, links: list[Record]) -> str:
    """A message about a request whose output does not exist, so that it could not be shared."""
    if not is_uuid(uuid, Infix.REQUEST) or any(link["of"] == "output" for link in links):
        return ""
    return f"{uuid}: has no output that could be shared; share it again once it has one"


def _share_by_link(name: str, seconds: int | None) -> display.Output:
    async def action(session: CliSession) -> Record:
        uuid = await _find_collection(session, name)
        ends = (
            None if seconds is None else format_time(datetime.now(UTC) + timedelta(seconds=seconds))
        )
        return await sharing.make_address(session.api, uuid, ends)

    address = with_session(action)
    yield address
    click.echo(address["url"])
    until = f" until {address['expires_at']}" if address["expires_at"] else ""
    display.note(
        f"anybody with this address reads {name}{until}; 'lading unshare {name} --link' ends it"
    )


@click.command()
@click.argument("target", metavar="WHAT")
@click.argument("who", required=False)
@click.option(
    "--link", "by_link", is_flag=True, help="End the addresses that 'lading share --link' gave."
)
@display.with_json
def unshare(target: str, who: str | None, by_link: bool) -> display.Output:
    """Remove the access to WHAT that `lading share` gave to WHO."""
    if bool(who) == by_link:
        raise click.UsageError("name either WHO or --link")

    async def action(session: CliSession) -> tuple[dict[str, str], dict[str, str]]:
        left: dict[str, str] = {}
        if who is None:
            uuid = await _find_collection(session, target)
            addresses = await _addresses(session, uuid)
            for address in addresses:
                await session.api.delete(_TOKENS, address["uuid"])
            ended = {address["uuid"]: uuid for address in addresses}
        else:
            uuid = await _find_shared(session, target)
            party = await sharing.find_party(session.api, who, uuid[:5])
            ended = await sharing.unshare_with(session.api, uuid, party)
            left = await sharing.shared_by_itself(session.api, uuid, party)
        if not ended:
            raise NotFound(f"{target}: is not shared {_with(who)}; see 'lading share {target}'")
        return ended, left

    ended, left = with_session(action)
    records = {} if who is None else ended
    yield {"what": target, "who": who, "removed": len(ended), "records": records}
    names = [f"{kind} {uuid}" for kind, uuid in ended.items() if kind in _OF_REQUEST]
    listed = f": {', '.join(names)}" if names else ""
    display.note(f"{target}: no longer shared {_with(who)}{listed}")
    for kind, uuid in left.items():
        display.note(f"the {kind} is shared by itself; 'lading unshare {uuid} {who}' ends that")


def _with(who: str | None) -> str:
    return f"with {who}" if who else "by an address"


async def _find_shared(session: CliSession, shared: str) -> str:
    """The uuid of the shared collection, request or project; of one name, the collection. Raises
    Invalid, NotFound.
    """
    if is_uuid(shared, Infix.GROUP):
        return shared
    if is_uuid(shared, Infix.CONTAINER):
        raise Invalid(f"{shared}: a container is shared with its request; name the request")
    reference = references.need_reference(shared)
    name = reference.name
    if is_uuid(name, Infix.REQUEST):
        record = await references.find_request(session, name)
    elif not (is_uuid(name) or is_pdh(name)):
        try:
            return _undivided(await references.find_stored(session, name), shared, reference.path)
        except NotFound as error:
            # A name with / may be the path of a project.
            with suppress(NotFound):
                return await references.find_project(session, shared)
            raise error
    else:
        record = await references.find_record(session, reference)
    return _undivided(str(record["uuid"]), shared, reference.path)


def _undivided(uuid: str, shared: str, path: str) -> str:
    """The uuid, if no part of its files was named. Raises Invalid."""
    if path:
        raise Invalid(
            f"{shared}: files are shared with their collection; "
            f"leave {path!r} out, or copy it first"
        )
    return uuid


async def _find_collection(session: CliSession, shared: str) -> str:
    """The uuid of a collection for `--link`; that of a request is its output. Raises Invalid."""
    uuid = await _find_shared(session, shared)
    if is_uuid(uuid, Infix.REQUEST):
        record = await references.find_record(session, references.FileReference(uuid))
        return str(record["uuid"])
    if not is_uuid(uuid, Infix.COLLECTION):
        raise Invalid(f"{shared}: a project has no address; share a collection of it")
    return uuid


async def _addresses(session: CliSession, uuid: str) -> list[Record]:
    """The user's own unexpired tokens that read only this collection."""
    tokens = await sharing.list_addresses(session.api, uuid, format_time(datetime.now(UTC)))
    return [
        {
            "who": "by address",
            "can": "read",
            "of": "collection",
            "head_uuid": uuid,
            "tail_uuid": token["uuid"],
            "uuid": token["uuid"],
        }
        for token in tokens
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
