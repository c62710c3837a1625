"""Bad input over real HTTPS: one line that names the fault, the documented status, and nothing
changed.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
BLOCK = b"some data\n"
LOCATOR = f"{md5(BLOCK).hexdigest()}+{len(BLOCK)}"
UNSIGNED = f". {LOCATOR} 0:10:file\n"
TRAVERSAL = {"/a/../b": {"kind": "tmp"}}
MOUNTS = {"/out": {"kind": "tmp", "capacity": 1}}
REQUEST = {
    "state": "Committed",
    "priority": 1,
    "command": ["true"],
    "container_image": "tools:1",
    "cwd": "/",
    "output_path": "/out",
    "mounts": MOUNTS,
    "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
}


@dataclass(frozen=True)
class Api:
    """A plain HTTPS client, so that nothing between the test and the server tidies the input up."""

    cluster: Cluster

    def send(
        self, method: str, path: str, body: object = None, *, token: str = ""
    ) -> tuple[int, str]:
        """Send one request; a `bytes` body goes out as it is, anything else as JSON."""
        host, _, port = self.cluster.address.rpartition(":")
        context = ssl.create_default_context(cafile=str(self.cluster.data / "tls.crt"))
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        headers = {
            "Authorization": f"Bearer {token or self.cluster.environment['ARVADOS_API_TOKEN']}"
        }
        if isinstance(body, bytes):
            data: bytes | None = body
        else:
            data = None if body is None else json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            # A body that is too large is not read to its end: the answer is there already.
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def record(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send what must succeed; the answer."""
        status, text = self.send(method, path, body)
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def census(self) -> dict[str, int]:
        """How many records of each type there are."""
        kinds = ("container_requests", "containers", "collections", "links", "logs", "users")
        path = "/arvados/v1/{}?limit=0&include_trash=true"
        return {
            kind: int(self.record("GET", path.format(kind))["items_available"]) for kind in kinds
        }


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_cluster(tmp_path_factory.mktemp("bad-input") / "data") as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "true")
        yield Api(cluster)


def _request(**changes: object) -> dict[str, object]:
    return REQUEST | changes


REQUESTS = "/arvados/v1/container_requests"
COLLECTIONS = "/arvados/v1/collections"
CASES = [
    ("malformed JSON", "POST", REQUESTS, b'{"name": ', 400, "JSON"),
    ("not an object", "POST", REQUESTS, [1, 2], 400, "must be a JSON object"),
    ("unknown attribute", "POST", REQUESTS, _request(colour="red"), 422, "colour"),
    ("wrong type: command", "POST", REQUESTS, _request(command="true"), 422, "(?i)command"),
    ("wrong type: priority", "POST", REQUESTS, _request(priority="high"), 422, "(?i)priority"),
    ("priority out of range", "POST", REQUESTS, _request(priority=1001), 422, "(?i)priority"),
    ("wrong type: mounts", "POST", REQUESTS, _request(mounts=[]), 422, "(?i)mounts"),
    ("missing image", "POST", REQUESTS, _request(container_image="no-such:1"), 422, "no-such:1"),
    (
        "unreadable collection",
        "POST",
        REQUESTS,
        _request(
            mounts=MOUNTS | {"/in": {"kind": "collection", "uuid": "zzzzz-4zz18-000000000000000"}}
        ),
        422,
        "zzzzz-4zz18-000000000000000",
    ),
    (
        "path traversal in a target",
        "POST",
        REQUESTS,
        _request(mounts=MOUNTS | {"/a/../b": {"kind": "tmp"}}),
        422,
        "/a/",
    ),
    (
        "path traversal in a mount path",
        "POST",
        REQUESTS,
        _request(
            mounts=MOUNTS
            | {
                "/in": {
                    "kind": "collection",
                    "portable_data_hash": "d41d8cd98f00b204e9800998ecf8427e+0",
                    "path": "../x",
                }
            }
        ),
        422,
        r"\.\./x|/in",
    ),
    (
        "output is no mount",
        "POST",
        REQUESTS,
        _request(output_path="/elsewhere"),
        422,
        "(?i)output.path",
    ),
    ("no ram", "POST", REQUESTS, _request(runtime_constraints={"vcpus": 1}), 422, "ram"),
    ("bad manifest", "POST", COLLECTIONS, {"manifest_text": "nonsense"}, 422, "(?i)manifest"),
    (
        "path traversal in a manifest",
        "POST",
        COLLECTIONS,
        {"manifest_text": "./.. " + UNSIGNED[2:]},
        422,
        r"\.\.",
    ),
    (
        "unknown filter attribute",
        "GET",
        f'{COLLECTIONS}?filters=[["colour","=","red"]]',
        None,
        422,
        "colour",
    ),
    ("unknown select", "GET", f'{COLLECTIONS}?select=["colour"]', None, 422, "colour"),
    ("bad limit", "GET", f"{COLLECTIONS}?limit=many", None, 422, "limit"),
    ("no such route", "GET", "/arvados/v1/colours", None, 404, "API endpoint not found"),
    ("wrong method", "DELETE", COLLECTIONS, None, 405, "API endpoint not found"),
    ("absent record", "GET", f"{COLLECTIONS}/zzzzz-4zz18-000000000000000", None, 404, "not found"),
    (
        "a user cannot make containers of no kind",
        "POST",
        "/arvados/v1/containers",
        {"command": 5},
        422,
        ".",
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "fault"),
    [case[1:] for case in CASES],
    ids=[c[0] for c in CASES],
)
def test_it_is_refused_and_changes_nothing(
    api: Api, method: str, path: str, body: object, status: int, fault: str
) -> None:
    before = api.census()
    answered, text = api.send(method, path.replace('"', "%22"), body)
    assert answered == status, text
    (message,) = json.loads(text)["errors"]
    assert re.search(fault, message), message
    assert "\n" not in message
    assert api.census() == before


def test_an_oversized_body_is_refused(api: Api) -> None:
    before = api.census()
    status, _ = api.send("POST", COLLECTIONS, b'{"name": "' + b"x" * (129 << 20) + b'"}')
    assert status == 413
    assert api.census() == before


def test_an_oversized_block_is_refused(api: Api) -> None:
    status, text = api.send("PUT", "/" + "0" * 32, b"x" * ((64 << 20) + 1))
    assert status == 413, text


def test_a_block_whose_hash_differs_is_refused(api: Api) -> None:
    status, text = api.send("PUT", "/" + "0" * 32, BLOCK)
    assert (status, text.count("\n")) == (400, 1), text


@pytest.mark.parametrize("hint", ["", f"+A{'0' * 40}@ffffffff"])
def test_a_block_is_read_and_named_by_its_signature_only(api: Api, hint: str) -> None:
    token = _user_token(api)
    assert api.send("PUT", f"/{md5(BLOCK).hexdigest()}", BLOCK)[0] == 200
    before = api.census()
    answered, text = api.send("GET", f"/{LOCATOR}{hint}", token=token)
    assert (answered, "some data" in text) == (400, False), text
    answered, text = api.send(
        "POST", COLLECTIONS, {"manifest_text": f". {LOCATOR}{hint} 0:10:file\n"}, token=token
    )
    assert (answered, "signature" in text) == (403, True), text
    assert api.census() == before


def test_an_expired_signature_is_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data", "Collections: {BlobSigningTTL: 1s}\n") as cluster:
        api = Api(cluster)
        token = _user_token(api)
        _, locator = api.send("PUT", f"/{md5(BLOCK).hexdigest()}", BLOCK, token=token)
        time.sleep(2.1)
        answered, text = api.send("GET", f"/{locator.strip()}", token=token)
        assert (answered, "some data" in text) == (401, False), text
        manifest = f". {locator.strip()} 0:10:file\n"
        answered, text = api.send("POST", COLLECTIONS, {"manifest_text": manifest}, token=token)
        assert (answered, "expired" in text) == (403, True), text


def _user_token(api: Api) -> str:
    user = api.record("POST", "/arvados/v1/users", {"is_active": True})
    made = api.record("POST", "/arvados/v1/api_client_authorizations", {"owner_uuid": user["uuid"]})
    return f"v2/{made['uuid']}/{made['api_token']}"


def test_a_corrupt_block_is_reported_and_never_served(api: Api) -> None:
    data = b"will be damaged\n"
    _, locator = api.send("PUT", f"/{md5(data).hexdigest()}", data)
    (stored,) = (api.cluster.data / "blocks").rglob(md5(data).hexdigest())
    stored.chmod(0o600)
    stored.write_bytes(b"Will be damaged\n")
    status, text = api.send("GET", f"/{locator.strip()}")
    assert status == 502
    assert "ill be damaged" not in text


@pytest.mark.parametrize("token", ["nonsense", "v2/zzzzz-gj3su-000000000000000/nonsense"])
def test_an_unknown_token_is_refused(api: Api, token: str) -> None:
    status, text = api.send("GET", COLLECTIONS, token=token)
    assert (status, "Not logged in" in text) == (401, True)


def test_an_illegal_state_change_is_refused(api: Api) -> None:
    made = api.record("POST", REQUESTS, _request(state="Uncommitted"))
    before = api.census()
    status, text = api.send("PUT", f"{REQUESTS}/{made['uuid']}", {"state": "Final"})
    assert (status, "State cannot change" in text) == (422, True), text
    assert api.record("GET", f"{REQUESTS}/{made['uuid']}")["state"] == "Uncommitted"
    assert api.census() == before
