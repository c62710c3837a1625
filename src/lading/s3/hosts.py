"""Which calls are for S3: those below `/s3`, those to its hosts, and those that are signed for it.

With a host such as `data.example.org` the name of a bucket may stand before it:
`BUCKET.data.example.org`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lading.core.protocols.aws_signature import ALGORITHM

PREFIX: Final = "/s3"


@dataclass(frozen=True, slots=True)
class S3Site:
    """The beginning of the path that names no bucket, and the bucket in the name of the host, ""
    for none.
    """

    prefix: str = ""
    bucket: str = ""


class BucketHosts:
    """The hosts of S3: `host` is the name of one, "" for none."""

    def __init__(self, host: str = "") -> None:
        self._host = host.lower()

    def owns(self, scope: Mapping[str, Any]) -> bool:
        """Whether a call is for S3."""
        path: str = scope["path"]
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return True
        headers = dict(scope["headers"])
        if headers.get(b"authorization", b"").startswith((f"{ALGORITHM} ".encode(), b"AWS ")):
            return True
        if b"X-Amz-Signature=" in scope["query_string"]:
            return True
        return self._is_own(headers.get(b"host", b"").decode("latin-1"))

    def find(self, path: str, headers: Mapping[str, str]) -> S3Site:
        """The site that a call addresses."""
        name = _name_of(headers.get("host", ""))
        if self._host and name.endswith(f".{self._host}"):
            return S3Site(bucket=name.removesuffix(f".{self._host}"))
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return S3Site(prefix=PREFIX)
        return S3Site()

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        return bool(self._host) and (name == self._host or name.endswith(f".{self._host}"))


def _name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    return host.lower().rpartition(":")[0] if ":" in host else host.lower()
