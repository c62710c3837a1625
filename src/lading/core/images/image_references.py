"""Image references of requests: a portable data hash, the uuid of a collection, a `repository:tag`,
or the start of an image hash.

See docs/spec/containers, section Images. The server looks up the links; these functions choose
among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.values import printable

REPO_TAG = "docker_image_repo+tag"
IMAGE_HASH = "docker_image_hash"

# A portable data hash with hints.
_LOCATOR = re.compile(r"([0-9a-f]{32}\+\d+)(\+[^+/]+)*")
_HASH = re.compile(r"(sha256:)?[0-9A-Fa-f]{4,64}")
"""The shortest prefix of an image hash: four digits. Less (`sha256:`, or `s`) would match every
image.
"""
# The name of the only file in an image's collection.
_FILE = re.compile(r"(sha256:)?[0-9A-Fa-f]{64}\.tar")


@dataclass(frozen=True, slots=True)
class Term:
    """Parsed `container_image`.

    With `pdh`: that collection; with `uuid`: the present content of that collection. Otherwise
    links of class REPO_TAG named `name`, and if there are none and `is_hash`, links of class
    IMAGE_HASH whose name starts with `text`.
    """

    text: str
    pdh: str | None
    name: str
    uuid: str | None = None

    @property
    def is_hash(self) -> bool:
        """Whether the text can be the start of an image hash."""
        return _HASH.fullmatch(self.text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLink:
    """A readable link to a readable collection: its times, the collection's hash and file names."""

    collection_uuid: str
    pdh: str
    files: tuple[str, ...]
    created_at: str
    image_timestamp: str | None = None


def parse(text: str) -> Term:
    """Parse `container_image`; hints of a locator are dropped, the default tag is `latest`.

    The tag starts after the last `:` unless that is part of a registry address (`host:5000/name`).
    """
    match = _LOCATOR.fullmatch(text)
    if match is not None:
        return Term(text, match[1], "")
    if is_uuid(text, Infix.COLLECTION):
        return Term(text, None, "", text)
    repository, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return Term(text, None, f"{text}:latest")
    return Term(text, None, f"{repository}:{tag or 'latest'}")


def choose(term: Term, links: Iterable[ImageLink], *, formats: Sequence[str]) -> str:
    """The portable data hash of the newest compatible image among `links`.

    Newest by image timestamp, then by the time of the link; a link without a timestamp comes last.
    Raises Invalid when there are no links, or none is compatible with `formats`.
    """
    ordered = sorted(
        links, key=lambda link: (link.image_timestamp or "", link.created_at), reverse=True
    )
    if not ordered:
        raise Invalid(not_found(term.text))
    for link in ordered:
        if is_image(link.files, formats=formats):
            return link.pdh
    raise Invalid(
        "Matching Docker image is incompatible with 'docker_image_formats' configuration."
    )


def is_image(files: Sequence[str], *, formats: Sequence[str]) -> bool:
    """Whether a collection with these files is an image: exactly one file, `sha256:<hex>.tar` in
    format v2.
    """
    match = _FILE.fullmatch(files[0]) if len(files) == 1 else None
    return match is not None and ("v2" if match[1] else "v1") in formats


def not_found(text: str) -> str:
    """The message for an image that no readable collection or link names."""
    return (
        f'docker image "{printable(text)}" not found; '
        "add it with `lading image add`, or name another one"
    )
