"""Objects of the GA4GH Data Repository Service: how their bytes are reached, and their checksums.

Source: GA4GH DRS 1.4.0, DrsObject, AccessMethod, AccessURL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lading.core.errors import Malformed
from lading.core.tes.document_shapes import array, objects, string
from lading.core.tes.locations import Location, LocationScheme, encode, parse_location
from lading.core.values import Json

# The ways that are used, the best first.
_WAYS = ("https", "s3", "ftp", "http")
_ALGORITHMS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"sha-256": ("sha256", 64), "sha256": ("sha256", 64), "md5": ("md5", 32)}
)
_HEADER = re.compile(r"([A-Za-z0-9-]{1,100}):[ \t]*((?:[\x21-\x7e][\x20-\x7e]{0,8191})?)")
# Headers that would change the request itself.
_REFUSED = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "range", "if-range", "te",
     "trailer", "upgrade", "expect", "keep-alive", "accept-encoding", "proxy-connection",
     "proxy-authorization"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DrsAccess:
    """A way to the bytes: a URL with headers for it, or an `access_id` for which the server names
    them.
    """

    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    access_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrsObject:
    """An object: the best way to its bytes, and its checksums by algorithm (md5, sha256)."""

    access: DrsAccess
    name: str = ""
    checksums: tuple[tuple[str, str], ...] = ()


def locate(location: Location, access_id: str = "") -> Location:
    """The address of an object's description, or of one of its ways."""
    path = f"/ga4gh/drs/v1/objects/{encode(location.path)}"
    if access_id:
        path += f"/access/{encode(access_id)}"
    return Location(scheme=LocationScheme.HTTPS, host=location.host, port=location.port, path=path)


def read_object(response: Json) -> DrsObject:
    """The object of an answer. Raises Malformed."""
    if not isinstance(response, dict):
        raise Malformed("the answer of the DRS server is no object")
    ways = sorted(
        (
            method
            for method in objects(response, "access_methods")
            if string(method, "type") in _WAYS
        ),
        key=lambda method: _WAYS.index(string(method, "type")),
    )
    if not ways:
        if response.get("contents"):
            raise Malformed("the object is a bundle: name one of its objects")
        raise Malformed(f"the object has no access method of the types {', '.join(_WAYS)}")
    best = ways[0]
    access = read_access(best.get("access_url")) if best.get("access_url") else None
    if access is None and not string(best, "access_id"):
        raise Malformed("the access method has neither a URL nor an id")
    return DrsObject(
        access=access or DrsAccess(access_id=string(best, "access_id")),
        name=string(response, "name"),
        checksums=_checksums(response),
    )


def read_access(response: Json) -> DrsAccess:
    """The URL of a way. Raises Malformed for one that is not of another server."""
    if not isinstance(response, dict):
        raise Malformed("the access URL is no object")
    url = string(response, "url")
    if parse_location(url).scheme not in _WAYS:
        raise Malformed("the access URL is of no scheme that is followed")
    headers = []
    for header in array(response, "headers"):
        match = _HEADER.fullmatch(header) if isinstance(header, str) else None
        if match is None or match[1].lower() in _REFUSED:
            raise Malformed("the access URL has a header that is not sent")
        headers.append((match[1].lower(), match[2]))
    return DrsAccess(url=url, headers=tuple(headers))


def _checksums(response: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    checksums = {}
    for checksum in objects(response, "checksums"):
        name, length = _ALGORITHMS.get(string(checksum, "type").lower(), ("", 0))
        digits = string(checksum, "checksum").lower()
        if name and re.fullmatch(f"[0-9a-f]{{{length}}}", digits):
            checksums[name] = digits
    return tuple(sorted(checksums.items(), reverse=True))


def validator_of(drs_object: DrsObject) -> str:
    """A validator by the best checksum; "" if there is none."""
    return (
        f"drs {drs_object.checksums[0][0]} {drs_object.checksums[0][1]}"
        if drs_object.checksums
        else ""
    )
