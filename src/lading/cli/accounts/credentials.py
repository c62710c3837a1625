"""`lading credential`: keys and passwords for servers of inputs and outputs of GA4GH tasks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import MOMENT
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.quantities import format_time, later
from lading.core.tes.credentials import BASIC, BEARER, CLASSES, S3, parse_scope
from lading.core.tes.locations import encode

_CREDENTIALS: Final = "credentials"
# Seconds until a credential ends, unless it says so: the API wants an end.
_YEAR: Final = 365 * 86400.0
_MAX_SECRET: Final = 1 << 16
_SHOWN: Final = ("uuid", "name", "credential_class", "scopes", "external_id", "expires_at")


@click.group()
def credential() -> None:
    """Set, list and remove keys and passwords for servers outside.

    The server uses them for inputs and outputs of your GA4GH tasks. A secret is stored encrypted
    and never shown again. For a URL, the credential with the longest beginning of it is used.
    """


@credential.command(name="set")
@click.argument("name")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--key", "external_id", metavar="ID", help="Access key id, or user name.")
@click.option("--bearer", is_flag=True, help="The secret is a token, sent as Bearer.")
@click.option("--endpoint", metavar="URL", help="Service of the buckets, if it is not AWS.")
@click.option("--region", metavar="NAME", help="Region of the buckets (us-east-1).")
@click.option(
    "--style",
    type=click.Choice(("path", "virtual")),
    help="Part of a request that names the bucket.",
)
@click.option(
    "--expires",
    type=MOMENT,
    metavar="WHEN",
    help="End of the credential: 30d or a date (in a year).",
)
@display.with_json
def set_credential(
    name: str,
    urls: tuple[str, ...],
    external_id: str | None,
    bearer: bool,
    endpoint: str | None,
    region: str | None,
    style: str | None,
    expires: str | None,
) -> display.Output:
    """Store the secret for URLs, such as s3://BUCKET or https://HOST/PATH, under NAME.

    The secret is read from standard input, or asked for. A credential of this name is replaced.

    \b
    lading credential set minio s3://data --key AKIA... --endpoint https://minio.example:9000 <key
    lading credential set archive https://archive.example/private --bearer <token
    """
    kind = BEARER if bearer else S3 if urls[0].startswith("s3:") else BASIC
    scopes = _scopes(urls, kind, {"endpoint": endpoint, "region": region, "style": style})
    if external_id is None and not bearer:
        raise click.UsageError("--key: give the access key id, or the user name")
    attributes: Record = {
        "name": name,
        "credential_class": kind,
        "scopes": scopes,
        "external_id": external_id or "token",
        "secret": _read_secret(),
        "expires_at": expires or later(format_time(datetime.now(UTC)), _YEAR),
    }

    async def action(session: CliSession) -> Record:
        # Replaced in place: its uuid stays.
        existing = [record for record in await _mine(session) if record["name"] == name]
        if existing:
            return await session.api.update(_CREDENTIALS, existing[0]["uuid"], attributes)
        return await session.api.create(_CREDENTIALS, attributes)

    stored = with_session(action)
    yield _picked(stored)
    click.echo(stored["uuid"])
    display.note(f"{name}: stored for {', '.join(urls)} until {stored['expires_at']}")


def _scopes(urls: Sequence[str], kind: str, options: Mapping[str, str | None]) -> list[str]:
    """The URLs with the options of their buckets as a query. Raises UsageError, Invalid."""
    query = [f"{option}={encode(value)}" for option, value in options.items() if value]
    if query and kind != S3:
        raise click.UsageError("--endpoint, --region and --style are for s3:// URLs")
    # Each URL carries the options of its bucket (`core.tes.credentials`).
    scopes = [url + ("?" + "&".join(query) if query else "") for url in urls]
    for scope in scopes:
        parse_scope(scope, kind)
    return scopes


@credential.command(name="list")
@display.with_json
def list_credentials() -> display.Output:
    """List the credentials that you can read, without their secrets."""
    credentials = with_session(_mine)
    yield [_picked(record) for record in credentials]
    rows = (
        (
            record["name"],
            record["credential_class"],
            record["external_id"],
            record["expires_at"][:10],
            " ".join(record["scopes"]),
        )
        for record in credentials
    )
    display.table(("NAME", "CLASS", "KEY", "EXPIRES", "FOR"), rows)


@credential.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@display.with_json
def remove(names: tuple[str, ...]) -> display.Output:
    """Remove credentials, by name or uuid."""

    async def action(session: CliSession) -> list[str]:
        credentials = await _mine(session)
        # All are looked up before the first is removed, so that a mistake changes nothing.
        uuids = [_uuid(name, credentials) for name in names]
        for uuid in uuids:
            await session.api.delete(_CREDENTIALS, uuid)
        return uuids

    removed = with_session(action)
    yield {"removed": removed}
    display.note(f"removed {', '.join(names)}")


async def _mine(session: CliSession) -> list[Record]:
    filters = [["credential_class", "in", list(CLASSES)]]
    pages = session.api.pages(_CREDENTIALS, filters=filters, select=_SHOWN)
    credentials = [record async for page in pages for record in page]
    return sorted(credentials, key=lambda record: str(record["name"]))


def _uuid(name: str, credentials: list[Record]) -> str:
    if is_uuid(name, Infix.CREDENTIAL):
        return name
    for record in credentials:
        if record["name"] == name:
            return str(record["uuid"])
    raise NotFound(f"{name}: no such credential; 'lading credential list' shows yours")


def _read_secret() -> str:
    """The secret, without the line feed at its end. Raises Invalid."""
    if sys.stdin.isatty():
        return str(click.prompt("Secret", hide_input=True, err=True))
    text = sys.stdin.read(_MAX_SECRET).rstrip("\r\n")
    if not text:
        raise Invalid("no secret came on standard input; for example: <FILE")
    return text


def _picked(record: Record) -> dict[str, Any]:
    return {name: record[name] for name in _SHOWN}
