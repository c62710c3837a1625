"""Dispatchers: what a stolen token of a dispatcher does to containers that it does not hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.reality import need_root
from tests.security.stranger import Record, Stranger
from tests.security.test_container_writers import ended, of, started
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
UPGRADE = {"Connection": "Upgrade", "Upgrade": "ssh"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("dispatchers") / "data") as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        yield Stranger(cluster)


@pytest.fixture(params=["lading", "arvados"])
def stolen(request: pytest.FixtureRequest, site: Stranger) -> str:
    """The token of a further dispatcher."""
    file = site.cluster.data.parent / f"join-{request.param}"
    if not file.exists():
        options = ["--for-arvados"] if request.param == "arvados" else []
        data = str(site.cluster.data)
        site.cluster.lading("admin", "dispatcher-token", *options, str(file), "--data", data)
    return str(json.loads(file.read_text())["token"])


@pytest.fixture(scope="module")
def result(site: Stranger) -> Record:
    """A request that has a result."""
    made = started(site, "sleep 2", use_existing=True)
    assert ended(site, made)["state"] == "Complete"
    return made


@pytest.fixture(scope="module")
def running(site: Stranger) -> Iterator[Record]:
    """A request whose container runs."""
    made = started(site, "sleep 600")
    yield made
    site.cluster.lading("request", "cancel", made["uuid"])
    ended(site, made)


@pytest.mark.attack("a dispatcher takes a result of another one out of reuse")
def test_results(site: Stranger, stolen: str, result: Record) -> None:
    path = f"containers/{result['container_uuid']}"
    assert site.call("PUT", path, {"state": "Cancelled"}, token=stolen).status == 404
    assert site.call("POST", f"{path}/withdraw", {"reason": "x"}, token=stolen).status == 403
    assert site.call("GET", path, token=stolen).status == 404
    assert of(site, result)["state"] == "Complete"
    again = started_again(site, result)
    assert again["container_uuid"] == result["container_uuid"]


def started_again(site: Stranger, request: Record) -> Record:
    """An equal request."""
    names = ("command", "container_image", "output_path", "mounts", "runtime_constraints")
    body = {name: request[name] for name in names} | {"priority": 1, "state": "Committed"}
    return site.ok("POST", "container_requests", body)


@pytest.mark.attack("a dispatcher changes the priority of what waits, or cancels it")
def test_waiting_containers(site: Stranger, stolen: str) -> None:
    spec = {
        "command": ["true"],
        "container_image": "tools:1",
        "output_path": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
        "runtime_constraints": {"ram": 1 << 50, "vcpus": 1},
        "use_existing": False,
        "priority": 1,
        "state": "Committed",
    }
    request = site.ok("POST", "container_requests", spec)
    path, before = f"containers/{request['container_uuid']}", of(site, request)
    for body in ({"priority": 0}, {"priority": 12345}, {"state": "Cancelled"}):
        assert site.call("PUT", path, body, token=stolen).status == 422, body
    after = of(site, request)
    assert (after["state"], after["priority"]) == ("Queued", before["priority"])
    site.cluster.lading("request", "cancel", request["uuid"])


@pytest.mark.attack("a dispatcher enters a container, reads its token, or ends it")
def test_running_containers(site: Stranger, stolen: str, running: Record) -> None:
    uuid = running["container_uuid"]
    for path in (f"containers/{uuid}/ssh", f"connect/{uuid}/ssh", f"connect/{running['uuid']}/ssh"):
        answer = site.send("POST", f"/arvados/v1/{path}", b"", token=stolen, headers=UPGRADE)
        assert answer.status in (403, 404), path
    path = f"containers/{uuid}"
    assert site.call("GET", f"{path}/auth", token=stolen).status == 404
    assert site.call("GET", path, token=stolen).status == 404
    for body in ({"state": "Cancelled"}, {"priority": 0}, {"runtime_status": {"error": "x"}}):
        assert site.call("PUT", path, body, token=stolen).status == 404, body
    found = of(site, running)
    assert (found["state"], found["interactive_session_started"]) == ("Running", False)


@pytest.mark.attack("a dispatcher enters a container that it holds")
def test_a_held_container(site: Stranger, stolen: str) -> None:
    """Made by an admin without a request, so that no other dispatcher takes it."""
    made = site.ok(
        "POST",
        "containers",
        {"command": ["true"], "container_image": f"{'0' * 32}+5", "output_path": "/out"},
    )
    path = f"containers/{made['uuid']}"
    assert site.call("PUT", path, {"state": "Locked", "priority": 5}, token=stolen).status == 422
    site.ok("PUT", path, {"priority": 1})
    # The site's own dispatcher may be first; then the stolen token has nothing.
    locked = site.call("POST", f"{path}/lock", token=stolen)
    for name in ("containers", "connect"):
        where = f"/arvados/v1/{name}/{made['uuid']}/ssh"
        assert site.send("POST", where, b"", token=stolen, headers=UPGRADE).status in (403, 404)
    if locked.status == 200:
        site.ok("PUT", path, {"state": "Cancelled"}, token=stolen)


@pytest.mark.attack("a dispatcher puts its words into the explanation of others' containers")
def test_explanations(site: Stranger, stolen: str, running: Record) -> None:
    uuid = running["container_uuid"]
    kinds = ("decided_to_run", "dispatched", "cleaned_up_crashed", "lock_failed")
    events = [
        {"container_uuid": uuid, "event_type": kind, "text": "forged words", "age": 0.0}
        for kind in kinds
    ]
    body = {"items": {uuid: {"reason": "held", "sentence": "forged words"}}, "events": events}
    assert site.ok("POST", "dispatch/statuses", body, token=stolen)["events"] <= 1
    row = {"event_type": "dispatch", "summary": "forged words", "object_uuid": uuid}
    assert site.call("POST", "logs", row, token=stolen).status == 404
    path = f"container_requests/{running['uuid']}"
    for answer in (site.ok("GET", f"{path}/why"), site.ok("GET", f"{path}/container_status")):
        assert "forged words" not in str(answer)
