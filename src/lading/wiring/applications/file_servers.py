"""Makes the servers of files of collections, which share their caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Scope

from lading.client.transport import Transport
from lading.config.site import Config
from lading.fileserving.services import make_file_services
from lading.s3.app import make_app as make_s3
from lading.s3.callers import FindSecret
from lading.s3.hosts import BucketHosts
from lading.webdav.app import make_app as make_webdav
from lading.wiring.directory import DataDirectory


@dataclass(frozen=True, slots=True)
class OwnedCalls:
    """An application, and which calls are for it."""

    app: ASGIApp
    owns: Callable[[Scope], bool]


@dataclass(frozen=True, slots=True)
class FileServers:
    """The application for WebDAV, and that for S3 with its calls."""

    webdav: ASGIApp
    s3: OwnedCalls


def make_file_servers(
    transport: Transport, config: Config, directory: DataDirectory, *, find_secret: FindSecret
) -> FileServers:
    """The servers of files for the API and the block store that `transport` leads to. `find_secret`
    answers the secret of a key of S3.
    """
    anonymous, rate = config.Users.AnonymousUserToken, config.API.MinTransferRate
    services = make_file_services(
        transport,
        cache=directory.cache / "files",
        cache_bytes=config.Collections.WebDAVCacheSize,
        anonymous=anonymous,
    )
    hosts = BucketHosts(config.S3.Host)
    s3 = make_s3(
        services,
        hosts=hosts,
        find_secret=find_secret,
        clock=_now,
        anonymous=anonymous,
        min_rate=rate,
        upload_seconds=config.S3.UploadLifetime,
    )
    webdav = make_webdav(services, anonymous=anonymous, min_rate=rate)
    return FileServers(webdav, OwnedCalls(s3, hosts.owns))


def _now() -> datetime:
    return datetime.now(UTC)
