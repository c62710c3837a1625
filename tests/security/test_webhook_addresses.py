"""Webhooks that lead the server to itself, its inside networks, or into an endless answer."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.stranger import QUIET, Stranger
from tests.security.test_task_addresses import INSIDE, Listener
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
# One address of the loopback network is allowed, so that an attacker's own receiver can be on this
# machine; the service that must hear of nobody is at another one.
SETTINGS = (
    f"{QUIET}Webhooks:\n  AllowedNetworks: [127.0.0.77/32]\n  Timeout: 2s\n  MaxConcurrent: 4\n"
)


class Mallory:
    """A receiver of the attacker: `/redirect/URL`, `/endless`, `/slow` and `/swell`."""

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                try:
                    self.answer()
                except OSError:
                    self.close_connection = True

            def answer(self) -> None:
                word = self.path.split("/")[1]
                if word == "redirect":
                    self.send_response(307)
                    self.send_header("Location", self.path.removeprefix("/redirect/"))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif word == "endless":
                    self.send_response(200)
                    self.end_headers()
                    while True:
                        self.wfile.write(b"x" * 65536)
                elif word == "swell":
                    while True:
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 65536)
                else:
                    while True:
                        self.wfile.write(b"H")
                        time.sleep(0.1)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.77", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.77:{self.server.server_port}"


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def mallory() -> Iterator[Mallory]:
    made = Mallory()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    place = tmp_path_factory.mktemp("webhooks") / "data"
    with running_cluster(place, SETTINGS) as cluster:
        yield Stranger(cluster)


@pytest.fixture(scope="module")
def user(site: Stranger) -> str:
    return site.token(owner=site.user("mallory"))


def tried(site: Stranger, user: str, url: str) -> dict[str, Any]:
    """How the test of a webhook ended, which is deleted then."""
    made = site.ok("POST", "webhooks", {"url": url}, token=user)
    answer = site.ok("POST", f"webhooks/{made['uuid']}/test", {}, token=user)
    site.send("DELETE", f"/arvados/v1/webhooks/{made['uuid']}", token=user)
    return answer


@pytest.mark.attack("has the server post events to its own machine or an inside network")
@pytest.mark.parametrize("url", [one for one in INSIDE if one.startswith("http")])
def test_inside_address(site: Stranger, user: str, listener: Listener, url: str) -> None:
    answer = tried(site, user, url.format(port=listener.port))
    assert (answer["outcome"] != "delivered", listener.heard) == (True, [])
    assert "inside network" in answer["fault"] or "cannot be looked up" in answer["fault"]


@pytest.mark.attack("has the receiver of a webhook redirect the server to an inside network")
@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}/secret", "http://169.254.169.254/latest/meta-data/"]
)
def test_redirect(
    site: Stranger, user: str, listener: Listener, mallory: Mallory, target: str
) -> None:
    url = f"{mallory.url}/redirect/{target.format(port=listener.port)}"
    answer = tried(site, user, url)
    assert (answer["outcome"], answer["status"], listener.heard) == ("refused", 307, [])


@pytest.mark.attack("answers a webhook without an end, or a byte at a time")
@pytest.mark.parametrize("word", ["endless", "swell", "slow"])
def test_endless_answer(site: Stranger, user: str, mallory: Mallory, word: str) -> None:
    began = time.monotonic()
    answer = tried(site, user, f"{mallory.url}/{word}")
    assert answer["outcome"] == ("delivered" if word == "endless" else "failed")
    # Two seconds, and what a busy machine adds.
    assert time.monotonic() - began < 20


@pytest.mark.attack("puts a header of its own into the deliveries or e-mails of a webhook")
@pytest.mark.parametrize(
    "body",
    [
        {"url": "https://a.example/\r\nX-Evil: 1"},
        {"url": "https://a.example:80\r\n/"},
        {"url": "https://a.example/", "secret": "whsec_\r\nX-Evil: 1"},
        {"url": "mailto:a@b.example\r\nBcc: c@d.example", "format": "email"},
        {"url": "mailto:a@b.example>\nRCPT TO:<c@d.example", "format": "email"},
    ],
)
def test_header_injection(site: Stranger, user: str, body: dict[str, Any]) -> None:
    assert site.send("POST", "/arvados/v1/webhooks", body, token=user).status == 422


@pytest.mark.attack("has the server send e-mail to strangers")
def test_mail_to_strangers(site: Stranger, user: str) -> None:
    body = {"url": "mailto:stranger@elsewhere.example", "format": "email"}
    assert site.send("POST", "/arvados/v1/webhooks", body, token=user).status == 403


@pytest.mark.attack("takes all places for deliveries with receivers that hang")
def test_hanging_receivers(site: Stranger, user: str, mallory: Mallory) -> None:
    other = Mallory()
    got = threading.Event()
    handler: Any = other.server.RequestHandlerClass

    def answer(self: Any) -> None:
        self.send_response(204)
        self.end_headers()
        got.set()

    handler.answer = answer
    made = [
        site.ok("POST", "webhooks", {"url": f"{mallory.url}/slow", "event_types": ["*"]},
                token=user)["uuid"]
        for _ in range(10)
    ]  # fmt: skip
    site.ok("POST", "groups", {"name": "noise", "group_class": "project"}, token=user)
    victim = site.token(owner=site.user("victim"))
    site.ok("POST", "webhooks", {"url": other.url, "event_types": ["lading.group.*"]}, token=victim)
    site.ok("POST", "groups", {"name": "mine", "group_class": "project"}, token=victim)
    assert got.wait(30)
    for uuid in made:
        site.send("DELETE", f"/arvados/v1/webhooks/{uuid}", token=user)
    other.server.shutdown()
    other.server.server_close()


@pytest.mark.attack("reads the address or the events of a webhook of a project that it can read")
def test_url_is_a_secret(site: Stranger, user: str) -> None:
    place = site.ok("POST", "groups", {"name": "shared", "group_class": "project"})["uuid"]
    made = site.ok(
        "POST", "webhooks", {"url": "https://hooks.example/T0/B0/key", "owner_uuid": place}
    )
    me = site.ok("GET", "users/current", token=user)["uuid"]
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": me, "head_uuid": place}
    site.ok("POST", "links", link)
    path = f"/arvados/v1/webhooks/{made['uuid']}"
    assert site.send("GET", path, token=user).status == 404
    assert site.send("GET", f"{path}/deliveries", token=user).status == 404
    logs = site.ok("GET", "logs", token=user)
    assert "hooks.example" not in str(logs)
