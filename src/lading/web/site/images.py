"""The images in the store, as `lading image list` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from lading.client.images.links import StoredImage, list_images
from lading.web.visit import Visit

_SHOWN: Final = 200
"""Images of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """An image; `short`: the first digits of its digest, as Docker shows them."""

    image: StoredImage
    short: str


async def show(visit: Visit) -> Response:
    """The page with the images, the one added last first; `q` is a part of a name or a digest."""
    wanted = visit.query("q").strip()
    found = [one for one in await list_images(visit.api) if _matches(one, wanted)]
    return visit.page(
        "images.html",
        rows=[ImageRow(image=one, short=one.digest[7:19]) for one in found[:_SHOWN]],
        wanted=wanted,
        left_out=max(0, len(found) - _SHOWN),
    )


def _matches(image: StoredImage, wanted: str) -> bool:
    return any(wanted in text for text in (image.digest, *image.names))
