"""An S3 service for tests: moto's server in a thread, one for all tests of a run; every test gets
its own bucket.

With S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY in the environment it is the service that they
name.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from itertools import count
from typing import Any

_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Service:
    """Where it is, and who may use it."""

    endpoint: str
    key: str = "test"
    secret: str = "test"

    @functools.cache  # noqa: B019 - there is one service in a run
    def client(self) -> Any:
        """A client of it, always the same."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
        )


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and where it is."""

    service: Service
    name: str

    @property
    def parameters(self) -> dict[str, str | int | float | bool]:
        """The driver's parameters for it."""
        service = self.service
        return {
            "Bucket": self.name,
            "Endpoint": service.endpoint,
            "AccessKeyID": service.key,
            "SecretAccessKey": service.secret,
        }

    def write(self, key: str, data: bytes) -> None:
        """Put an object there behind everyone's back."""
        self.service.client().put_object(Bucket=self.name, Key=key, Body=data)


@functools.cache
def _service() -> Service:
    if endpoint := os.environ.get("S3_ENDPOINT"):
        return Service(endpoint, os.environ["S3_ACCESS_KEY"], os.environ["S3_SECRET_KEY"])
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return Service(f"http://{host}:{port}")


def make_bucket() -> Bucket:
    """A new bucket; the service is started when it is the first."""
    service = _service()
    made = Bucket(service, f"lading-{os.getpid()}-{next(_NUMBERS)}")
    service.client().create_bucket(Bucket=made.name)
    return made
