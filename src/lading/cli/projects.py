"""`lading project`: create, list, show, rename, move, trash and restore projects.

Source: docs/spec/api, section Records (groups of the class `project`). The users' page is
docs/sharing.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from lading.cli import display
from lading.cli.files.sharing import share, unshare
from lading.cli.options import PROPERTY, RETRY
from lading.cli.references import find_project
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.containers.attempts.retry_rules import read_container_policy, show_rule
from lading.core.errors import Conflict, Invalid, NotFound, RequestError
from lading.core.ids import Infix, is_uuid
from lading.core.runs.attempts import is_run

_FIELDS = (
    "uuid",
    "name",
    "description",
    "properties",
    "container_policy",
    "owner_uuid",
    "created_at",
    "trash_at",
    "delete_at",
)
# As many as the server gives in one answer, so that there are few calls.
_PAGE = 1000
# Unprocessable: the API refuses the attributes.
_REFUSED = 422


@click.group()
def project() -> None:
    """Create, list, show, rename, move, share and trash projects.

    PROJECT is a uuid, a name, or a path of names as thesis/figures. Requests and collections go
    into one with --project.
    """


@project.command()
@click.argument("name")
@click.option("--in", "parent", metavar="PROJECT", help="Make it in this project.")
@click.option("--description", help="Description of its purpose.")
@click.option(
    "--property",
    "properties",
    type=PROPERTY,
    multiple=True,
    metavar="K=V",
    help="Property of the project.",
)
@display.with_json
def create(
    name: str,
    parent: str | None,
    description: str | None,
    properties: tuple[tuple[str, Any], ...],
) -> display.Output:
    """Make a project called NAME; print the uuid.

    NAME may begin with the projects that it goes into: thesis/figures.
    """
    before, separator, own = name.rstrip("/").rpartition("/")
    if separator and parent is not None:
        raise click.UsageError("give --in PROJECT, or a NAME with a path; not both")
    place = parent if parent is not None else before or None

    async def action(session: CliSession) -> Record:
        attributes = {
            "group_class": "project",
            "name": own,
            "description": description,
            "properties": dict(properties),
        }
        if place is not None:
            attributes["owner_uuid"] = await find_project(session, place)
        return await _create(session, attributes, "your home" if place is None else place)

    made = with_session(action)
    yield _picked(made)
    click.echo(made["uuid"])


async def _create(session: CliSession, attributes: Mapping[str, Any], where: str) -> Record:
    """Create a project. Raises Conflict when there is one of its name, naming its place `where`."""
    try:
        return await session.api.create("groups", attributes)
    except RequestError as error:
        if error.status == _REFUSED and "duplicate key" in error.message:
            name = attributes["name"]
            text = f"{name}: a project of this name is there already, in {where}"
            raise Conflict(text) from error
        raise


@project.command(name="list")
@click.option("--in", "parent", metavar="PROJECT", help="List projects in this project only.")
@click.option("--mine", is_flag=True, help="List projects in your home only.")
@click.option("--trashed", is_flag=True, help="List the projects in the trash.")
@click.option("--runs", "with_runs", is_flag=True, help="List runs of pipelines too.")
@display.with_json
def list_projects(parent: str | None, mine: bool, trashed: bool, with_runs: bool) -> display.Output:
    """List the projects that you can read, by path. Runs of pipelines, which are projects too, are
    left out but for those in the trash: 'lading runs' lists them.

    With fair share SHARE is the weight of a project, and USED what it has used lately: 2.0 times
    is twice its part of all use.
    """
    if parent is not None and mine:
        raise click.UsageError("give --in PROJECT or --mine")

    async def action(
        session: CliSession,
    ) -> tuple[list[Record], dict[str, str], dict[str, Record] | None]:
        filters: list[Any] = [["group_class", "=", "project"]]
        if trashed:
            filters.append(["is_trashed", "=", True])
        if parent is not None:
            filters.append(["owner_uuid", "=", await find_project(session, parent)])
        elif mine:
            user = await session.api.get("users", "current")
            filters.append(["owner_uuid", "=", str(user["uuid"])])
        pages = session.api.pages("groups", filters=filters, size=_PAGE, include_trash=trashed)
        is_shown = with_runs or trashed
        projects = [
            record
            async for page in pages
            for record in page
            if is_shown or not is_run(record["properties"])
        ]
        return projects, await _owners(session, projects), await _shares(session)

    projects, owners, shares = with_session(action)
    yield [{**_picked(record), **_share_of(record, shares)} for record in projects]
    now, by_uuid = datetime.now(UTC), {record["uuid"]: record for record in projects}
    rows = sorted(
        (
            (
                record["uuid"],
                display.age(record["created_at"], now),
                owners.get(record["owner_uuid"], ""),
                *(() if shares is None else _use_cells(record, shares)),
                path_of(record, by_uuid),
            )
            for record in projects
        ),
        key=lambda row: row[-1],
    )
    use = () if shares is None else ("SHARE", "USED")
    display.table(("UUID", "AGE", "IN", *use, "PROJECT"), rows, optional=("AGE", "USED"))


@project.command()
@click.argument("reference", metavar="PROJECT")
@display.with_json
def show(reference: str) -> display.Output:
    """Show a project and how much is in it."""

    async def action(session: CliSession) -> tuple[Record, dict[str, int], dict[str, str]]:
        record = await _get(session, reference)
        inside = [["owner_uuid", "=", record["uuid"]]]
        counts = {
            "projects": await _count(session, "groups", [*inside, ["group_class", "=", "project"]]),
            "collections": await _count(session, "collections", inside),
            "requests": await _count(session, "container_requests", inside),
        }
        return record, counts, await _owners(session, [record])

    record, counts, owners = with_session(action)
    yield {**_picked(record), **counts}
    owner = owners.get(record["owner_uuid"], "")
    display.fields(
        (
            ("uuid", record["uuid"]),
            ("name", record["name"]),
            ("description", record["description"] or ""),
            ("in", f"{record['owner_uuid']}{f' ({owner})' if owner else ''}"),
            ("made", record["created_at"]),
            ("properties", ", ".join(f"{k}={v}" for k, v in record["properties"].items())),
            ("frozen", "yes" if record.get("frozen_by_uuid") else ""),
            *_rules_of(record),
            *((name, str(count)) for name, count in counts.items()),
        )
    )


@project.command()
@click.argument("reference", metavar="PROJECT")
@click.argument("name", metavar="NAME")
@display.with_json
def rename(reference: str, name: str) -> display.Output:
    """Call PROJECT by a new NAME."""
    yield from _change(reference, f"is called {name} now", lambda _: _constant({"name": name}))


@project.command()
@click.argument("reference", metavar="PROJECT")
@click.argument("target", metavar="[TARGET]", required=False)
@display.with_json
def move(reference: str, target: str | None) -> display.Output:
    """Move PROJECT, with all that is in it, into the project TARGET, or to your home."""

    async def changes(session: CliSession) -> Record:
        if target is not None:
            return {"owner_uuid": await find_project(session, target)}
        return {"owner_uuid": (await session.api.get("users", "current"))["uuid"]}

    yield from _change(reference, f"is in {target or 'your home'} now", changes)


@project.command()
@click.argument("reference", metavar="PROJECT")
@click.argument("rules", nargs=-1, type=RETRY, metavar="[CLASS=RULE]...")
@click.option("--remove", multiple=True, metavar="CLASS", help="Take the rule of a class away.")
@display.with_json
def retry(
    reference: str, rules: tuple[tuple[str, Record], ...], remove: tuple[str, ...]
) -> display.Output:
    """Show or set the rules for retries of requests in PROJECT and in the projects below it.

    CLASS is that of the failure: user, oom, disk, image, input, node, preempted, timeout or
    infrastructure. RULE is a number of retries, and after commas a delay, and for oom and disk a
    factor for the next attempt and the most that it may get. Rules of a request come first.

    \b
    lading project retry thesis oom=3,factor=2,most=64GiB node=5,delay=1m
    """

    async def action(session: CliSession) -> Record:
        record = await _get(session, reference)
        policy = dict(record.get("container_policy") or {})
        retry_rules = {**(policy.get("retry") or {}), **dict(rules)}
        retry_rules = {name: rule for name, rule in retry_rules.items() if name not in remove}
        if not rules and not remove:
            return record
        changes = {"container_policy": {**policy, "retry": retry_rules}}
        return await session.api.update("groups", record["uuid"], changes)

    record = with_session(action)
    yield {"uuid": record["uuid"], **(record.get("container_policy") or {})}
    shown = _rules_of(record)
    if shown:
        display.fields(shown)
    else:
        display.note(
            f"{record['name']}: no rules; those of the projects above and of the site hold"
        )


@project.command(name="weight")
@click.argument("reference", metavar="PROJECT")
@click.argument("number", metavar="[NUMBER]", type=float, required=False)
@click.option("--remove", is_flag=True, help="Take the weight away.")
@display.with_json
def weight_of(reference: str, number: float | None, remove: bool) -> display.Output:
    """Show or set the weight of PROJECT for fair share, and show what it has used.

    NUMBER is 0.1 to 1000; only admins set it. Of requests of equal priority a project of weight 2
    gets twice as much as one of weight 1. Projects below one with a weight share it; without one
    the topmost project counts, with weight 1.
    """
    if remove and number is not None:
        raise click.UsageError("give NUMBER or --remove")

    async def action(session: CliSession) -> tuple[Record, dict[str, Record] | None]:
        record = await _get(session, reference)
        if remove or number is not None:
            policy = dict(record.get("container_policy") or {})
            policy.pop("share", None)
            if number is not None:
                policy["share"] = number
            changes = {"container_policy": policy}
            record = await session.api.update("groups", record["uuid"], changes)
        return record, await _shares(session)

    record, shares = with_session(action)
    share_fields = _share_of(record, shares)
    yield {"uuid": record["uuid"], **share_fields}
    own = (record.get("container_policy") or {}).get("share")
    use = share_fields.get("share_use")
    display.fields(
        (
            ("weight", f"{own:g}" if own is not None else "none of its own"),
            ("used", f"{use['used_vcpu_hours']:.2f} VCPU hours lately" if use else ""),
            ("of its share", f"{use['times_its_share']:.1f} times" if use else ""),
            ("containers", f"{use['held']} at work, {use['waiting']} wait" if use else ""),
        )
    )
    if shares is None:
        display.note("fair share is off (Containers.FairShare), so weights have no effect")


@project.command()
@click.argument("reference", metavar="PROJECT")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@display.with_json
def trash(reference: str, yes: bool) -> display.Output:
    """Put PROJECT into the trash, with all that is in it. Its requests that run are stopped."""
    record = with_session(lambda session: _get(session, reference))
    if not yes:
        display.confirm(f"trash {record['name']} ({record['uuid']}) with all that is in it?")
    gone = with_session(lambda session: session.api.delete("groups", record["uuid"]))
    yield _picked(gone)
    display.note(
        f"{gone['uuid']} ({gone['name']}) is in the trash until {gone['delete_at']};"
        f" 'lading project restore {gone['uuid']}' takes it out"
    )


@project.command()
@click.argument("reference", metavar="PROJECT")
@display.with_json
def restore(reference: str) -> display.Output:
    """Take PROJECT out of the trash, with all that is in it."""

    async def action(session: CliSession) -> Record:
        uuid = reference
        if not is_uuid(reference, Infix.GROUP):
            filters = [["name", "=", reference], ["is_trashed", "=", True]]
            matches = await session.api.list("groups", filters=filters, limit=2, include_trash=True)
            if not matches:
                raise NotFound(f"{reference}: no project in the trash is called so")
            if len(matches) > 1:
                raise Invalid(
                    f"{reference}: several projects in the trash are called so; give the uuid, "
                    "see 'lading project list --trashed'"
                )
            uuid = str(matches[0]["uuid"])
        answer: Record = await session.api.action(
            "groups", uuid, "untrash", body={"ensure_unique_name": True}
        )
        return answer

    back = with_session(action)
    yield _picked(back)
    display.note(f"{back['uuid']} ({back['name']}) is back")


# The same commands as for collections, where a user looks for them.
project.add_command(share)
project.add_command(unshare)


def _rules_of(record: Record) -> list[tuple[str, str]]:
    """Class and rule of each rule for retries of a project."""
    rules = read_container_policy(record.get("container_policy"))
    return [(f"retry {name}", show_rule(rule)) for name, rule in rules.items()]


async def _shares(session: CliSession) -> dict[str, Record] | None:
    """The use of shares, by uuid; None where fair share is off."""
    try:
        answer = await session.api.request("GET", "fair_shares")
    except NotFound:
        # A server of an earlier release.
        return None
    if not answer["enabled"]:
        return None
    return {share["uuid"]: share for share in answer["items"]}


def _share_of(record: Record, shares: Mapping[str, Record] | None) -> Record:
    """Weight and use of a project, as JSON; empty where fair share is off."""
    if shares is None:
        return {}
    weight = (record.get("container_policy") or {}).get("share")
    return {"share": weight, "share_use": shares.get(record["uuid"])}


def _use_cells(record: Record, shares: Mapping[str, Record]) -> tuple[str, str]:
    """The cells of a project's weight and use in a table."""
    share_fields = _share_of(record, shares)
    use, weight = share_fields["share_use"], share_fields["share"]
    shown = use["weight"] if weight is None and use else weight
    return (
        f"{shown:g}" if shown is not None else "",
        f"{use['times_its_share']:.1f} times" if use else "",
    )


def path_of(record: Record, by_uuid: dict[str, Record]) -> str:
    """The names of a project and of the projects above it, as far as they are known."""
    names, visited = [str(record["name"])], {record["uuid"]}
    above = by_uuid.get(record["owner_uuid"])
    while above is not None and above["uuid"] not in visited:
        names.append(str(above["name"]))
        visited.add(above["uuid"])
        above = by_uuid.get(above["owner_uuid"])
    return "/".join(reversed(names))


async def _get(session: CliSession, name: str) -> Record:
    uuid = await find_project(session, name)
    if not is_uuid(uuid, Infix.GROUP):
        raise Invalid(f"{name}: is a user; see 'lading user show'")
    return await session.api.get("groups", uuid)


async def _count(session: CliSession, plural: str, filters: list[Any]) -> int:
    answer = await session.api.request(
        "GET", plural, params={"filters": filters, "limit": 0, "count": "exact"}
    )
    return int(answer["items_available"])


async def _owners(session: CliSession, records: list[Record]) -> dict[str, str]:
    """Names of the users and projects that projects are in, by uuid."""
    uuids = sorted({record["owner_uuid"] for record in records})
    names: dict[str, str] = {}
    for plural, field in (("users", "username"), ("groups", "name")):
        rows = await session.api.list(
            plural, filters=[["uuid", "in", uuids]], select=["uuid", field], limit=_PAGE
        )
        names |= {row["uuid"]: row[field] or "" for row in rows}
    return names


def _change(
    name: str,
    outcome: str,
    changes: Callable[[CliSession], Awaitable[Record]],
) -> display.Output:
    async def action(session: CliSession) -> Record:
        record = await _get(session, name)
        return await session.api.update("groups", record["uuid"], await changes(session))

    changed = with_session(action)
    yield _picked(changed)
    display.note(f"{changed['uuid']} {outcome}")


async def _constant(value: Record) -> Record:
    return value


def _picked(record: Record) -> Record:
    return {name: record.get(name) for name in _FIELDS}
