"""`lading user`: create, list, show, change, deactivate, activate and delete users."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from lading.cli import display
from lading.cli.session import CliSession, with_session
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid

if TYPE_CHECKING:
    from lading.client.api import Record

_SHOWN: Final = (
    "uuid",
    "username",
    "email",
    "first_name",
    "last_name",
    "is_active",
    "is_admin",
    "created_at",
)


@click.group()
def user() -> None:
    """Make, list, show, change and deactivate users. All but show and list need an admin's token.

    USER is a name, an e-mail address or a uuid. 'lading share' gives a user access to data, 'lading
    token' gives a program access for a user.
    """


@user.command()
@click.argument("name")
@click.option(
    "--email", metavar="ADDRESS", help="Their e-mail address, which 'lading share' takes too."
)
@click.option("--first-name", metavar="TEXT", default="", help="First name, for display.")
@click.option("--last-name", metavar="TEXT", default="", help="Last name, for display.")
@click.option("--admin", "is_admin", is_flag=True, help="Make the user an admin.")
@click.option(
    "--inactive", is_flag=True, help="Refuse all calls of the user until 'lading user activate'."
)
@display.with_json
def create(
    name: str,
    email: str | None,
    first_name: str,
    last_name: str,
    is_admin: bool,
    inactive: bool,
) -> display.Output:
    """Make a user called NAME; print the uuid.

    Users log in with a token: 'lading token create --for NAME' makes one.
    """
    attributes = {
        "username": name,
        "email": email,
        "first_name": first_name,
        "last_name": last_name,
        "is_admin": is_admin,
        "is_active": not inactive,
    }

    async def action(session: CliSession) -> Record:
        return await session.api.create("users", attributes)

    made = with_session(action)
    yield _picked(made)
    click.echo(made["uuid"])
    display.note(
        f"{name} has no token yet; 'lading token create --for {shlex.quote(name)} --all' "
        "makes one that may do all they may"
    )


@user.command(name="list")
@click.option("--inactive", is_flag=True, help="List deactivated users only.")
@display.with_json
def list_users(inactive: bool) -> display.Output:
    """List the users that you can see, by name."""
    filters = [["is_active", "=", False]] if inactive else []

    async def action(session: CliSession) -> list[Record]:
        users = [
            record async for page in session.api.pages("users", filters=filters) for record in page
        ]
        return sorted(users, key=lambda record: (record.get("username") or "", record["uuid"]))

    users = with_session(action)
    yield [_picked(record) for record in users]
    rows = (
        (record.get("username") or "", record.get("email") or "", _state(record), record["uuid"])
        for record in users
    )
    display.table(("NAME", "EMAIL", "STATE", "UUID"), rows)


@user.command()
@click.argument("who", metavar="[USER]", required=False)
@display.with_json
def show(who: str | None) -> display.Output:
    """Show a user, yourself unless one is named."""

    async def action(session: CliSession) -> Record:
        if who is None:
            current: Record = await session.api.request("GET", "users/current")
            return current
        return await find_user(session, who)

    record = with_session(action)
    yield _picked(record)
    name = " ".join(
        name_part for name_part in (record.get("first_name"), record.get("last_name")) if name_part
    )
    display.fields(
        (
            ("uuid", record["uuid"]),
            ("name", record.get("username") or ""),
            ("e-mail", record.get("email") or ""),
            ("full name", name),
            ("state", _state(record)),
            ("made", record.get("created_at") or ""),
        )
    )


@user.command()
@click.argument("who", metavar="USER")
@click.option("--name", metavar="NAME", help="A new name.")
@click.option("--email", metavar="ADDRESS", help="A new e-mail address.")
@click.option("--first-name", metavar="TEXT", help="First name, for display.")
@click.option("--last-name", metavar="TEXT", help="Last name, for display.")
@click.option(
    "--admin/--no-admin", "is_admin", default=None, help="Give or take the rights of an admin."
)
@display.with_json
def change(
    who: str,
    name: str | None,
    email: str | None,
    first_name: str | None,
    last_name: str | None,
    is_admin: bool | None,
) -> display.Output:
    """Change attributes of USER."""
    attributes = {
        "username": name,
        "email": email,
        "first_name": first_name,
        "last_name": last_name,
        "is_admin": is_admin,
    }
    changes = {key: value for key, value in attributes.items() if value is not None}
    if not changes:
        raise click.UsageError("name an attribute to change, for example --email ADDRESS")
    yield from _change(who, changes, "changed")


@user.command()
@click.argument("who", metavar="USER")
@display.with_json
def activate(who: str) -> display.Output:
    """Activate USER, for the first time or again."""
    yield from _change(who, {"is_active": True}, "active")


@user.command()
@click.argument("who", metavar="USER")
@click.option(
    "--revoke", is_flag=True, help="End their tokens and permissions too, which do not come back."
)
@display.with_json
def deactivate(who: str, revoke: bool) -> display.Output:
    """Deactivate USER: their tokens are refused at once, and work again after 'lading user
    activate'.
    """
    if not revoke:
        yield from _change(who, {"is_active": False}, "inactive; their tokens are refused")
        return

    async def action(session: CliSession) -> Record:
        found = await find_user(session, who)
        await session.api.action("users", found["uuid"], "unsetup")
        return await session.api.get("users", found["uuid"])

    yield from _tell(
        who,
        with_session(action),
        "inactive; their tokens and permissions have ended",
    )


@user.command()
@click.argument("who", metavar="USER")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@display.with_json
def delete(who: str, yes: bool) -> display.Output:
    """Delete USER and their tokens. Their records stay and are visible to admins. 'deactivate' can
    be undone, this cannot.
    """

    async def find(session: CliSession) -> Record:
        return await find_user(session, who)

    found = with_session(find)
    if not yes:
        display.confirm(f"delete user {found.get('username') or found['uuid']} ({found['uuid']})?")

    async def action(session: CliSession) -> Record:
        return await session.api.delete("users", found["uuid"])

    yield from _tell(who, with_session(action), "deleted")


async def find_user(session: CliSession, who: str) -> Record:
    """The user with a name, an e-mail address or a uuid. Raises NotFound, Invalid when several have
    it.
    """
    if is_uuid(who, Infix.USER):
        return await session.api.get("users", who)
    if is_uuid(who):
        raise Invalid(f"{who}: is not the uuid of a user")
    field = "email" if "@" in who else "username"
    # Two are enough to see that the name is ambiguous.
    matches = await session.api.list("users", filters=[[field, "=", who]], limit=2)
    if not matches:
        raise NotFound(
            f"{who}: no user is called so; 'lading user list' has those that you can see"
        )
    if len(matches) > 1:
        raise Invalid(f"{who}: several users are called so; give the uuid")
    return matches[0]


def _change(who: str, changes: Record, outcome: str) -> display.Output:
    async def action(session: CliSession) -> Record:
        found = await find_user(session, who)
        return await session.api.update("users", found["uuid"], changes)

    yield from _tell(who, with_session(action), outcome)


def _tell(who: str, record: Record, outcome: str) -> display.Output:
    yield _picked(record)
    display.note(f"{who}: {outcome}")


def _picked(record: Record, names: Iterable[str] = _SHOWN) -> Record:
    return {name: record.get(name) for name in names}


def _state(record: Record) -> str:
    if not record.get("is_active"):
        return "inactive"
    return "admin" if record.get("is_admin") else "active"
