"""Which image a request means: a portable data hash, a `repository:tag`, or the start of an image hash.

Source: api-contract 1.6 "Image lookup". The server looks the links up, these functions choose among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

REPO_TAG = "docker_image_repo+tag"
IMAGE_HASH = "docker_image_hash"


@dataclass(frozen=True, slots=True)
class Term:
    """What `container_image` asks for.

    With `pdh` set: that collection. Else links of class REPO_TAG named `name`, and if there are none, links of class
    IMAGE_HASH whose name starts with `text`.
    """

    text: str
    pdh: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLink:
    """A readable link whose head is a readable collection: its times, the collection's hash and file names."""

    collection_uuid: str
    pdh: str
    files: tuple[str, ...]
    created_at: str
    image_timestamp: str | None = None


def parse(text: str) -> Term:
    """Read `container_image`; hints of a locator are dropped, no tag means `latest`."""
    raise NotImplementedError


def choose(term: Term, links: Iterable[ImageLink], *, formats: Sequence[str]) -> str:
    """The portable data hash of the newest compatible image.

    Raises Invalid when nothing was found or nothing found is compatible with `formats`.
    """
    raise NotImplementedError


def not_found(text: str) -> str:
    """The sentence for an image that no readable collection or link names."""
    raise NotImplementedError
