"""The configuration of the GA4GH Task Execution Service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lading.config.sections import key
from lading.core.resources import KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class TES:
    """The GA4GH Task Execution Service."""

    AnonymousToken: str = key(
        "",
        "Token with which requests without credentials act; empty: they are refused.",
        private=True,
    )
    APIKeyName: str = key(
        "", "Header or query parameter in which clients may send their token.", private=True
    )
    PublicServiceInfo: bool = key(True, "Anybody may read service-info.", private=True)
    Reuse: bool = key(
        False,
        "Tasks that do not choose are given the result of an earlier equal one.",
        private=True,
    )
    Zones: dict[str, Any] = key(
        {}, "The partition that stands for each zone that tasks may name.", private=True
    )
    FileRoots: dict[str, dict[str, Any]] = key(
        {},
        "Directories of the server's machine that `file` URLs of tasks may lead to: the beginning"
        " of the paths of URLs, with `Path` (the directory; the beginning itself if absent),"
        " `Write` (outputs may go there), `Live` (inputs are mounted in the container as they are"
        " instead of copied, with `Write` writable) and `Users` (names, email addresses or uuids;"
        " all users if absent).",
        private=True,
    )
    AllowedNetworks: list[str] = key(
        [],
        "Private networks and addresses of this machine that URLs of tasks may lead to, such as"
        " 10.1.2.0/24; others of them are refused.",
        private=True,
    )
    S3Endpoint: str = key(
        "",
        "URL of the S3 service of buckets for which a user has no credential; empty: AWS. Their"
        " objects are read without a signature.",
        private=True,
    )
    S3Region: str = key("us-east-1", "Region of such buckets.", private=True)
    MaxTransfers: int = key(
        6,
        "Tasks whose inputs are fetched or outputs delivered at a time by one server; each needs"
        " up to 400 MiB of memory. Users take turns; a user begins a further one only while more"
        " places are free than the user has.",
        private=True,
    )
    MaxObjectSize: int = key(
        1 << 40, "Largest object that is fetched for a task.", private=True, unit="bytes"
    )
    MinTransferRate: int = key(
        16 * KIB,
        "Slowest transfer, in bytes a second over a minute; a slower one counts as broken.",
        private=True,
        unit="bytes",
    )
    InputLifetime: float = key(
        1209600.0,
        "Time for which a fetched object is kept after its last use.",
        private=True,
        unit="seconds",
    )
