"""The configuration of the server: limits of the API, the trail, addresses, the database."""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key, section
from lading.core.resources import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class API:
    """Limits of the metadata server."""

    MaxRequestSize: int = key(128 * MIB, "Largest request body.", unit="bytes")
    MaxKeepBlobBuffers: int = key(
        16, "Most blocks of 64 MiB that are in memory at once.", private=True
    )
    MaxItemsPerResponse: int = key(
        1000, "Most items in one list answer; a larger `limit` is lowered to it."
    )
    RequestTimeout: float = key(300.0, "Time after which a request is given up.", unit="seconds")
    MaxPollHold: float = key(
        12.0,
        "Longest time for which a poll of `arvados-cwl-runner` is held while none of its requests"
        " has ended; 0 answers each at once.",
        unit="seconds",
    )
    MaxIndexDatabaseRead: int = key(
        128 * MIB,
        "Most bytes of records in one list answer, which then has fewer items than its `limit`,"
        " but one at least.",
        unit="bytes",
    )
    RequestHeadTimeout: float = key(
        30.0,
        "Longest time for a TLS handshake, and for the head of a request.",
        private=True,
        unit="seconds",
    )
    IdleConnectionTimeout: float = key(
        60.0,
        "Time after which a connection without a request is closed.",
        private=True,
        unit="seconds",
    )
    MaxConnections: int = key(
        8192,
        "Most connections to one server at once, at most a quarter of the files that it may open;"
        " the local socket is not counted. A newcomer takes the place of the connection that has"
        " waited longest without a request.",
        private=True,
    )
    MaxConnectionsPerAddress: int = key(
        1024,
        "Most connections from one address (IPv6: one /64) without an authenticated request,"
        " among them those in a TLS handshake.",
        private=True,
    )
    MaxConnectionsPerUser: int = key(
        1024,
        "Most connections on which requests of one user are being answered at once, such as streams"
        " of events, transfers and sessions; at most a quarter of MaxConnections. A further request"
        " is answered with 503.",
        private=True,
    )
    TrustedAddresses: list[str] = key(
        ["127.0.0.0/8", "::1/128"],
        "Networks to which MaxConnectionsPerAddress does not apply, such as those of a reverse"
        " proxy or of compute nodes behind one address.",
        private=True,
    )
    MinTransferRate: int = key(
        64 * KIB,
        "Bytes a second below which a transfer of a block, or of a file over WebDAV,"
        " is given up after 30 s; 0: never.",
        private=True,
        unit="bytes",
    )
    VocabularyPath: str = key(
        "", "JSON file with the vocabulary of properties; none is no rules.", private=True
    )
    MaxTokenLifetime: float = key(
        0.0, "Longest life of a token that a user makes; 0 is unlimited.", unit="seconds"
    )
    MaxGatewayTunnels: int = key(
        4096, "Most tunnels from containers to one server at once.", private=True
    )
    TrustedProxies: list[str] = key(
        [],
        "Addresses and networks of proxies in front of the server: their X-Forwarded-For and"
        " X-Forwarded-Proto are believed, those of others are ignored.",
        private=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogs:
    """The trail of what happened to records."""

    MaxAge: float = key(
        1209600.0, "Age at which rows of the trail are deleted; 0 keeps them.", unit="seconds"
    )
    MaxDeleteBatch: int = key(1000, "Most rows that one transaction deletes; 0 never deletes any.")
    UnloggedAttributes: list[str] = key(
        ["manifest_text"], "Attributes that are left out of the trail."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWebServices:
    """Published ports of containers."""

    ExternalURL: str = key(
        "",
        "`https://*.DOMAIN/`: each port has the host UUID-PORT.DOMAIN;"
        " empty: ports are below /services/ only.",
    )
    ExternalPortMin: int = key(
        0,
        "Without `*` in ExternalURL each published port is given one from here on, at the host of"
        " ExternalURL, where a proxy is, or without that at the server's own,"
        " which then listens there itself; 0: none.",
    )
    ExternalPortMax: int = key(0, "The last of those ports.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench2:
    """Workbench 2 of Arvados, which another web server serves."""

    ExternalURL: str = key(
        "",
        "Its address, such as `https://workbench.example/`, which clients print; empty: that of the"
        " page.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Addresses of parts of the system for clients."""

    ContainerWebServices: ContainerWebServices = section(ContainerWebServices)
    Workbench2: Workbench2 = section(Workbench2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQL:
    """The database, where it is not the file in the data directory."""

    Connection: dict[str, str | int] = key(
        {},
        "`host`, `port`, `dbname`, `user`, `password`, `sslmode`; empty is SQLite.",
        private=True,
    )
    ConnectionPool: int = key(8, "Connections of one server process that read.", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLite:
    """The database file in the data directory."""

    CacheSize: int = key(
        64 << 20,
        "Memory for its pages, of each of the two connections of the server; both fill as the "
        "file grows.",
        unit="bytes",
        private=True,
    )
