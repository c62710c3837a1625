"""`lading token`: tokens with limited scopes and time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from lading.cli import display, references
from lading.cli.accounts.users import find_user
from lading.cli.options import MOMENT
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.policy import token_scopes
from lading.core.quantities import format_time, parse_time

_TOKENS: Final = "api_client_authorizations"
_SHOWN: Final = (
    "uuid",
    "owner_uuid",
    "scopes",
    "created_at",
    "expires_at",
    "last_used_at",
    "last_used_by_ip_address",
)
# Characters of the scopes in a table.
_FEW: Final = 60


class _Scope(click.ParamType[str]):
    """`METHOD /path`; /arvados/v1/ may be left out of the path."""

    name = "scope"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scope = token_scopes.read_scope(str(value))
        if scope is None:
            self.fail(
                f"{value!r}: write a method and a path, for example 'GET /arvados/v1/collections/'",
                param,
                ctx,
            )
        return scope


@click.group()
def token() -> None:
    """Make, list, show and revoke tokens.

    A token acts for its user, within its scopes, until it expires. Give each program and each
    machine its own: it is told from others in the list, and revoked alone.
    """


@token.command()
@click.option(
    "--for",
    "who",
    metavar="USER",
    help="User of the token: name, e-mail address or uuid (admins only).",
)
@click.option("--read-only", is_flag=True, help="Permit reading all that its user can read.")
@click.option("--upload", is_flag=True, help="Permit storing new collections, and reading none.")
@click.option(
    "--collection",
    "collections",
    multiple=True,
    metavar="COLLECTION",
    help="Permit reading this collection.",
)
@click.option(
    "--scope", "scopes", multiple=True, type=_Scope(), metavar="'METHOD /PATH'",
    help="Permit this call, and all below the path if that ends in '/'.",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Permit all calls of its user.")
@click.option(
    "--s3", "is_s3_key", is_flag=True,
    help="Make it a key of S3, too, and print it as the variables that clients of S3 read.",
)  # fmt: skip
@click.option(
    "--expires", type=MOMENT, metavar="WHEN", help="End of the token: 30d, 12h, 18:00 or a date."
)
@display.with_json
def create(
    who: str | None,
    read_only: bool,
    upload: bool,
    collections: tuple[str, ...],
    scopes: tuple[str, ...],
    everything: bool,
    is_s3_key: bool,
    expires: str | None,
) -> display.Output:
    """Make a token and print it. It cannot be shown again: only its hash is stored; the secret of a
    key of S3 is stored encrypted, too.

    Its scopes: --read-only, --upload, --collection and --scope add up; --all is everything.

    \b
    lading token create --read-only --expires 30d
    lading token create --for ada --upload
    lading token create --scope 'GET /arvados/v1/collections/' --scope 'POST container_requests'
    lading token create --s3 --read-only > s3.env
    """
    narrow = any((read_only, upload, collections, scopes))
    if everything and narrow:
        raise click.UsageError("--all is everything; leave it or the other scopes out")
    if not everything and not narrow:
        raise click.UsageError(
            "name the rights of the token: --read-only, --upload, --collection, --scope or --all"
        )
    if expires is not None and expires <= format_time(datetime.now(UTC)):
        raise click.UsageError("--expires: that moment has passed")
    readable = [references.need_reference(name) for name in collections]

    chosen = (
        (token_scopes.ALL, everything),
        (token_scopes.READ_ONLY, read_only),
        (token_scopes.UPLOAD, upload),
    )

    async def action(session: CliSession) -> Record:
        granted = [scope for group, is_chosen in chosen if is_chosen for scope in group]
        for reference in readable:
            granted += await _reading(session, reference)
        attributes: Record = {
            "scopes": list(dict.fromkeys([*granted, *scopes])),
            "expires_at": expires,
        }
        if who is not None:
            attributes["owner_uuid"] = (await find_user(session, who))["uuid"]
        if not is_s3_key:
            return await session.api.create(_TOKENS, attributes)
        issued = await session.api.create(_TOKENS, {**attributes, "is_s3_key": True})
        config: Record = await session.api.request("GET", "config")
        address = str(config["Services"]["WebDAVDownload"]["ExternalURL"])
        return {**issued, "endpoint_url": f"{address.rstrip('/')}/s3"}

    issued = with_session(action)
    yield from _show_key(issued) if is_s3_key else _show_secret(issued)


async def _reading(session: CliSession, reference: references.FileReference) -> tuple[str, ...]:
    """The scopes that reading a collection needs. Raises Invalid for a path in it."""
    if reference.path:
        raise Invalid(
            f"{reference.name}/{reference.path}: a token reads whole collections; "
            "leave the path out"
        )
    uuid = (await references.find_record(session, reference))["uuid"]
    # Reading files needs the collection's record, its contents, and the address of the block store.
    return tuple(token_scopes.reading_collection(uuid))


def _show_key(issued: Record) -> display.Output:
    key_id, secret, endpoint = (issued[name] for name in ("uuid", "api_token", "endpoint_url"))
    shown = {"access_key_id": key_id, "secret_access_key": secret, "endpoint_url": endpoint}
    yield {**shown, "token": f"v2/{key_id}/{secret}", **_picked(issued)}
    click.echo(f"export AWS_ACCESS_KEY_ID={key_id}")
    click.echo(f"export AWS_SECRET_ACCESS_KEY={secret}")
    click.echo(f"export AWS_ENDPOINT_URL={endpoint}")
    # The server takes any region; with us-east-1 boto3 signs addresses by Version 2.
    click.echo("export AWS_REGION=local AWS_DEFAULT_REGION=local")
    _note_issued(issued)


def _show_secret(issued: Record) -> display.Output:
    secret = f"v2/{issued['uuid']}/{issued['api_token']}"
    yield {"token": secret, **_picked(issued)}
    click.echo(secret)
    _note_issued(issued)


def _note_issued(issued: Record) -> None:
    until = f"until {issued['expires_at']}" if issued["expires_at"] else "until it is revoked"
    display.note(
        f"{_scopes(issued)}; good {until}; shown this once; "
        f"'lading token revoke {issued['uuid']}' ends it"
    )


@token.command(name="list")
@click.option(
    "--for",
    "who",
    metavar="USER",
    help="List the tokens of this user instead of your own (admins only).",
)
@click.option(
    "--everybody",
    is_flag=True,
    help="List the tokens of all users, also of containers (admins only).",
)
@click.option("--expired", is_flag=True, help="List expired tokens, too.")
@display.with_json
def list_tokens(who: str | None, everybody: bool, expired: bool) -> display.Output:
    """List tokens, without their secrets, the ones used last at the end.

    The server stores the times of use once a minute: a token that was just made or used may seem
    unused for that long.
    """
    if who and everybody:
        raise click.UsageError("--everybody has no --for")

    async def action(session: CliSession) -> list[Record]:
        filters: list[list[object]] = []
        if not everybody:
            owner = (
                await find_user(session, who)
                if who
                else await session.api.request("GET", "users/current")
            )
            filters.append(["owner_uuid", "=", owner["uuid"]])
        pages = session.api.pages(_TOKENS, filters=filters, select=_SHOWN)
        return [record async for page in pages for record in page]

    now = format_time(datetime.now(UTC))
    tokens = [
        record for record in with_session(action) if expired or (record["expires_at"] or now) >= now
    ]
    tokens.sort(key=lambda record: record["last_used_at"] or record["created_at"])
    yield [_picked(record) for record in tokens]
    rows = (
        (
            record["uuid"],
            _day(record["created_at"]),
            _day(record["last_used_at"]),
            _end(record["expires_at"], now),
            _scopes(record),
        )
        for record in tokens
    )
    display.table(("UUID", "MADE", "USED", "EXPIRES", "MAY"), rows)


@token.command()
@click.argument("which", metavar="[TOKEN]", required=False)
@display.with_json
def show(which: str | None) -> display.Output:
    """Show TOKEN, by uuid or as it is sent; without it the one in use. The secret is never shown
    again.
    """
    uuid = None if which is None else _uuid(which)

    async def action(session: CliSession) -> Record:
        return await _current(session) if uuid is None else await session.api.get(_TOKENS, uuid)

    record = with_session(action)
    yield _picked(record)
    display.fields(
        (
            ("uuid", record["uuid"]),
            ("user", record["owner_uuid"]),
            ("may", "; ".join(record["scopes"]) or "nothing"),
            ("made", record["created_at"] or ""),
            ("used", record["last_used_at"] or ""),
            ("from", record["last_used_by_ip_address"] or ""),
            ("expires", record["expires_at"] or "never"),
        )
    )


@token.command()
@click.argument("tokens", nargs=-1, required=True, metavar="TOKEN...")
@click.option("--yes", is_flag=True, help="Revoke the token of this command, too.")
@display.with_json
def revoke(tokens: tuple[str, ...], yes: bool) -> display.Output:
    """End tokens at once, by uuid or as they are sent."""
    uuids = list(dict.fromkeys(map(_uuid, tokens)))

    async def action(session: CliSession) -> None:
        # All are looked up before the first is deleted, so that a mistake changes nothing.
        for uuid in uuids:
            try:
                await session.api.get(_TOKENS, uuid)
            except NotFound:
                raise NotFound(
                    f"{uuid}: no such token, or none of yours; none was revoked"
                ) from None
        if not yes and (await _current(session))["uuid"] in uuids:
            raise Invalid(
                "that is the token of this command, which would shut you out; "
                "add --yes if you mean it"
            )
        for uuid in uuids:
            await session.api.delete(_TOKENS, uuid)

    with_session(action)
    yield {"revoked": uuids}
    display.note(f"revoked {', '.join(uuids)}")


async def _current(session: CliSession) -> Record:
    found: Record = await session.api.request(
        "GET", f"{_TOKENS}/current", params={"select": list(_SHOWN)}
    )
    return found


def _uuid(identifier: str) -> str:
    """The uuid of a token that is given by its uuid or in its v2 form. Raises Invalid without
    repeating a secret.
    """
    parts = identifier.split("/")
    # v2/UUID/SECRET, possibly with a container's uuid as fourth part.
    uuid = parts[1] if len(parts) in (3, 4) and parts[0] == "v2" else identifier
    if not is_uuid(uuid, Infix.TOKEN):
        raise Invalid(
            "not a token: give its uuid, which 'lading token list' shows, or all of v2/UUID/SECRET"
        )
    return uuid


def _scopes(record: Record) -> str:
    scopes = list(record["scopes"])
    if "all" in scopes:
        return "all that its user may"
    if scopes == list(token_scopes.READ_ONLY):
        return "read only"
    listed = ", ".join(scope.replace(token_scopes.API, "") for scope in scopes) or "nothing"
    return listed if len(listed) <= _FEW else f"{listed[:_FEW]}... ({len(scopes)} scopes)"


def _day(moment: str | None) -> str:
    return moment[:10] if moment else "never"


def _end(moment: str | None, now: str) -> str:
    """When a token ends: with the time of day where that matters, within two days."""
    if moment is None:
        return "never"
    hours = (parse_time(moment) - parse_time(now)).total_seconds() / 3600
    return moment[:10] if hours > 48 else f"{moment[:16].replace('T', ' ')}Z"


def _picked(record: Record) -> Record:
    return {name: record.get(name) for name in _SHOWN}
