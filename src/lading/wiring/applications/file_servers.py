"""Makes the servers of files of collections, which share their caches."""

from __future__ import annotations

from starlette.types import ASGIApp

from lading.client.transport import Transport
from lading.config.site import Config
from lading.fileserving.services import make_file_services
from lading.webdav.app import make_app as make_webdav
from lading.wiring.directory import DataDirectory


def make_file_servers(transport: Transport, config: Config, directory: DataDirectory) -> ASGIApp:
    """The servers of files for the API and the block store that `transport` leads to."""
    anonymous, rate = config.Users.AnonymousUserToken, config.API.MinTransferRate
    services = make_file_services(
        transport,
        cache=directory.cache / "files",
        cache_bytes=config.Collections.WebDAVCacheSize,
        anonymous=anonymous,
    )
    return make_webdav(services, anonymous=anonymous, min_rate=rate)
