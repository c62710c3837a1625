"""Images in the store: a collection with one file, and the links by which requests find the image.

Collection, properties and links are those that `arv-keepdocker` creates, so that each tool sees the
images of the other (docs/spec/api, section Links; docs/spec/containers, section Images). A stored
image is not stored again. A name of another image is moved to the new image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime

import msgspec
from msgspec import structs

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.collections import CollectionWriter
from lading.client.files.downloads import Progress
from lading.client.images.archive import EPOCH, NormalImage
from lading.core.data import filetree
from lading.core.errors import ExecutionError, Forbidden, Invalid, Malformed, NotFound
from lading.core.ids import is_pdh
from lading.core.image_names import (
    IMAGE_HASH,
    REPO_TAG,
    ImageLink,
    image_not_found,
    in_order,
    parse_reference,
)
from lading.core.images import image_member
from lading.core.quantities import format_time

# repository, optionally with a registry's port, and a tag of at most 200 characters or a digest.
_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._/-]*((:[0-9]+/[A-Za-z0-9._/-]+)?@sha256:[0-9a-f]{64}"
    r"|(:[A-Za-z0-9_][A-Za-z0-9._/:-]{0,200})?)"
)
# Largest page of the server.
_PAGE = 1000


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image in the store. `added_at`: when it was first stored; `timestamp`: the time by which
    lookups sort.
    """

    digest: str
    collection_uuid: str
    pdh: str
    size: int
    added_at: str
    timestamp: str = ""
    names: tuple[str, ...] = ()
    owner_uuid: str = ""
    """The user or the project that has the collection."""
    added_by: str = ""
    """The user who stored it."""


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """Result of adding an image: whether it was new, and the names that belonged to another image
    before.
    """

    image: StoredImage
    is_new: bool
    moved: tuple[str, ...] = ()


def full_name(name: str) -> str:
    """`repository:tag` or `repository@sha256:<hex>`; without a tag it is `latest`. Raises Invalid
    for a malformed name.
    """
    if (
        _NAME.fullmatch(name) is None
        or is_pdh(name)
        or re.fullmatch(r"(sha256:)?[0-9a-f]{64}", name)
    ):
        raise Invalid(f"--name {name}: not a name for an image; write for example tools:1.0")
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


async def register(
    api: ApiClient,
    blocks: BlockClient,
    image: NormalImage,
    *,
    names: Sequence[str],
    now: datetime,
    progress: Progress | None = None,
    project: str = "",
) -> Registration:
    """Store the image unless it is stored, and give it `names`; in a project, with its uuid. Raises
    the errors of the API and the store.
    """
    full_names = [full_name(name) for name in names]
    # Images of lading have the epoch as creation time, and would sort before all others.
    stamp = format_time(now) if image.created in (None, "", EPOCH) else str(image.created)
    found = await own_image(api, image.digest, project=project)
    is_new = found is None
    if found is None:
        found = await _store(api, blocks, image, full_names, progress, project)
        await _link(api, IMAGE_HASH, image.digest, found, stamp)
    named = await give_names(api, structs.replace(found, timestamp=stamp), names=full_names)
    return structs.replace(named, is_new=is_new)


async def own_image(api: ApiClient, digest: str, *, project: str = "") -> StoredImage | None:
    """The stored image with this id that the caller may name and share: in the project, else the
    caller's own, else a new collection of the caller with the content of another one. None if the
    store has none.
    """
    owner = project or await _caller(api)
    image = await find_image(api, digest, owner=owner)
    if image is not None:
        return image
    image = await find_image(api, digest)
    if image is None:
        return None
    record = await api.get("collections", image.collection_uuid)
    attributes = {name: record[name] for name in ("name", "manifest_text", "properties")}
    attributes["owner_uuid"] = owner
    made = await api.create("collections", attributes, ensure_unique_name=True)
    image = structs.replace(
        image,
        collection_uuid=made["uuid"],
        owner_uuid=owner,
        added_at=made["created_at"],
        names=(),
    )
    await _link(api, IMAGE_HASH, digest, image, image.timestamp)
    return image


async def _caller(api: ApiClient) -> str:
    return str((await api.request("GET", "users/current"))["uuid"])


async def give_names(api: ApiClient, image: StoredImage, *, names: Sequence[str]) -> Registration:
    """Give a stored image these names; other images of the same owner lose them."""
    moved = []
    full_names = [full_name(name) for name in names]
    owner = image.owner_uuid
    for name in full_names:
        named = [link for link in await _named(api, name) if link["owner_uuid"] == owner]
        others = [link for link in named if link["head_uuid"] != image.collection_uuid]
        # First the new link, then the removal of the old ones: requests always find an image of
        # this name.
        if len(others) == len(named):
            await _link(api, REPO_TAG, name, image, image.timestamp)
        for link in others:
            await api.delete("links", link["uuid"])
        moved += [name] if others else []
    stored = structs.replace(image, names=tuple(sorted({*image.names, *full_names})))
    return Registration(image=stored, is_new=False, moved=tuple(moved))


async def take_names(api: ApiClient, image: StoredImage, names: Sequence[str]) -> bool:
    """Take these names from an image; without further names its collection goes to the trash, and
    its links are deleted. Whether it went. Raises Forbidden for names of others.
    """
    filters: list[list[object]] = [
        ["head_uuid", "=", image.collection_uuid],
        ["link_class", "in", [REPO_TAG, IMAGE_HASH]],
    ]
    links = await api.list("links", filters=filters, limit=_PAGE)
    tags = [link for link in links if link["link_class"] == REPO_TAG]
    gone = [link for link in tags if link["name"] in names] if names else links
    is_last = len(gone) == len(tags) or not names
    if is_last:
        # The collection first: a refusal must leave its names.
        await api.delete("collections", image.collection_uuid)
    for link in links if is_last else gone:
        # Names that others gave to it lead nowhere, and they alone may delete them.
        with suppress(Forbidden) if is_last else nullcontext():
            await api.delete("links", link["uuid"])
    return is_last


async def find_named(api: ApiClient, reference: str, user_uuid: str) -> tuple[StoredImage, str]:
    """The image that a request of this user would take for a name, a hash or a collection, and the
    name that was found, "" for a hash. Raises NotFound.
    """
    term = parse_reference(reference)
    filters: list[list[object]]
    if term.pdh or term.uuid:
        filters = [["portable_data_hash" if term.pdh else "uuid", "=", term.pdh or term.uuid]]
        rows = await api.list("collections", filters=filters, select=["uuid"], limit=_PAGE)
        heads = [str(row["uuid"]) for row in rows]
        links = await api.list(
            "links", filters=[["link_class", "=", IMAGE_HASH], ["head_uuid", "in", heads]]
        )
    else:
        filters = [["link_class", "=", REPO_TAG], ["name", "in", list(term.names)]]
        links = await api.list("links", filters=filters, limit=_PAGE)
        if not links and term.is_hash:
            filters = [["link_class", "=", IMAGE_HASH], ["name", "like", f"{term.hashes[0]}%"]]
            links = await api.list("links", filters=filters, limit=_PAGE)
    heads_by_uuid = await _collections(api, {link["head_uuid"] for link in links})
    usable = {
        (link["head_uuid"], link["name"]): _image_link(link, user_uuid)
        for link in links
        if link["head_uuid"] in heads_by_uuid
    }
    for chosen in in_order(term, usable.values()):
        of_image = [["head_uuid", "=", chosen.collection_uuid]]
        all_links = await api.list("links", filters=of_image, limit=_PAGE)
        for link in all_links:
            if link["link_class"] == IMAGE_HASH:
                names = {
                    str(named_link["name"])
                    for named_link in all_links
                    if named_link["link_class"] == REPO_TAG
                }
                head = heads_by_uuid[chosen.collection_uuid]
                image = structs.replace(_stored(link, head), names=tuple(sorted(names)))
                return image, chosen.name
    raise NotFound(image_not_found(reference))


def _image_link(link: Record, user_uuid: str) -> ImageLink:
    stamp = (link.get("properties") or {}).get("image_timestamp")
    return ImageLink(
        collection_uuid=link["head_uuid"],
        pdh="",
        files=(),
        created_at=link["created_at"],
        image_timestamp=stamp if isinstance(stamp, str) else None,
        name=str(link["name"]) if link["link_class"] == REPO_TAG else "",
        is_own=user_uuid in (link["owner_uuid"], link["modified_by_user_uuid"]),
        owner_uuid=str(link["owner_uuid"]),
    )


async def other_name(api: ApiClient, reference: str) -> str:
    """The stored name of an image that a request names by a shorter or longer one; "" where it has
    the very name, or none.
    """
    term = parse_reference(reference)
    if term.pdh or term.uuid:
        return ""
    filters = [["link_class", "=", REPO_TAG], ["name", "in", list(term.names)]]
    links = await api.list("links", filters=filters, select=["name"], limit=_PAGE)
    names = {str(link["name"]) for link in links}
    return "" if term.name in names else next((name for name in term.names if name in names), "")


async def newest_own(api: ApiClient) -> StoredImage:
    """The image that the caller added or named last. Raises Invalid, naming others, where the
    caller has added none.
    """
    user = await _caller(api)
    own = [["link_class", "in", [IMAGE_HASH, REPO_TAG]], ["modified_by_user_uuid", "=", user]]
    links = await api.list("links", filters=own, order=["created_at desc"], limit=_PAGE)
    heads = {str(link["head_uuid"]) for link in links}
    images = await list_images(api)
    by_uuid = {image.collection_uuid: image for image in images if image.collection_uuid in heads}
    for link in links:
        if link["head_uuid"] in by_uuid:
            return by_uuid[link["head_uuid"]]
    names = [name for image in images for name in image.names[:1]]
    if names:
        raise Invalid(
            f"no image of yours yet: name one, --image {names[0]}, or add one "
            "(see 'lading image list')"
        )
    raise Invalid(
        "no image yet; add one first, for example: "
        "lading image add --from-host sh awk sort gzip --name tools:1"
    )


async def list_images(api: ApiClient, *, named_by: str | None = None) -> list[StoredImage]:
    """The images in the store, latest first. `named_by`: the uuid of a user, whose names for images
    alone count: any user can give an image a name that others look for.
    """
    links = [
        link
        async for page in api.pages("links", filters=[["link_class", "in", [IMAGE_HASH, REPO_TAG]]])
        for link in page
    ]
    heads = await _collections(api, {link["head_uuid"] for link in links})
    images: dict[str, StoredImage] = {}
    for link in links:
        head = heads.get(link["head_uuid"])
        if head is not None and link["link_class"] == IMAGE_HASH:
            images[head["uuid"]] = _stored(link, head)
    for link in sorted(links, key=lambda link: str(link["name"])):
        image = images.get(link["head_uuid"])
        is_name = link["link_class"] == REPO_TAG and named_by in (
            None,
            link["modified_by_user_uuid"],
        )
        if image is not None and is_name and link["name"] not in image.names:
            images[link["head_uuid"]] = structs.replace(image, names=(*image.names, link["name"]))
    return sorted(images.values(), key=lambda image: (image.added_at, image.digest), reverse=True)


async def is_stored(api: ApiClient, name: str) -> bool:
    """Whether a request can name an image so: by a tag, or by the start of its hash."""
    term = parse_reference(name)
    filters: list[list[object]]
    if term.is_hash:
        filters = [["link_class", "=", IMAGE_HASH], ["name", "like", f"{term.hashes[0]}%"]]
        if await api.list("links", filters=filters, limit=1):
            return True
    full_name(name)
    filters = [["link_class", "=", REPO_TAG], ["name", "in", list(term.names)]]
    return bool(await api.list("links", filters=filters, limit=1))


async def find_image(api: ApiClient, digest: str, *, owner: str = "") -> StoredImage | None:
    """The image with this id (`sha256:<hex of its configuration>`); None if the store has none, or
    `owner` has none.

    Any user can write a link with this id to another collection: the file of the collection must
    have the id as its name, which the supervisor proves by the content.
    """
    links = await api.list(
        "links", filters=[["link_class", "=", IMAGE_HASH], ["name", "=", digest]], limit=_PAGE
    )
    heads = await _collections(api, {link["head_uuid"] for link in links})
    for link in links:
        head = heads.get(link["head_uuid"])
        if head is None or owner not in ("", head["owner_uuid"]):
            continue
        if await _has_archive(api, head["uuid"], digest):
            filters = [["link_class", "=", REPO_TAG], ["head_uuid", "=", head["uuid"]]]
            names = await api.list("links", filters=filters, limit=_PAGE)
            return structs.replace(
                _stored(link, head),
                names=tuple(sorted({str(name_link["name"]) for name_link in names})),
            )
    return None


async def _has_archive(api: ApiClient, uuid: str, digest: str) -> bool:
    """Whether a collection is that of the image `digest`, by the name of its archive."""
    record = await api.get("collections", uuid)
    try:
        names = filetree.from_manifest(record["manifest_text"]).entries
        _, identity = image_member(names)
    except (ExecutionError, Malformed):
        return False
    return identity.removeprefix("sha256:") == digest.removeprefix("sha256:")


async def _named(api: ApiClient, name: str) -> list[Record]:
    return await api.list(
        "links", filters=[["link_class", "=", REPO_TAG], ["name", "=", name]], limit=_PAGE
    )


async def _collections(api: ApiClient, uuids: Iterable[str]) -> dict[str, Record]:
    distinct = sorted(uuids)
    fields = ("uuid", "portable_data_hash", "file_size_total", "created_at", "owner_uuid")
    collections: dict[str, Record] = {}
    for at in range(0, len(distinct), _PAGE):
        page = await api.list(
            "collections",
            filters=[["uuid", "in", distinct[at : at + _PAGE]]],
            select=fields,
            limit=_PAGE,
        )
        collections.update((record["uuid"], record) for record in page)
    return collections


async def _store(
    api: ApiClient,
    blocks: BlockClient,
    image: NormalImage,
    names: Sequence[str],
    progress: Progress | None,
    project: str,
) -> StoredImage:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, image.size)

    async with CollectionWriter(blocks) as writer:
        await writer.add_file(image.file_name, image.path, cuts=image.cuts, progress=advance)
        manifest = await writer.finish()
    label = f"{names[0].replace('/', ' ')} " if names else ""
    attributes = {
        "name": f"Docker image {label}{image.digest[:19]}",
        "manifest_text": manifest,
        "properties": {"docker-image-repo-tag": names[0]} if names else {},
        **({"owner_uuid": project} if project else {}),
    }
    record = await api.create("collections", attributes, ensure_unique_name=True)
    return StoredImage(
        digest=image.digest,
        collection_uuid=record["uuid"],
        pdh=record["portable_data_hash"],
        size=image.size,
        added_at=record["created_at"],
        owner_uuid=record["owner_uuid"],
    )


async def _link(api: ApiClient, kind: str, name: str, image: StoredImage, stamp: str) -> None:
    properties = {"image_timestamp": stamp}
    body = {
        "link_class": kind,
        "name": name,
        "head_uuid": image.collection_uuid,
        "properties": properties,
        "owner_uuid": image.owner_uuid,
    }
    await api.create("links", body)


def _stored(link: Record, head: Record) -> StoredImage:
    return StoredImage(
        digest=link["name"],
        collection_uuid=head["uuid"],
        pdh=head["portable_data_hash"],
        size=int(head["file_size_total"] or 0),
        added_at=link["created_at"],
        timestamp=str((link.get("properties") or {}).get("image_timestamp") or ""),
        owner_uuid=str(head["owner_uuid"]),
        added_by=str(link["modified_by_user_uuid"]),
    )
