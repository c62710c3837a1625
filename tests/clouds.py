"""The driver `libcloud` against small services of this machine; libcloud's own code runs, from
log-in to removal.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from libcloud.common.azure_arm import AzureResourceManagementConnection
from libcloud.common.base import Connection
from libcloud.common.google import GoogleBaseAuthConnection, GoogleBaseConnection
from libcloud.http import LibcloudConnection

from lading.dispatch.fleets.cloud.drivers.driver import DriverSite
from lading.dispatch.fleets.cloud.drivers.libcloud import LibcloudDriver, open_libcloud
from tests.cloud_services import FakeAzure, FakeGoogle, FakeOpenStack, RestCloud, serving_cloud

CLOUDS: dict[str, type[FakeAzure | FakeGoogle | FakeOpenStack]] = {
    "azure": FakeAzure, "google": FakeGoogle, "openstack": FakeOpenStack,
}  # fmt: skip
Fake = FakeAzure | FakeGoogle | FakeOpenStack


@contextmanager
def running(name: str, directory: Path) -> Iterator[Any]:
    """One of the clouds; Azure's and Google's hosts, which libcloud has in its code, are on this
    machine meanwhile.
    """
    cloud = CLOUDS[name]()
    with serving_cloud(cloud), ExitStack() as stack:
        if isinstance(cloud, FakeGoogle):
            cloud.key_file = str(_key_file(directory))
        if not isinstance(cloud, FakeOpenStack):
            for one in (
                AzureResourceManagementConnection,
                GoogleBaseAuthConnection,
                GoogleBaseConnection,
            ):
                stack.callback(setattr, one, "conn_class", one.conn_class)
                one.conn_class = _to(cloud)
        yield cloud


@asynccontextmanager
async def driving(
    cloud: Fake, directory: Path, *, set_id: str = "one", **changed: object
) -> AsyncIterator[LibcloudDriver]:
    """The driver for it."""
    site = DriverSite(
        parameters=cloud.parameters | changed,
        tag="ArvadosInstanceSetID",
        set_id=set_id,
        directory=directory,
    )
    async with open_libcloud(site) as driver:
        yield driver


def _to(cloud: RestCloud) -> type[Connection]:
    there = urlsplit(cloud.endpoint)

    class Here(LibcloudConnection):  # type: ignore[misc]
        def __init__(self, host: str, port: int, secure: object = None, **more: Any) -> None:
            super().__init__(there.hostname, there.port, secure=False, **more)

    return Here


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _key_file(directory: Path) -> Path:
    key, path = _key(), directory / "key.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
