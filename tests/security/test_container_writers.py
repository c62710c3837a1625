"""Records of containers: what the token of a container can make of the container's own record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.reality import need_root
from tests.security.stranger import Record, Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
PATIENCE = 60.0
FORGED: dict[str, object] = {
    "exit_code": 0,
    "cost": 0.25,
    "subrequests_cost": 0.25,
    "usage": {"memory": 1},
    "log": f"{'f' * 32}+5",
    "output": f"{'f' * 32}+5",
    "runtime_status": {"failure": "preempted"},
    "priority": 1 << 60,
    "finished_at": "2001-01-01T00:00:00Z",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("writers") / "data") as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "sleep")
        yield Stranger(cluster)


def eventually(ask: Callable[[], Record | None]) -> Record:
    """What `ask` gives once it gives something."""
    deadline = time.monotonic() + PATIENCE
    while (found := ask()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def started(site: Stranger, script: str, **more: object) -> Record:
    """A request of the admin whose container runs and may use the API."""
    made = site.ok(
        "POST",
        "container_requests",
        {
            "command": ["sh", "-c", script],
            "container_image": "tools:1",
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
            "runtime_constraints": {"ram": 1 << 28, "vcpus": 1, "API": True},
            "use_existing": False,
            "priority": 1,
            "state": "Committed",
            **more,
        },
    )
    eventually(lambda: container if (container := of(site, made))["state"] == "Running" else None)
    return made


def of(site: Stranger, request: Record) -> Record:
    """The container of a request."""
    return site.ok("GET", f"containers/{request['container_uuid']}")


def ended(site: Stranger, request: Record) -> Record:
    """The container of a request, once it has ended."""
    return eventually(lambda: one if (one := of(site, request))["finished_at"] else None)


def token_inside(site: Stranger, request: Record) -> str:
    """The token that the command of a request has printed."""

    def printed() -> Record | None:
        said = site.cluster.lading("request", "logs", request["uuid"], check=False).stdout
        return {"token": said.strip()} if said.strip().startswith("v2/") else None

    return str(eventually(printed)["token"])


@pytest.mark.attack("a command writes its own state, exit code, cost, log or class of failure")
def test_a_command_writes_its_own_verdict(site: Stranger) -> None:
    request = started(site, "echo $ARVADOS_API_TOKEN; sleep 600")
    own, path = token_inside(site, request), f"containers/{request['container_uuid']}"
    before = of(site, request)
    for name, value in FORGED.items():
        assert site.call("PUT", path, {name: value}, token=own).status == 422, name
    for state in ("Complete", "Cancelled", "Queued", "Locked"):
        body = {"state": state, "exit_code": 0, "cost": 0}
        assert site.call("PUT", path, body, token=own).status in (409, 422), state
    for action in ("finish", "unlock", "lock", "live/stdout.txt?offset=0"):
        end: Record = {"container": {"state": "Complete", "exit_code": 0}, "collections": {}}
        assert site.call("POST", f"{path}/{action}", end, token=own).status in (403, 422), action
    after = of(site, request)
    # The supervisor itself may have reported cost and status meanwhile.
    assert {name: after[name] for name in FORGED.keys() - {"cost"}} == {
        name: before[name] for name in FORGED.keys() - {"cost"}
    }
    site.ok("PUT", path, {"runtime_status": {"activity": "waits"}, "progress": 0.5}, token=own)
    site.cluster.lading("request", "cancel", request["uuid"])
    assert ended(site, request)["state"] == "Cancelled"


@pytest.mark.attack("a command announces an output, and has its container cancelled with it")
def test_an_announced_output_counts_at_the_end_alone(site: Stranger) -> None:
    announced = site.collection(b"announced")["portable_data_hash"]
    for seconds, outcome in (("600", "Cancelled"), ("2", "Complete")):
        request = started(site, f"echo $ARVADOS_API_TOKEN; sleep {seconds}")
        path = f"containers/{request['container_uuid']}"
        site.ok("PUT", path, {"output": announced}, token=token_inside(site, request))
        assert site.ok("GET", f"container_requests/{request['uuid']}")["output_uuid"] is None
        if outcome == "Cancelled":
            site.cluster.lading("request", "cancel", request["uuid"])
        container = ended(site, request)
        expected = announced if outcome == "Complete" else None
        assert (container["state"], container["output"]) == (outcome, expected), str(container)


@pytest.mark.attack("a user forges a result with the runtime token that the own request has")
def test_a_runtime_token_forges_no_result(site: Stranger) -> None:
    known = site.token(owner=of_admin(site))
    request = started(site, "echo $ARVADOS_API_TOKEN; sleep 600", runtime_token=known)
    uuid, inside = request["container_uuid"], token_inside(site, request)
    assert inside.split("/")[1] != known.split("/")[1]
    forged = site.collection(b"forged")["portable_data_hash"]
    for body in ({"output": forged}, {"state": "Complete", "exit_code": 0}):
        for token, status in ((f"{known}/{uuid}", 401), (known, 422)):
            assert site.call("PUT", f"containers/{uuid}", body, token=token).status == status
    # It acts as its user, as the container does.
    user = site.ok("GET", "users/current", token=inside)["uuid"]
    assert user == site.ok("GET", "users/current", token=known)["uuid"]
    assert site.ok("GET", "containers/current", token=inside)["uuid"] == uuid
    site.cluster.lading("request", "cancel", request["uuid"])
    assert ended(site, request)["output"] is None


def of_admin(site: Stranger) -> str:
    """The uuid of the admin."""
    return str(site.ok("GET", "users/current")["uuid"])
