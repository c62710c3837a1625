"""`lading trash` and `undelete`: move collections to the trash and back."""

from __future__ import annotations

import click

from lading.cli import display, references
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid

_FIELDS = (
    "uuid",
    "name",
    "portable_data_hash",
    "file_count",
    "file_size_total",
    "trash_at",
    "delete_at",
)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="COLLECTION...")
@display.json_option
def trash(sources: tuple[str, ...], as_json: bool) -> None:
    """Move collections to the trash. They can be restored until they are deleted."""
    given = [references.need_reference(source) for source in sources]
    for one in given:
        if one.path:
            raise click.UsageError(
                f"'lading rm {one.name}/{one.path}' takes files out of a collection"
            )

    async def action(session: CliSession) -> list[Record]:
        # All are looked up before the first is changed, so that a mistake changes nothing.
        records = [await references.find_record(session, one) for one in given]
        return [await session.api.delete("collections", record["uuid"]) for record in records]

    records = with_session(action)
    if as_json:
        display.emit_json([{name: record[name] for name in _FIELDS} for record in records])
        return
    for record in records:
        display.note(
            f"{record['uuid']} ({record['name']}) is in the trash until {record['delete_at']};"
            f" 'lading undelete {record['uuid']}' takes it out"
        )


@click.command()
@click.argument("uuids", nargs=-1, metavar="UUID...")
@display.json_option
def undelete(uuids: tuple[str, ...], as_json: bool) -> None:
    """Restore collections from the trash; without a UUID, list the trash.

    If its name is in use by now, the restored collection has the date in its name.
    """
    for uuid in uuids:
        if not is_uuid(uuid, Infix.COLLECTION):
            raise Invalid(
                f"{uuid}: not the uuid of a collection; 'lading undelete' says what is in the trash"
            )

    async def action(session: CliSession) -> list[Record]:
        if not uuids:
            return await session.api.list(
                "collections",
                filters=[["is_trashed", "=", True]],
                order=["trash_at desc"],
                select=_FIELDS,
                limit=1000,
                include_trash=True,
            )
        return [await _untrash(session, uuid) for uuid in uuids]

    records = with_session(action)
    if as_json:
        display.emit_json([{name: record[name] for name in _FIELDS} for record in records])
    elif uuids:
        for record in records:
            display.note(f"{record['uuid']} ({record['name']}) is back")
    else:
        display.table(
            ("UUID", "FILES", "SIZE", "DELETED", "NAME"),
            (
                (
                    record["uuid"],
                    str(record["file_count"]),
                    display.size(record["file_size_total"]),
                    record["delete_at"],
                    display.shorten(record["name"] or ""),
                )
                for record in records
            ),
        )


async def _untrash(session: CliSession, uuid: str) -> Record:
    answer: Record = await session.api.action(
        "collections", uuid, "untrash", body={"ensure_unique_name": True}
    )
    return answer
