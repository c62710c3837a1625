"""Requests to S3: addresses of buckets, signatures (version 4), and the answers in XML.

Sources: AWS General Reference, Signature Version 4; Amazon S3 API, ListObjectsV2 and multipart
uploads.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lading.core.errors import Malformed
from lading.core.protocols.aws_signature import (
    ALGORITHM,
    UNSIGNED,
    SigningScope,
    canonical_request,
    signature,
    signed_names,
    signing_key,
    string_to_sign,
)
from lading.core.tes.locations import PORTS, Location, LocationScheme, encode, parse_location

# Bytes that the path of a canonical request keeps: the unreserved characters and slashes.
_OF_KEYS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_MOST_PARTS = 10_000
_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")
_LEAST_PART = 64 << 20
_CONTENTS = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """Address of a bucket: `endpoint` is a URL such as `https://minio.example:9000`, or "" for AWS;
    with `path_style` the bucket is in the path instead of the host's name.
    """

    bucket: str
    endpoint: str = ""
    region: str = "us-east-1"
    path_style: bool | None = None

    @property
    def is_path_style(self) -> bool:
        """Whether the bucket is in the path. Other services than AWS seldom have a name for each
        bucket, and a bucket with a dot does not match a certificate.
        """
        if self.path_style is not None:
            return self.path_style
        return bool(self.endpoint) or "." in self.bucket

    def locate(self, key: str, query: Sequence[tuple[str, str]] = ()) -> Location:
        """The address of an object, or with "" of the bucket. Raises Malformed."""
        if not is_region(self.region):
            raise Malformed("the region of a bucket has letters, digits and '-' alone")
        base = parse_location(self.endpoint or f"https://s3.{self.region}.amazonaws.com")
        if base.scheme not in (LocationScheme.HTTP, LocationScheme.HTTPS):
            raise Malformed("the endpoint of a bucket must be an http or https URL")
        path = f"/{encode(key, _OF_KEYS)}"
        host = base.host
        if self.is_path_style:
            path = f"/{self.bucket}{path if key else ''}"
        else:
            host = f"{self.bucket}.{host}"
        pairs = "&".join(f"{encode(name)}={encode(value)}" for name, value in sorted(query))
        return Location(
            scheme=base.scheme,
            host=host,
            port=base.port,
            path=base.path.rstrip("/") + path,
            query=f"?{pairs}" if pairs else "",
        )


def is_region(region: str) -> bool:
    """Whether a text, which becomes a part of a host's name and of a header, names a region."""
    return _REGION.fullmatch(region) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """The two parts of an access key."""

    key_id: str
    secret: str


def sign(
    method: str,
    location: Location,
    headers: Mapping[str, str],
    *,
    key: AccessKey,
    region: str,
    moment: str,
    payload: str = UNSIGNED,
) -> dict[str, str]:
    """The headers with a signature. `moment` is a time such as 20260102T030405Z, `payload` the
    SHA-256 of the body in hexadecimal digits. Names of `headers` are in lower case.
    """
    host = f"[{location.host}]" if ":" in location.host else location.host
    host = host if location.port == PORTS[location.scheme] else f"{host}:{location.port}"
    signed = {
        **{name: value for name, value in headers.items() if name != "content-length"},
        "host": host,
        "x-amz-content-sha256": payload,
        "x-amz-date": moment,
    }
    pairs = sorted(signed.items())
    # Pairs without a value end in "=" here, and have it in the address already.
    query = location.query.removeprefix("?")
    canonical = canonical_request(method, location.path, query, pairs, payload)
    scope = SigningScope(moment[:8], region)
    message = string_to_sign(canonical, moment=moment, scope=scope)
    authorization = (
        f"{ALGORITHM} Credential={key.key_id}/{scope}, SignedHeaders={signed_names(pairs)}, "
        f"Signature={signature(signing_key(key.secret, scope), message)}"
    )
    return {
        **headers,
        "x-amz-content-sha256": payload,
        "x-amz-date": moment,
        "authorization": authorization,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedObject:
    """An object of a listing: its key, its size in bytes, and its ETag."""

    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """A page of a listing; `next_token` is "" on the last one."""

    objects: tuple[ListedObject, ...]
    next_token: str = ""


def read_page(listing: str) -> ObjectPage:
    """The page of an answer to ListObjectsV2. Raises Malformed."""
    if "<ListBucketResult" not in listing:
        raise Malformed("the answer is no list of objects")
    objects = []
    for match in _CONTENTS.finditer(listing):
        size = element(match[1], "Size")
        if not size.isascii() or not size.isdigit():
            raise Malformed("the list has an object without a size")
        key, etag = element(match[1], "Key"), element(match[1], "ETag")
        objects.append(ListedObject(key=key, size=int(size), etag=etag))
    is_cut = element(listing, "IsTruncated") == "true"
    token = element(listing, "NextContinuationToken") if is_cut else ""
    if is_cut and not token:
        raise Malformed("the list is cut and does not say where it goes on")
    return ObjectPage(objects=tuple(objects), next_token=token)


def element(document: str, name: str) -> str:
    """The text of the first element with a name; "" if there is none."""
    start = document.find(f"<{name}>")
    end = document.find(f"</{name}>", start)
    return html.unescape(document[start + len(name) + 2 : end]) if 0 <= start < end else ""


def part_size(size: int) -> int:
    """Bytes of each part of an upload, but for the last: there are 10,000 at most."""
    return max(_LEAST_PART, -(-size // _MOST_PARTS))


def render_parts(etags: Sequence[str]) -> bytes:
    """The body that completes an upload in parts."""
    parts = [
        f"<Part><PartNumber>{number}</PartNumber>"
        f"<ETag>{html.escape(etag, quote=False)}</ETag></Part>"
        for number, etag in enumerate(etags, 1)
    ]
    return f"<CompleteMultipartUpload>{''.join(parts)}</CompleteMultipartUpload>".encode()
