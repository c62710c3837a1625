"""Probes of a server whose database or block store is away: it is not ready, and lives on."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from lading.client.transport import HttpTransport
from tests.postgres import BINARIES, PostgresServer, running_postgres
from tests.reality import need
from tests.system.cluster import Cluster, free_address, running_cluster

pytestmark = pytest.mark.system
# Seconds: of the probe in deploy/kubernetes, and until a change is seen.
PROBE, LIMIT = 5.0, 60.0
VOLUME = "zzzzz-nyw5e-000000000000000"


async def probe(cluster: Cluster, name: str) -> tuple[int, str]:
    """Status and body of a health endpoint, as the kubelet asks: by HTTPS, without a token."""
    async with HttpTransport(f"https://{cluster.address}", verify=False) as transport:
        answer = await transport.request("GET", f"/_health/{name}", headers={}, timeout=PROBE)
    return answer.status, answer.body.decode()


async def until(cluster: Cluster, status: int, words: str) -> None:
    """Wait until the server is ready, or not ready for a reason; it lives all the time."""
    begun = time.monotonic()
    while True:
        found = await probe(cluster, "ready")
        assert await probe(cluster, "live") == (200, '{"health":"OK"}')
        if found[0] == status and words in found[1]:
            return
        assert time.monotonic() - begun < LIMIT, found
        await asyncio.sleep(0.2)


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    """A database server that a test may stop."""
    need((BINARIES / "postgres").exists(), "PostgreSQL")
    with running_postgres() as server:
        yield server


@contextmanager
def halted(server: PostgresServer) -> Iterator[None]:
    """A database server that neither answers nor refuses."""
    assert server.process is not None
    # As another user the server is a child of the program that changed the user, or that itself.
    pids = [server.process.pid, *_below(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *_below(child))]


async def test_a_server_without_its_database_is_not_ready_and_is_not_restarted(
    tmp_path: Path,
) -> None:
    with own_postgres() as postgres:
        settings = {
            "PostgreSQL": {"Connection": dict(await postgres.fresh())},
            "Containers": {"Dispatcher": "none"},
        }
        with running_cluster(tmp_path / "x", yaml.safe_dump(settings)) as cluster:
            pids = cluster.pids("server")
            await until(cluster, 200, "OK")
            for _ in range(2):
                postgres.stop()
                await until(cluster, 503, "not ready: the database cannot be reached")
                assert str(postgres.port) not in (await probe(cluster, "ready"))[1]
                postgres.start()
                await until(cluster, 200, "OK")
            with halted(postgres):
                await until(cluster, 503, "not ready: the database does not answer within 3 s")
            await until(cluster, 200, "OK")
            assert cluster.pids("server") == pids


async def test_a_server_without_its_block_store_is_not_ready(tmp_path: Path) -> None:
    from moto.server import ThreadedMotoServer

    host, _, port = free_address().partition(":")
    store = ThreadedMotoServer(ip_address=host, port=int(port), verbose=False)
    store.start()
    endpoint = f"http://{host}:{port}"
    parameters = {
        "Bucket": "blocks", "Endpoint": endpoint, "AccessKeyID": "test", "SecretAccessKey": "test",
    }  # fmt: skip
    _make_bucket(endpoint)
    settings = {
        "Volumes": {VOLUME: {"Driver": "S3", "DriverParameters": parameters}},
        "Containers": {"Dispatcher": "none"},
    }
    with running_cluster(tmp_path / "x", yaml.safe_dump(settings)) as cluster:
        await until(cluster, 200, "OK")
        store.stop()
        await until(cluster, 503, "not ready: the block store ")


def _make_bucket(endpoint: str) -> None:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test",
        region_name="us-east-1",
    )  # fmt: skip
    client.create_bucket(Bucket="blocks")
    client.close()
