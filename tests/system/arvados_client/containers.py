"""Checks of a container request from end to end, as a workflow engine does it: submit, follow, read
the results.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.system.arvados_client.site import Heard, Record, Site, equal

import arvados.collection  # isort: skip
import arvados.events  # isort: skip


def _spec(site: Site, script: str, **more: Any) -> Record:
    return {
        "name": site.name("step"),
        "command": ["sh", "-ec", script],
        "container_image": site.image,
        "cwd": "/out",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 27},
        "priority": 500,
        "state": "Uncommitted",
        **more,
    }


def check_run_a_request(site: Site) -> None:
    heard = Heard()
    client = arvados.events.subscribe(site.api, [["event_type", "in", ["create", "update"]]], heard)
    try:
        made = site.made(
            "container_requests",
            _spec(site, "echo result >/out/r.txt; echo said", use_existing=False),
        )
        committed = dict(made, state="Committed")
        site.api.container_requests().update(uuid=made["uuid"], body=committed).execute()
        heard.wait(lambda one: _became(one, made["uuid"], "Final"), 60)
    finally:
        client.close()
    final = site.api.container_requests().get(uuid=made["uuid"]).execute()
    container = site.api.containers().get(uuid=final["container_uuid"]).execute()
    equal((container["state"], container["exit_code"]), ("Complete", 0))
    output = arvados.collection.CollectionReader(container["output"], api_client=site.api)
    with output.open("r.txt", "r") as file:
        equal(file.read(), "result\n")
    log = arvados.collection.CollectionReader(final["log_uuid"], api_client=site.api)
    with log.open(f"log for container {container['uuid']}/stdout.txt", "r") as file:
        assert file.read().endswith("said\n")
    page = site.api.container_requests().list(
        filters=[["container.exit_code", "=", 0], ["uuid", "=", made["uuid"]]],
        include=["container_uuid"],
    ).execute()  # fmt: skip
    equal([one["uuid"] for one in page["included"]], [container["uuid"]])
    marked = (
        site.api.container_requests()
        .update(uuid=made["uuid"], body={"properties": {"seen": True}})
        .execute()
    )
    equal(marked["properties"], {"seen": True})


def check_cancel_with_priority_as_text(site: Site) -> None:
    made = site.made(
        "container_requests", _spec(site, "sleep 60", state="Committed", use_existing=False)
    )
    _wait(
        lambda: (
            site.api.containers().get(uuid=made["container_uuid"]).execute()["state"] == "Running"
        )
    )
    site.api.container_requests().update(uuid=made["uuid"], body={"priority": "0"}).execute()
    _wait(
        lambda: site.api.container_requests().get(uuid=made["uuid"]).execute()["state"] == "Final"
    )
    equal(site.api.containers().get(uuid=made["container_uuid"]).execute()["state"], "Cancelled")


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _became(event: Record, uuid: str, state: str) -> bool:
    if event.get("object_uuid") != uuid:
        return False
    return bool(event["properties"]["new_attributes"]["state"] == state)
