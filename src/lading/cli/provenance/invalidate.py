"""`lading invalidate`: withdraw results from reuse, with a reason, and list what was made from
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from lading.cli import display, references
from lading.cli.session import CliSession, with_session
from lading.client.provenance.withdrawal import (
    AffectedResult,
    change_all,
    made_from,
    results_from,
    results_of_request,
    withdrawn_results,
)
from lading.client.request_states import shown_container
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_pdh, is_uuid


@click.command()
@click.argument("source", metavar="REQUEST|COLLECTION|IMAGE")
@click.option("--reason", metavar="TEXT", help="Reason; others see it.")
@click.option(
    "--all",
    "with_derived",
    is_flag=True,
    help="Withdraw the results that were made from them, too.",
)
@click.option(
    "--for-me", "own", is_flag=True, help="For your own requests alone; others still use them."
)
@click.option("--undo", is_flag=True, help="Let the results be reused again.")
@click.option("--preview", is_flag=True, help="Show the effect, and do nothing.")
@display.with_json
def invalidate(
    source: str,
    reason: str | None,
    with_derived: bool,
    own: bool,
    undo: bool,
    preview: bool,
) -> display.Output:
    """Withdraw the result of a request, or all results made with a collection or an image.

    A withdrawn result is not reused. It stays readable. All results that were made from it are
    listed, and are marked wherever they are shown. You withdraw for all what ran for you, and with
    --for-me for your own requests whatever you can read. The exit code is 1 if you may not withdraw
    one of the results.
    """
    stripped_reason = (reason or "").strip()
    if bool(stripped_reason) == undo:
        raise click.UsageError("Give --reason TEXT, or --undo.")

    async def action(
        session: CliSession,
    ) -> tuple[list[AffectedResult], list[AffectedResult], list[AffectedResult]]:
        results = await _find(session, source, undo=undo and not own)
        further = await made_from(session.api, results)
        if with_derived:
            results, further = results + further, []
        # Results that did not end well are never reused.
        results = [result for result in results if result.container["state"] == "Complete"]
        if preview:
            return results, [], further
        done, refused = await change_all(session.api, results, reason=stripped_reason, own=own)
        return done, refused, further

    done, refused, further = with_session(action)
    document = {"changed": done, "refused": refused, "made_from_them": further}
    documents = {name: _documents(some) for name, some in document.items()}
    yield display.Conclusion(documents, 1 if refused else 0)
    verb = ("would be " if preview else "") + ("restored" if undo else "withdrawn")
    _show(verb, done)
    _show("made from them", further)
    for result in refused:
        advice = "" if undo else "; --for-me withdraws it for your own requests"
        display.note(f"{result.container['uuid']}: you may not change this result for all{advice}")
    if not done and not refused:
        display.note("there is no such result")


async def _find(session: CliSession, subject: str, *, undo: bool) -> list[AffectedResult]:
    reference = references.need_reference(subject)
    if reference.path:
        raise Invalid(f"{subject}: name a collection, not a file in it")
    name = reference.name
    if is_uuid(name, Infix.CONTAINER):
        raise Invalid(f"{subject}: name a request that has this container")
    if not is_pdh(name) and not is_uuid(name, Infix.COLLECTION):
        image = await _image(session, name)
        if not image:
            request = await references.find_request(session, name)
            named = withdrawn_results if undo else results_of_request
            return await named(session.api, request)
        name = image
    record = await references.find_collection(session, references.FileReference(name))
    return await results_from(session.api, str(record["portable_data_hash"]))


async def _image(session: CliSession, name: str) -> str:
    """The portable data hash of the image, or the uuid of the collection, of this name; "" if a
    request has it.
    """
    if is_uuid(name) or name == references.LAST:
        return ""
    # Imported here: results are mostly named by their request.
    from lading.client.images.links import list_images

    for stored in await list_images(session.api):
        if name in stored.names:
            return stored.pdh
    user = await session.api.get("users", "current")
    filters = [["owner_uuid", "=", user["uuid"]], ["name", "=", name]]
    found = await session.api.list("collections", filters=filters, select=["uuid"], limit=1)
    return str(found[0]["uuid"]) if found else ""


def _show(title: str, results: Sequence[AffectedResult]) -> None:
    if not results:
        return
    click.echo(f"{title}:")
    display.table(
        ("NAME", "REQUEST", "CONTAINER", "STATE"),
        [
            (
                display.shorten(result.name, 30),
                str(result.request["uuid"]) if result.request else "",
                str(result.container["uuid"]),
                shown_container(result.container),
            )
            for result in results
        ],
    )


def _documents(results: Sequence[AffectedResult]) -> list[dict[str, Any]]:
    return [
        {
            "name": result.name,
            "request": result.request["uuid"] if result.request else None,
            "container": result.container["uuid"],
            "state": result.container["state"],
        }
        for result in results
    ]
