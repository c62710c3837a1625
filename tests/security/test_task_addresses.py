"""URLs of tasks that lead the server to itself, its inside networks, or files it did not offer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.security.stranger import QUIET, Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
TASKS = "/ga4gh/tes/v1/tasks"
INSIDE = (
    "http://127.0.0.1:{port}/secret",
    "http://localhost:{port}/secret",
    "http://[::1]:{port}/secret",
    "http://[::ffff:127.0.0.1]:{port}/secret",
    "http://0.0.0.0:{port}/secret",
    "http://0x7f000001:{port}/secret",
    "http://169.254.169.254/latest/meta-data/iam",
    "http://100.100.100.200/latest/meta-data",
    "ftp://127.0.0.1:{port}/secret",
    "drs://127.0.0.1:{port}/secret",
    "http://10.0.0.1/",
    "http://192.168.0.1/",
)


class Listener:
    """A service of the machine that must hear of nobody."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(self.path)
                self.send_response(200)
                self.end_headers()

            do_PUT = do_GET  # noqa: N815 (the library calls it so)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("offered")
    (made / "shared").mkdir()
    (made / "secret").write_text("secret")
    (made / "shared" / "link").symlink_to(made / "secret")
    (made / "shared" / "out").symlink_to(made)
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Stranger]:
    roots = f"TES:\n  FileRoots:\n    /shared: {{Path: {root / 'shared'}}}\n"
    place = tmp_path_factory.mktemp("addresses") / "data"
    with running_cluster(place, QUIET + roots) as cluster:
        # Without the image a task is refused before its URLs are looked at.
        cluster.lading("image", "add", "--name", "any:1", "--from-host", "true")
        yield Stranger(cluster)


def share_image(site: Stranger, user: str) -> str:
    """Let a user read the image of the tasks; its portable data hash."""
    filters = '[["link_class","=","docker_image_repo+tag"],["name","=","any:1"]]'
    [found] = site.ok("GET", f"links?filters={quote(filters)}")["items"]
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": user,
            "head_uuid": found["head_uuid"]}  # fmt: skip
    site.ok("POST", "links", link)
    return str(site.ok("GET", f"collections/{found['head_uuid']}")["portable_data_hash"])


def end_of(
    site: Stranger, url: str, *, type: str = "FILE", token: str = "", image: str = "any:1"
) -> tuple[str, str]:
    """State and system log of a task with an input, once it has ended; 400 for a refused one."""
    task = {
        "executors": [{"image": image, "command": ["true"]}],
        "inputs": [{"path": "/in/a", "url": url, "type": type}],
    }
    token = token or site.admin
    made = site.send("POST", TASKS, task, token=token)
    if made.status == 400:
        return "400", made.text
    for _ in range(300):
        path = f"{TASKS}/{made.json['id']}?view=FULL"
        found = site.send("GET", path, token=token).json
        if found["state"] != "QUEUED":
            return found["state"], " ".join(found["logs"][0]["system_logs"])
        time.sleep(0.1)
    raise AssertionError(found)


@pytest.mark.attack("has the server fetch from its own machine or an inside network for a task")
@pytest.mark.parametrize("url", INSIDE)
def test_inside_address(site: Stranger, listener: Listener, url: str) -> None:
    state, text = end_of(site, url.format(port=listener.port))
    assert (state, listener.heard) == ("SYSTEM_ERROR", []), text
    assert "inside network" in text or "cannot be looked up" in text


@pytest.mark.attack("has the server fetch from its own machine by the endpoint of a bucket")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "10.0.0.1"])
def test_endpoint_of_a_bucket(site: Stranger, listener: Listener, host: str) -> None:
    bucket = "b" + host.replace(".", "-")
    body = {
        "name": bucket,
        "credential_class": "s3",
        "scopes": [f"s3://{bucket}?endpoint=http://{host}:{listener.port}"],
        "external_id": "x",
        "secret": "y",
        "expires_at": "2100-01-01T00:00:00Z",
    }
    site.ok("POST", "credentials", body)
    for type in ("FILE", "DIRECTORY"):
        state, text = end_of(site, f"s3://{bucket}/secret", type=type)
        assert (state, listener.heard) == ("SYSTEM_ERROR", []), text
        assert "inside network" in text


@pytest.mark.attack("gets files of another user's tasks by sharing a credential with that user")
def test_credential_of_another(site: Stranger, listener: Listener) -> None:
    mallory = site.user("mallory")
    token = site.token(owner=mallory)
    body = {
        "name": "trap",
        "credential_class": "s3",
        "scopes": [f"s3://results?endpoint=http://127.0.0.1:{listener.port}"],
        "external_id": "x",
        "secret": "y",
        "expires_at": "2100-01-01T00:00:00Z",
    }
    made = site.ok("POST", "credentials", body, token=token)
    victim = site.user("victim")
    link = {"link_class": "permission", "name": "can_manage", "tail_uuid": victim,
            "head_uuid": made["uuid"]}  # fmt: skip
    site.ok("POST", "links", link, token=token)
    image = share_image(site, victim)
    state, text = end_of(site, "s3://results/a", token=site.token(owner=victim), image=image)
    # It is looked for at the site's own service, not at that of the attacker.
    assert (state, "inside network" in text, listener.heard) == ("SYSTEM_ERROR", False, []), text


@pytest.mark.attack("has the server read a file of its machine that was not offered for tasks")
@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/shared/../secret", "/shared/%2e%2e/secret", "/shared/link",
     "/shared/out/secret"],
)  # fmt: skip
def test_file(site: Stranger, path: str) -> None:
    state, text = end_of(site, f"file://{path}")
    assert state in ("400", "SYSTEM_ERROR"), text
