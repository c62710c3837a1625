"""Credentials of users for the servers of their inputs and outputs.

They are records of the type `credentials`, whose secrets are sealed and never answered to clients.
Each of the `scopes` is the beginning of a URL, for a bucket with how it is reached:

    s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&style=path
    https://HOST/PREFIX

| class | external_id | secret |
|---|---|---|
| `s3` | access key id | secret access key |
| `basic` | user name | password |
| `bearer` | anything | token |

The longest scope that fits a URL counts. Source: docs/spec/transfers, section Credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lading.core.errors import Invalid, Malformed
from lading.core.tes.locations import Location, LocationScheme, decode, parse_location
from lading.core.tes.s3_requests import BucketPlace

S3, BASIC, BEARER = "s3", "basic", "bearer"
CLASSES = (S3, BASIC, BEARER)
"""The classes of credentials that transfers use; records of other classes are left alone."""
_STYLES: Mapping[str, bool] = {"path": True, "virtual": False}
_HTTP = (LocationScheme.HTTP, LocationScheme.HTTPS)
_SEPARATOR = re.compile(r"[/\\]")
# Layers of percent-encoding that are looked through.
_MOST_ENCODINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialScope:
    """Scope of a credential: the place that it names, and the place of a bucket."""

    location: Location
    bucket: BucketPlace | None = None

    def covers(self, location: Location) -> bool:
        """Whether a URL is below the scope."""
        mine, path = self.location, self.location.path.rstrip("/")
        same = (mine.scheme, mine.host, mine.port) == (
            location.scheme,
            location.host,
            location.port,
        )
        is_below = location.path == path or location.path.startswith(f"{path}/")
        return same and (not path or (is_below and not _climbs(location.path)))


def _climbs(path: str) -> bool:
    """Whether a server may read a path as one that leads out of a directory above it: with `..`,
    encoded once or more often, behind a backslash, or with parameters (`..;x`), as Java servers
    take them away.
    """
    text = path
    for _ in range(_MOST_ENCODINGS):
        if any(segment.partition(";")[0].strip() == ".." for segment in _SEPARATOR.split(text)):
            return True
        decoded = decode(text)
        if decoded == text:
            return False
        text = decoded
    # Nobody encodes a path so often without a purpose.
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCredential:
    """The credential for a URL: its record, and the scope that fits."""

    record: Mapping[str, Any]
    scope: CredentialScope


def parse_scope(scope_text: str, credential_class: str) -> CredentialScope:
    """A scope of a credential. Raises Invalid."""
    url, _, query = scope_text.partition("?") if credential_class == S3 else (scope_text, "", "")
    try:
        location = parse_location(url)
        if credential_class == S3:
            return _bucket_scope(location, query)
    except Malformed as error:
        example = "s3://BUCKET/PREFIX" if credential_class == S3 else "https://HOST/PATH"
        raise Invalid(f"scope: {error.message}; write a URL such as {example}") from None
    known = _HTTP if credential_class == BEARER else (*_HTTP, LocationScheme.FTP)
    if location.scheme not in known or location.query or location.user:
        names = ", ".join(known)
        raise Invalid(f"scope: a credential of the class {credential_class} is for URLs of {names}")
    return CredentialScope(location=location)


def _bucket_scope(location: Location, query: str) -> CredentialScope:
    if location.scheme is not LocationScheme.S3:
        raise Malformed("a credential of the class s3 is for s3://BUCKET or s3://BUCKET/PREFIX")
    settings = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    if unknown := set(settings) - {"endpoint", "region", "style"}:
        raise Malformed(f"{sorted(unknown)[0][:20]!r} is none of endpoint, region and style")
    if settings.get("style", "path") not in _STYLES:
        raise Malformed("style must be path or virtual")
    bucket = BucketPlace(
        bucket=location.host,
        endpoint=decode(settings.get("endpoint", "")),
        region=settings.get("region", "us-east-1"),
        path_style=_STYLES.get(settings.get("style", "")),
    )
    # An endpoint that cannot be used is refused when it is set.
    bucket.locate("")
    return CredentialScope(location=location, bucket=bucket)


def _known_scopes(record: Mapping[str, Any]) -> Iterator[CredentialScope]:
    for scope_text in record["scopes"]:
        try:
            scope = parse_scope(scope_text, record["credential_class"])
        except Invalid:
            # Scopes that other programs wrote for themselves.
            continue
        yield scope


def find_credential(
    records: Iterable[Mapping[str, Any]], location: Location, *, now: str
) -> FoundCredential | None:
    """The credential for a URL: of those that have not expired, that with the longest scope; None
    if there is none.
    """
    best: FoundCredential | None = None
    for record in records:
        if record["credential_class"] not in CLASSES or record["expires_at"] <= now:
            continue
        for scope in _known_scopes(record):
            length = len(best.scope.location.path) if best else -1
            if scope.covers(location) and len(scope.location.path) > length:
                best = FoundCredential(record=record, scope=scope)
    return best
