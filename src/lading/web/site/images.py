"""The images in the store, as `lading image list` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from lading.client.images.links import (
    StoredImage,
    full_name,
    give_names,
    list_images,
    take_names,
)
from lading.core.errors import Invalid, NotFound
from lading.web.visit import Visit

PLACE: Final = "/ui/images"
_SHOWN: Final = 200
"""Images of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """An image; `short`: the first digits of its digest, as Docker shows them; `is_own`: it is in
    the reader's home.
    """

    image: StoredImage
    short: str
    is_own: bool


async def show(visit: Visit) -> Response:
    """The page with the images, the one added last first; `q` is a part of a name or a digest."""
    query = visit.query("q").strip()
    images = [image for image in await list_images(visit.api) if _matches(image, query)]
    return visit.page(
        "images.html",
        rows=[
            ImageRow(image=image, short=image.digest[7:19], is_own=_is_own(visit, image))
            for image in images[:_SHOWN]
        ],
        wanted=query,
        left_out=max(0, len(images) - _SHOWN),
    )


async def add_name(visit: Visit) -> Response:
    """Give an image a further name; another image of the reader loses it. Raises Invalid,
    NotFound.
    """
    image, name = await _find(visit), visit.field("name").strip()
    try:
        names = [full_name(name)]
    except Invalid:
        raise Invalid(
            f"name: {name[:80]!r} is no name of an image; write for example tools:1.0"
        ) from None
    await give_names(visit.api, image, names=names)
    return visit.redirect(PLACE)


async def remove(visit: Visit) -> Response:
    """Move an image to the trash, and delete its names. Raises NotFound, Forbidden."""
    await take_names(visit.api, await _find(visit), [])
    return visit.redirect(PLACE)


async def _find(visit: Visit) -> StoredImage:
    """The image of the reader with the collection of the address. Raises NotFound."""
    uuid = visit.parts["uuid"]
    for image in await list_images(visit.api):
        if image.collection_uuid == uuid and _is_own(visit, image):
            return image
    raise NotFound(f"{uuid[:80]!r} is no image of yours; see the list of images")


def _is_own(visit: Visit, image: StoredImage) -> bool:
    return visit.session is not None and image.owner_uuid == visit.session.user_uuid


def _matches(image: StoredImage, query: str) -> bool:
    return any(query in name for name in (image.digest, *image.names))
