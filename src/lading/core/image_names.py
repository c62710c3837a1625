"""Names of images: repositories, tags and hashes, and the choice of an image by its name.

A request names an image by a portable data hash, the uuid of a collection, a `repository:tag`, or
the start of an image hash. The server looks up the links; `choose_image` chooses among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from lading.core.data import manifest
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.records.schema import Record
from lading.core.values import printable

REPO_TAG = "docker_image_repo+tag"
IMAGE_HASH = "docker_image_hash"
# The registry that the names of Docker leave out, and the host that builders take for their own.
HUB = ".".join(("docker", "io"))
_HUB_HOSTS = (HUB, f"index.{HUB}")
_OFFICIAL = "library/"
_LOCAL = "localhost"
# A portable data hash with hints.
_LOCATOR = re.compile(r"([0-9a-f]{32}\+\d+)(\+[^+/]+)*")
# The shortest prefix of an image hash: four digits. Less (`sha256:`, or `s`) would match every
# image.
_HASH = re.compile(r"(sha256:)?[0-9A-Fa-f]{4,64}")
# The name of the only file in an image's collection.
_FILE = re.compile(r"(sha256:)?[0-9A-Fa-f]{64}\.tar")


class Term(msgspec.Struct, frozen=True):
    """Parsed `container_image`.

    With `pdh`: that collection; with `uuid`: the present content of that collection. Otherwise
    links of class REPO_TAG with one of `names`, and if there are none and `is_hash`, links of class
    IMAGE_HASH whose name starts with one of `hashes`.
    """

    reference: str
    pdh: str | None
    name: str
    uuid: str | None = None

    @property
    def is_hash(self) -> bool:
        """Whether the text can be the start of an image hash."""
        return _HASH.fullmatch(self.reference) is not None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Beginnings of hashes as links have them: with `sha256:`, and of old images without."""
        digits = self.reference.removeprefix("sha256:").lower()
        return (f"sha256:{digits}", digits)

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and the others of the same image in the grammar of references."""
        return same_names(self.name)


class ImageLink(msgspec.Struct, frozen=True, kw_only=True):
    """A readable link to a readable collection: its times, the collection's hash and file names."""

    collection_uuid: str
    pdh: str
    files: tuple[str, ...]
    created_at: str
    image_timestamp: str | None = None
    name: str = ""
    is_own: bool = False
    """Whether the caller has made it."""
    is_of_site: bool = False
    """Whether an administrator has made it."""
    owner_uuid: str = ""
    is_shared: bool = True
    """Whether the caller has been given it; administrators read the others too."""


def image_link(link: Record, collection: Record, user_uuid: str) -> ImageLink:
    """A link of a name to a collection, as its user sees it."""
    stamp = link["properties"].get("image_timestamp")
    streams = manifest.parse(collection["manifest_text"]).streams
    return ImageLink(
        collection_uuid=collection["uuid"],
        pdh=collection["portable_data_hash"],
        files=tuple(dict.fromkeys(file.name for stream in streams for file in stream.files)),
        created_at=link["created_at"],
        image_timestamp=stamp if isinstance(stamp, str) else None,
        name=str(link["name"]),
        is_own=user_uuid in (link["owner_uuid"], link["modified_by_user_uuid"]),
        owner_uuid=str(link["owner_uuid"]),
    )


def same_names(name: str) -> tuple[str, ...]:
    """Names that mean the same image as `repository:tag`, itself first.

    A name without a host is one of Docker Hub, or one that a builder of this machine gave, which
    podman and buildah write with the host `localhost`.
    """
    host, slash, path = name.partition("/")
    if not slash or not (host == _LOCAL or {".", ":"} & {*host}):
        host, path = "", name
    if host not in ("", _LOCAL, *_HUB_HOSTS):
        return (name,)
    path = path if host == _LOCAL else path.removeprefix(_OFFICIAL)
    whole = path if "/" in path else f"{_OFFICIAL}{path}"
    names = [name, path]
    if host not in _HUB_HOSTS:
        names.append(f"{_LOCAL}/{path}")
    if host != _LOCAL:
        names += [f"{HUB}/{whole}", whole, f"{HUB}/{path}", f"index.{HUB}/{whole}"]
    return tuple(dict.fromkeys(names))


def parse_reference(reference: str) -> Term:
    """Parse `container_image`; hints of a locator are dropped, the default tag is `latest`.

    The tag starts after the last `:` unless that is part of a registry address (`host:5000/name`).
    """
    match = _LOCATOR.fullmatch(reference)
    if match is not None:
        return Term(reference, match[1], "")
    if is_uuid(reference, Infix.COLLECTION):
        return Term(reference, None, "", reference)
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return Term(reference, None, f"{reference}:latest")
    return Term(reference, None, f"{repository}:{tag or 'latest'}")


def choose_image(term: Term, links: Iterable[ImageLink], *, formats: Sequence[str]) -> str:
    """The portable data hash of the first compatible image among `links`.

    Links of the caller precede those of others, so that nobody else decides what a name means that
    the caller has given; then come those of administrators, so that no user takes over a name of
    the site. One that an administrator can read only because administrators read everything is
    never taken: a user would decide what runs with an administrator's rights. Then come names in
    the order of `term.names`, and of several owners the one who gave the name first. Of one owner,
    the newest by image timestamp and by the time of the link is taken; a link without a timestamp
    comes last.

    Raises Invalid when there are no links, when none is compatible with `formats`, when all are of
    others who have not shared them, and when several owners, none of them an administrator, share
    different images by this name.
    """
    ordered = in_order(term, links)
    if not ordered:
        raise Invalid(image_not_found(term.reference))
    usable = [link for link in ordered if is_image(link.files, formats=formats)]
    shared = [link for link in usable if link.is_shared or link.is_own or link.is_of_site]
    if usable and not shared:
        raise Invalid(
            f'docker image "{printable(term.reference)}" '
            "is a name of another user who has not shared "
            f"it; name its collection {usable[0].collection_uuid}, or add the image yourself"
        )
    if shared:
        _check_owners(term, shared)
        return shared[0].pdh
    raise Invalid(
        "Matching Docker image is incompatible with 'docker_image_formats' configuration."
    )


def _check_owners(term: Term, usable: Sequence[ImageLink]) -> None:
    """Raises Invalid where it is open which of several owners the caller means."""
    first = usable[0]
    if first.is_own or first.is_of_site:
        return
    newest: dict[str, str] = {}
    for link in usable:
        newest.setdefault(link.owner_uuid, link.pdh)
    if len(set(newest.values())) > 1:
        raise Invalid(
            f'docker image "{printable(term.reference)}" '
            f"is a name that {len(newest)} users share for "
            "different images; name the collection of the one that you mean (`lading image list`), "
            "or add the image yourself"
        )


def in_order(term: Term, links: Iterable[ImageLink]) -> list[ImageLink]:
    """The links in the order in which `choose_image` takes them."""
    newest_first = sorted(
        links, key=lambda link: (link.image_timestamp or "", link.created_at), reverse=True
    )
    given: dict[tuple[str, str], str] = {}
    for link in newest_first:
        name = (link.name, link.owner_uuid)
        given[name] = min(link.created_at, given.get(name, link.created_at))
    places = {name: number for number, name in enumerate(term.names)}

    def rank(link: ImageLink) -> tuple[bool, bool, int, str, str]:
        is_trusted = link.is_own or link.is_of_site
        since = "" if is_trusted else given[link.name, link.owner_uuid]
        owner = "" if is_trusted else link.owner_uuid
        return not link.is_own, not is_trusted, places.get(link.name, 0), since, owner

    return sorted(newest_first, key=rank)


def is_image(files: Sequence[str], *, formats: Sequence[str]) -> bool:
    """Whether a collection with these files is an image: exactly one file, `sha256:<hex>.tar` in
    format v2.
    """
    match = _FILE.fullmatch(files[0]) if len(files) == 1 else None
    return match is not None and ("v2" if match[1] else "v1") in formats


def image_not_found(name: str) -> str:
    """The message for an image that no readable collection or link names."""
    return (
        f'docker image "{printable(name)}" not found; '
        "add it with `lading image add`, or name another one"
    )
