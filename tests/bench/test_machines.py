"""Dispatchers that run nothing, and what is said of them."""

from __future__ import annotations

from pathlib import Path

from bench.machines.made_up import LOG_FILES, MadeUpSupervisor, log_of, manifest_of
from bench.machines.measure import _Row
from bench.machines.site import Spent
from lading.core.data import filetree
from lading.core.values import JsonObject
from lading.dispatch.fleet import StartRequest
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import (
    AUTH_SECRET,
    AUTH_UUID,
    CONTAINER,
    SUPERVISOR_TOKEN,
    FakeServer,
)


async def test_a_made_up_supervisor_makes_the_calls_of_a_short_container(tmp_path: Path) -> None:
    server = FakeServer()
    record = server.add_container(
        command=["sh", "-c", "true", "7"], secret_mounts_md5="99914b932bd37a50b983c5e7c90ae93b"
    )
    known: JsonObject = {
        "container": dict(record),
        "auth": {"uuid": AUTH_UUID, "api_token": AUTH_SECRET},
    }
    supervisor = MadeUpSupervisor("https://server", AsgiTransport(server), tmp_path)
    await supervisor.supervise(
        StartRequest(uuid=CONTAINER, worker="w", token=SUPERVISOR_TOKEN, records=known)
    )
    assert server.calls == ["PUT containers", "POST finish"]
    ended = server.containers[CONTAINER]
    assert (ended["state"], ended["exit_code"]) == ("Complete", 0)
    assert server.files(str(ended["output"])) == {"number": b"7\n"}
    assert {name: len(data) for name, data in server.files(str(ended["log"])).items()} == LOG_FILES


def test_a_manifest_names_the_files_of_its_block() -> None:
    tree = filetree.from_manifest(manifest_of(log_of(CONTAINER), LOG_FILES))
    assert {path: file.size for path, file in filetree.files(tree)} == LOG_FILES
    assert log_of(CONTAINER) != log_of(CONTAINER[:-1] + "x")


def test_a_row_has_processor_time_of_one_container_and_the_rate_of_a_full_core() -> None:
    row = _Row("4 dispatchers", 100)
    row.add(2.0, Spent(1.0, 0.5, 0.2), 0.1)
    figure = row.figure()
    assert (figure.rate, figure.server, figure.database) == (50.0, 10.0, 5.0)
    assert round(figure.client or 0, 6) == 3.0
    assert figure.note == "servers busy 0.50 cores"
    limit = row.limit()
    assert (limit.name, limit.rate) == ("a server process fills a core at, 4 dispatchers", 100.0)
    assert Spent(3.0, 2.0, 1.0).since(Spent(1.0, 1.0, 1.0)) == Spent(2.0, 1.0, 0.0)
