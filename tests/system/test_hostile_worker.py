"""Scoped trust (docs/spec/containers, section Tokens): a worker with one container and a hostile
root.

The test plays both sides against a real server over HTTPS: a dispatcher that locks one of Alice's
containers, and the machine that gets its assignment. Root on that machine reads everything there
is: both tokens, the inputs, the image. It then tries, with either token and with none, to read,
change and lock what is not its own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import pytest

from tests.system.cluster import Cluster, running_cluster
from tests.system.test_bad_input import Api

pytestmark = pytest.mark.system
# Nothing is dispatched here but by the test itself.
CONFIG = "Local: {VCPUs: 1, RAM: 1MiB}\n"
SECRET = "what nobody else may know"
DATA = b"alice's other data"


@dataclass(frozen=True)
class Scene:
    """The server, what the worker holds, and what it is after."""

    api: Api
    cluster: Cluster
    supervisor: str
    own: str
    mine: str
    other: str
    foreign: str
    request: str
    input: str
    image: str
    others: dict[str, str]

    def send(self, token: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of one call."""
        full = path if path.startswith("/") else f"/arvados/v1/{path}"
        status, text = self.api.send(method, full, body, token=token)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text


def _token_of(api: Api, admin: str, email: str) -> str:
    def call(method: str, path: str, body: object = None) -> Any:
        status, text = api.send(method, f"/arvados/v1/{path}", body, token=admin)
        assert status == 200, text
        return json.loads(text)

    user = call(
        "POST",
        "users",
        {"user": {"email": email, "username": email.partition("@")[0], "is_active": True}},
    )
    auth = call(
        "POST",
        "api_client_authorizations",
        {"api_client_authorization": {"owner_uuid": user["uuid"]}},
    )
    return f"v2/{auth['uuid']}/{auth['api_token']}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("hostile") / "data", CONFIG) as running:
        yield running


@pytest.fixture(scope="module", params=[False, True], ids=["without API", "with API"])
def scene(cluster: Cluster, request: pytest.FixtureRequest) -> Scene:
    api, admin = Api(cluster), cluster.environment["ARVADOS_API_TOKEN"]
    name = "b" if request.param else "a"
    alice, bob = (_token_of(api, admin, f"{who}{name}@example.org") for who in ("alice", "bob"))

    def ok(token: str, method: str, path: str, body: object = None) -> Any:
        status, text = api.send(method, f"/arvados/v1/{path}", body, token=token)
        assert status == 200, (method, path, text)
        return json.loads(text)

    def collection(token: str, data: bytes, name: str = "x") -> Any:
        status, text = api.send("PUT", f"/{md5(data).hexdigest()}", data, token=token)
        assert status == 200, text
        manifest = f". {text.strip()} 0:{len(data)}:{name}\n"
        return ok(token, "POST", "collections", {"collection": {"manifest_text": manifest}})

    def container(
        token: str, command: str, image: str, mounts: dict[str, Any], **more: Any
    ) -> tuple[str, str]:
        spec = {
            "state": "Committed",
            "priority": 1,
            "command": [command],
            "container_image": image,
            "cwd": "/",
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1}, **mounts},
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 26, "API": request.param},
            **more,
        }
        made = ok(token, "POST", "container_requests", {"container_request": spec})
        return made["uuid"], made["container_uuid"]

    known = json.loads((cluster.data / "secrets.json").read_text())
    dispatcher = f"v2/{known['dispatch_token_uuid']}/{known['dispatch_token_secret']}"
    image = collection(alice, b"image" + name.encode(), "sha256:0.tar")
    input_ = collection(alice, b"input" + name.encode())
    private = collection(alice, DATA + name.encode())
    theirs = collection(bob, b"bob's" + name.encode())
    bobs_image = collection(bob, b"bob's image" + name.encode(), "sha256:1.tar")
    mount = {"/in": {"kind": "collection", "portable_data_hash": input_["portable_data_hash"]}}
    secrets = {"/key": {"kind": "text", "content": SECRET}}
    wanted, mine = container(alice, f"mine{name}", image["portable_data_hash"], mount)
    _, other = container(
        alice, f"other{name}", image["portable_data_hash"], {}, secret_mounts=secrets
    )
    bobs, foreign = container(
        bob, f"foreign{name}", bobs_image["portable_data_hash"], {}, secret_mounts=secrets
    )
    locked = ok(dispatcher, "POST", f"containers/{mine}/lock", {})
    supervisor = locked["supervisor_token"]
    auth = ok(supervisor, "GET", f"containers/{mine}/auth")
    return Scene(
        api=api,
        cluster=cluster,
        supervisor=supervisor,
        own=f"v2/{auth['uuid']}/{auth['api_token']}/{mine}",
        mine=mine,
        other=other,
        foreign=foreign,
        request=wanted,
        input=input_["portable_data_hash"],
        image=image["portable_data_hash"],
        others={
            "alice's private data": private["uuid"],
            "bob's data": theirs["uuid"],
            "bob's data by hash": theirs["portable_data_hash"],
            "bob's request": bobs,
        },
    )


def test_it_can_do_its_work(scene: Scene) -> None:
    assert scene.send(scene.supervisor, "GET", f"containers/{scene.mine}")[0] == 200
    assert scene.send(scene.own, "GET", f"containers/{scene.mine}/secret_mounts")[0] == 200
    for pdh in (scene.input, scene.image):
        assert scene.send(scene.own, "GET", f"collections/{pdh}")[0] == 200


@pytest.mark.parametrize(
    "action", ["", "/auth", "/secret_mounts", "/lock", "/unlock", "/live/x", "/git_tree"]
)
@pytest.mark.parametrize("whose", ["other", "foreign"])
def test_other_containers_cannot_be_read_changed_or_locked(
    scene: Scene, whose: str, action: str
) -> None:
    uuid = getattr(scene, whose)
    before = _as_admin(scene, f"containers/{uuid}")
    for token in (scene.supervisor, scene.own):
        for method in ("GET", "POST", "PUT", "DELETE"):
            body = {"container": {"state": "Cancelled", "priority": 0}}
            status, said = scene.send(
                token, method, f"containers/{uuid}{action}", body if method != "GET" else None
            )
            # With the user's rights one sees the user's own containers, and no more of them than
            # that.
            alices = whose == "other" and token == scene.own and _may_use_api(scene)
            readable = alices and method == "GET" and action == ""
            assert status in ((200,) if readable else (401, 403, 404, 405, 422)), (
                method,
                action,
                said,
            )
            assert SECRET not in json.dumps(said)
    assert _as_admin(scene, f"containers/{uuid}") == before


@pytest.mark.parametrize(
    "path",
    [
        "users", "api_client_authorizations", "container_requests", "containers", "collections",
        "groups", "links", "logs", "repositories", "workflows", "credentials", "nodes", "config",
    ],
)  # fmt: skip
def test_lists_show_nothing_to_it(scene: Scene, path: str) -> None:
    status, _ = scene.send(scene.supervisor, "GET", path)
    assert status in (401, 403, 404) or path == "config"
    status, said = scene.send(scene.own, "GET", path)
    if not _may_use_api(scene):
        assert status in (401, 403, 404) or path == "config"
    shown = json.dumps(said)
    assert SECRET not in shown
    for uuid in (scene.foreign, scene.others["bob's request"], scene.others["bob's data"]):
        assert uuid not in shown


@pytest.mark.parametrize("what", ["alice's private data", "bob's data", "bob's data by hash"])
def test_collections_of_others_stay_hidden(scene: Scene, what: str) -> None:
    for token in (scene.supervisor, scene.own):
        for method in ("GET", "PUT", "DELETE"):
            body = None if method == "GET" else {"collection": {"name": "taken"}}
            status, said = scene.send(token, method, f"collections/{scene.others[what]}", body)
            if what.startswith("alice") and token == scene.own and _may_use_api(scene):
                continue
            assert status in (401, 403, 404, 405), (method, said)


def test_requests_cannot_be_made_or_changed(scene: Scene) -> None:
    before = _as_admin(scene, f"container_requests/{scene.request}")
    assert scene.send(scene.supervisor, "GET", f"container_requests/{scene.request}")[0] in (
        403,
        404,
    )
    for uuid in (scene.request, scene.others["bob's request"]):
        body = {"container_request": {"priority": 0}}
        assert scene.send(scene.supervisor, "PUT", f"container_requests/{uuid}", body)[0] in (
            403,
            404,
        )
    theirs = "container_requests/" + scene.others["bob's request"]
    assert scene.send(scene.own, "PUT", theirs, {"container_request": {"priority": 0}})[0] in (
        403,
        404,
    )
    made = {
        "container_request": {
            "command": ["true"],
            "container_image": scene.image,
            "output_path": "/",
        }
    }
    assert scene.send(scene.supervisor, "POST", "container_requests", made)[0] == 403
    if not _may_use_api(scene):
        assert scene.send(scene.own, "POST", "container_requests", made)[0] == 403
    assert _as_admin(scene, f"container_requests/{scene.request}") == before


def test_no_token_can_be_made_of_these(scene: Scene) -> None:
    for token in (scene.supervisor, scene.own):
        for path in ("api_client_authorizations", "api_client_authorizations/create_system_auth"):
            body = {"api_client_authorization": {"scopes": ["all"]}}
            status, said = scene.send(token, "POST", path, body)
            assert status in (401, 403, 404, 405, 422), (path, said)


def test_blocks_need_a_signature_for_the_token(scene: Scene) -> None:
    name = "b" if _may_use_api(scene) else "a"
    hidden = DATA + name.encode()
    locator = f"{md5(hidden).hexdigest()}+{len(hidden)}"
    _, alices = scene.send(scene.own, "GET", f"collections/{scene.input}")
    stolen = alices["manifest_text"].split()[1].partition("+A")[2]
    for token in (scene.supervisor, scene.own):
        for hint in ("", "+A" + "0" * 40 + "@ffffffff", f"+A{stolen}"):
            status, said = scene.send(token, "GET", f"/{locator}{hint}")
            assert status in (400, 401, 403, 404), (hint, said)
            assert "alice" not in str(said)


def test_the_cluster_cannot_be_asked_for_more(scene: Scene) -> None:
    for token in (scene.supervisor, scene.own):
        for path in ("/mounts", "/debug.json", "/index", "/arvados/v1/dispatch/statuses"):
            for method in ("GET", "POST"):
                status, said = scene.send(token, method, path, {} if method == "POST" else None)
                assert status != 200 or "SECRET" not in json.dumps(said).upper(), (path, said)


def test_the_servers_socket_trusts_nobody_for_being_there(scene: Scene) -> None:
    """Root on the server's own machine may connect; a token is asked for all the same, and files
    are private.
    """
    path = scene.cluster.data / "api.sock"
    assert path.stat().st_mode & 0o077 == 0
    assert (scene.cluster.data / "secrets.json").stat().st_mode & 0o077 == 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(
            b"GET /arvados/v1/users HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 401")


def test_the_token_ends_with_the_container(scene: Scene) -> None:
    """Last in this module: it ends the container."""
    end = {"container": {"state": "Cancelled"}}
    assert scene.send(scene.supervisor, "PUT", f"containers/{scene.mine}", end)[0] == 200
    for token in (scene.supervisor, scene.own):
        assert scene.send(token, "GET", f"containers/{scene.mine}")[0] == 401
        assert scene.send(token, "PUT", f"/{md5(b'late').hexdigest()}", b"late")[0] in (401, 403)


def _may_use_api(scene: Scene) -> bool:
    return bool(_as_admin(scene, f"containers/{scene.mine}")["runtime_constraints"]["API"])


def _as_admin(scene: Scene, path: str) -> Any:
    status, said = scene.send(scene.cluster.environment["ARVADOS_API_TOKEN"], "GET", path)
    assert status == 200, said
    return said
