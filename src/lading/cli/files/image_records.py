"""`lading image show`, `share`, `unshare` and `remove`: the records of a stored image.

A user who may read the collection of an image finds it by its names (docs/spec/containers, section
Images). So an image is shared by a permission link on its collection, or with its project.
"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from lading.cli import display
from lading.cli.session import CliSession, with_session
from lading.client import sharing
from lading.client.api import Record
from lading.client.images.links import StoredImage, find_named, full_name, take_names
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.image_names import parse_reference

_LEVELS = ("read", "write", "manage")


async def _find(session: CliSession, name: str) -> StoredImage:
    """The image that this name, hash or collection means. Raises NotFound."""
    user = await session.api.get("users", "current")
    image, stored_name = await find_named(session.api, name, str(user["uuid"]))
    if stored_name and stored_name != full_name(name):
        display.note(f"image {name} is {stored_name}")
    return image


@click.command()
@click.argument("image")
@display.with_json
def show(image: str) -> display.Output:
    """Show an image: its names, its size, its project, and who may use it.

    IMAGE is a name, a hash or a collection.
    """

    async def action(session: CliSession) -> tuple[StoredImage, list[Record], dict[str, str]]:
        stored = await _find(session, image)
        people = await sharing.names_of(session.api, [stored.owner_uuid, stored.added_by])
        try:
            links = await sharing.list_permissions(session.api, stored.collection_uuid)
        except NotFound:
            links = []
        return stored, links, people

    stored, links, people = with_session(action)
    from msgspec import structs

    yield {**structs.asdict(stored), "access": links}
    owner = people.get(stored.owner_uuid, stored.owner_uuid)
    is_project = is_uuid(stored.owner_uuid, Infix.GROUP)
    added = f"{display.age(stored.added_at, datetime.now(UTC))} ago"
    rows = [
        ("image", stored.digest),
        *(("name", name) for name in stored.names),
        ("size", display.size(stored.size)),
        ("added", f"{added} by {people.get(stored.added_by, stored.added_by)}"),
        ("project" if is_project else "owner", owner),
        ("collection", stored.collection_uuid),
        ("content", stored.pdh),
        *(("shared", f"{link['who'] or link['tail_uuid']} may {link['can']}") for link in links),
    ]
    display.table(("WHAT", "VALUE"), rows)


@click.command()
@click.argument("image")
@click.argument("who")
@click.option(
    "--can",
    type=click.Choice(_LEVELS),
    default="read",
    show_default=True,
    help="Level of the access.",
)
@display.with_json
def share(image: str, who: str, can: str) -> display.Output:
    """Let WHO use an image, by all of its names.

    IMAGE is a name, a hash or a collection. WHO is a user (name, e-mail address or uuid), a role
    (name or uuid), `everyone` with an account here, or `public`. An image of a project is shared
    with the project, too.
    """

    async def action(session: CliSession) -> tuple[StoredImage, list[Record]]:
        stored = await _find(session, image)
        uuid = stored.collection_uuid
        party = await sharing.find_party(session.api, who, uuid[:5])
        await sharing.set_level(session.api, uuid, party, f"can_{can}")
        return stored, await sharing.list_permissions(session.api, uuid)

    stored, links = with_session(action)
    yield links
    display.table(
        ("WHO", "MAY", "UUID"), ((link["who"], link["can"], link["tail_uuid"]) for link in links)
    )
    names = stored.names or (stored.digest,)
    typed = [name for name in names if name in parse_reference(image).names]
    first = (typed or names)[0]
    others = [name for name in names if name != first]
    also = f"; its other names are shared too: {', '.join(others[:5])}" if others else ""
    display.note(f"they use it as --image {first}{also}")


@click.command()
@click.argument("image")
@click.argument("who")
@display.with_json
def unshare(image: str, who: str) -> display.Output:
    """Take back what `lading image share` gave to WHO.

    IMAGE is a name, a hash or a collection.
    """

    async def action(session: CliSession) -> int:
        uuid = (await _find(session, image)).collection_uuid
        party = await sharing.find_party(session.api, who, uuid[:5])
        links = await sharing.links_of(session.api, uuid, party)
        if not links:
            raise NotFound(f"{image}: is not shared with {who}; see 'lading image show {image}'")
        for link in links:
            await session.api.delete("links", link["uuid"])
        return len(links)

    removed = with_session(action)
    yield {"image": image, "who": who, "removed": removed}
    display.note(f"{image}: no longer shared with {who}")


@click.command()
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@display.with_json
def remove(images: tuple[str, ...]) -> display.Output:
    """Take names from images; an image that loses its last name goes to the trash.

    IMAGE is a name, or a hash or a collection for an image with all of its names. `lading restore`
    brings a collection back from the trash. Containers that ran on it keep their records.
    """

    async def action(session: CliSession) -> list[Record]:
        done = []
        for image in images:
            user = await session.api.get("users", "current")
            stored, name = await find_named(session.api, image, str(user["uuid"]))
            if name and name != full_name(image):
                raise Invalid(f"{image}: means {name} here; to remove it, name it in full")
            is_gone = await take_names(session.api, stored, [name] if name else [])
            done.append(
                {"image": stored.digest, "name": name, "collection_uuid": stored.collection_uuid,
                 "is_trashed": is_gone}
            )  # fmt: skip
        return done

    done = with_session(action)
    yield done
    for removal in done:
        shown = removal["name"] or removal["image"][:19]
        uuid = removal["collection_uuid"]
        display.note(
            f"{shown}: removed" + (f"; {uuid} is in the trash" if removal["is_trashed"] else "")
        )
