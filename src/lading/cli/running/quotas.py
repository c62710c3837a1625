"""`lading quota`: limits on what users, roles, projects and trees of requests may use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.accounts.users import find_user
from lading.cli.references import find_project, find_request
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.quota_kinds import subject_kinds
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.policy import descriptions
from lading.core.policy.limit_texts import read_limit
from lading.core.policy.quotas import Limit

_QUOTAS: Final = "quotas"
_OPTIONS: Final = {Limit.BYTES: "stored"}
_HEADINGS: Final = ("SUBJECT", "KIND", "LIMIT", "USED", "OF", "USE")
# Quotas whose use one call gives.
_BATCH: Final = 200


@click.group()
def quota() -> None:
    """Limit what a user, a role, a project or a tree of requests may use, and show the use.

    SUBJECT is a uuid or a name: of a user (or an e-mail address), a project or a role. Where
    several are called so, write user:NAME, project:NAME or role:NAME; request:NAME, or
    `request:last`, is a request with all that it leads to. Admins set limits; you see those that
    concern you.
    """


@quota.command(name="set")
@click.argument("subject")
@click.option("--containers", metavar="N", help="Containers that run at a time.")
@click.option("--vcpus", metavar="N", help="VCPUs of running containers.")
@click.option("--ram", metavar="SIZE", help="RAM of running containers.")
@click.option("--gpus", metavar="N", help="GPUs of running containers.")
@click.option("--queued", metavar="N", help="Requests that wait; further ones are refused.")
@click.option("--stored", metavar="SIZE", help="Bytes in collections; more is refused.")
@click.option("--money", metavar="AMOUNT[/PERIOD]", help="Dollars a day, week or month (month).")
@click.option("--budget", metavar="AMOUNT", help="Dollars in all.")
@click.option(
    "--warn-at", type=click.FloatRange(0, 100, min_open=True), metavar="PERCENT",
    help="Percent of money or budget at which is warned (80).",
)  # fmt: skip
@click.option(
    "--stop/--no-stop", default=None,
    help="Stop what runs at the end of money or budget, too; else only nothing further starts.",
)  # fmt: skip
@click.option("--contact", metavar="TEXT", help="Whom to ask for more, for messages.")
@click.option("--name", metavar="TEXT", help="How messages name the subject.")
@display.with_json
def set_quota(subject: str, **options: Any) -> display.Output:
    """Set limits of SUBJECT; other limits stay as they are. `none` is no limit.

    \b
    lading quota set ada --containers 20 --vcpus 64 --ram 256GiB
    lading quota set project:thesis --money 200/month --warn-at 75
    lading quota set request:last --budget 50 --stop
    """
    attributes = _attributes(options)

    async def action(session: CliSession) -> tuple[Record, str]:
        uuid = await _find_subject(session, subject)
        quotas = await session.api.list(_QUOTAS, filters=[["subject_uuid", "=", uuid]], limit=1)
        if not quotas and not attributes:
            raise Invalid("no limit is given; see 'lading quota set --help'")
        if quotas:
            record = await session.api.update(_QUOTAS, quotas[0]["uuid"], attributes)
        else:
            record = await session.api.create(_QUOTAS, {**attributes, "subject_uuid": uuid})
        return record, await _kind(session, record)

    record, kind = with_session(action)
    yield _picked(record)
    display.note(f"the quota of {kind} {record['name']} is set")


def _attributes(options: dict[str, Any]) -> Record:
    attributes: Record = {}
    for limit in Limit:
        value = options.get(_OPTIONS.get(limit, limit.value))
        if value is not None:
            attributes |= read_limit(limit, value)
    if options["warn_at"] is not None:
        attributes["warn_share"] = options["warn_at"] / 100
    for name in ("stop", "contact", "name"):
        if options[name] is not None:
            attributes[name] = options[name]
    return attributes


@quota.command(name="list")
@display.with_json
def list_quotas() -> display.Output:
    """List the quotas that you can see, with their use."""

    async def action(session: CliSession) -> tuple[list[Record], list[str]]:
        pages = session.api.pages(_QUOTAS, select=descriptions.SHOWN)
        found = await _with_use(session, [record async for page in pages for record in page])
        return found, await subject_kinds(session.api, found)

    quotas, kinds = with_session(action)
    yield [_picked(record) for record in quotas]
    _print(quotas, kinds)


@quota.command()
@click.argument("subject")
@display.with_json
def show(subject: str) -> display.Output:
    """Show the limits of SUBJECT and their use."""

    async def action(session: CliSession) -> tuple[Record, str]:
        (record,) = await _with_use(session, [await _find(session, subject)])
        return record, await _kind(session, record)

    record, kind = with_session(action)
    yield _picked(record)
    _print([record], [kind])
    if record["money"] is not None or record["budget"] is not None:
        click.echo()
        at_end = "what runs is stopped" if record["stop"] else "what runs goes on"
        display.fields((("warned at", f"{record['warn_share']:.0%}"), ("at the end", at_end)))


@quota.command()
@click.argument("subject")
@display.with_json
def remove(subject: str) -> display.Output:
    """Remove all limits of SUBJECT."""

    async def action(session: CliSession) -> tuple[Record, str]:
        found = await _find(session, subject)
        gone = await session.api.delete(_QUOTAS, found["uuid"])
        return gone, await _kind(session, gone)

    found, kind = with_session(action)
    yield _picked(found)
    display.note(f"the quota of {kind} {found['name']} is removed")


async def _kind(session: CliSession, quota: Record) -> str:
    return (await subject_kinds(session.api, [quota]))[0]


def _print(quotas: Sequence[Record], kinds: Sequence[str]) -> None:
    rows = [
        (record["name"], kind, line.label, line.used, line.most, f"{line.bar} {line.share:.0%}")
        for record, kind in zip(quotas, kinds, strict=True)
        for line in descriptions.use_lines(record, record["use"])
    ]  # fmt: skip
    display.table(_HEADINGS, rows, optional=("KIND",))


async def _with_use(session: CliSession, quotas: list[Record]) -> list[Record]:
    uses: dict[str, Any] = {}
    for start in range(0, len(quotas), _BATCH):
        uuids = [record["uuid"] for record in quotas[start : start + _BATCH]]
        answer: Any = await session.api.action(_QUOTAS, None, "uses", method="GET", uuids=uuids)
        uses |= {row["uuid"]: row["use"] for row in answer["items"]}
    return [{**record, "use": uses.get(record["uuid"], {})} for record in quotas]


async def _find(session: CliSession, subject: str) -> Record:
    """The quota of a subject. Raises NotFound, Invalid."""
    if is_uuid(subject, Infix.QUOTA):
        return await session.api.get(_QUOTAS, subject)
    uuid = await _find_subject(session, subject)
    found = await session.api.list(_QUOTAS, filters=[["subject_uuid", "=", uuid]], limit=1)
    if not found:
        raise NotFound(f"{subject}: has no quota; 'lading quota list' shows those that you can see")
    return found[0]


async def _find_subject(session: CliSession, subject: str) -> str:
    """The uuid of a user, a project, a role or a request. Raises NotFound, Invalid."""
    kind, colon, name = subject.partition(":")
    if colon and kind == "user":
        return str((await find_user(session, name))["uuid"])
    if colon and kind == "project":
        return await find_project(session, name)
    if colon and kind == "request":
        return str((await find_request(session, name))["uuid"])
    if colon and kind == "role":
        return _only(name, await _groups(session, name, ["role"]))
    if is_uuid(subject):
        if infix_of(subject) not in (Infix.USER, Infix.GROUP, Infix.REQUEST):
            raise Invalid(f"{subject}: is not the uuid of a user, a project, a role or a request")
        return subject
    field = "email" if "@" in subject else "username"
    users = await session.api.list(
        "users", filters=[[field, "=", subject]], select=["uuid"], limit=2
    )
    return _only(subject, [*users, *await _groups(session, subject, ["project", "role"])])


async def _groups(session: CliSession, name: str, classes: list[str]) -> list[Record]:
    filters: list[Any] = [["group_class", "in", classes], ["name", "=", name]]
    return await session.api.list("groups", filters=filters, select=["uuid"], limit=3)


def _only(subject: str, matches: Sequence[Record]) -> str:
    if not matches:
        raise NotFound(
            f"{subject}: no user, project or role is called so; request:NAME names a request"
        )
    if len(matches) > 1:
        raise Invalid(
            f"{subject}: several users, projects or roles are called so; write user:{subject}, "
            f"project:{subject} or role:{subject}, or a uuid: "
            + ", ".join(str(match["uuid"]) for match in matches)
        )
    return str(matches[0]["uuid"])


def _picked(record: Record) -> Record:
    shown = {name: record.get(name) for name in descriptions.SHOWN}
    return shown | ({"use": record["use"]} if "use" in record else {})
